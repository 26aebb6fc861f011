"""Building the worker, and running it until a signal or a failure ends it.

build    settings -> a Faust application with every stage attached, and the stages' Runtime
run      start, wait for the end, write a last checkpoint, stop

The clock is of the worker with the one partition of the cut log. Kafka assigns it to exactly one
worker of the group; when that worker dies, another has it after the session timeout. A frozen
former owner that still writes does no harm: see `log/cut_clock.py`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import faust
import structlog
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka.admin import AdminClient

from stream_app.agents import http_views, learn
from stream_app.agents import public_tables as item_table
from stream_app.agents.campaigns import owner as campaigns
from stream_app.agents.checkpointing import assembly
from stream_app.agents.checkpointing.assembly import StateTopicScan
from stream_app.agents.checkpointing.checkpoint_service import CheckpointService
from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.exchange_writer import ExchangeWriter
from stream_app.agents.faust_ext import group_membership
from stream_app.agents.faust_ext.faust_app import SESSION_SECONDS, new_app
from stream_app.agents.faust_ext.group_membership import Membership, lock_instance
from stream_app.agents.log_reader import LogReader, Progress
from stream_app.agents.queries.answers import Answers
from stream_app.agents.queries.reader import QueryReader
from stream_app.agents.ranking_service import RankingService
from stream_app.agents.rejections import RejectionWriter, patient_producer
from stream_app.agents.runtime import Runtime, new_runtime
from stream_app.checkpoints import checkpoint_reader
from stream_app.checkpoints.checkpoint_reader import Checkpoint
from stream_app.checkpoints.design_in_force import differences, with_design
from stream_app.checkpoints.design_line import DesignLine, line_of
from stream_app.checkpoints.protocol.recovery import Recovery
from stream_app.deployment import (
    Deployment,
    settings_in_force,
)
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_checks
from stream_app.kafka.clients import Connection
from stream_app.log.canonical_order import Start
from stream_app.log.cut_clock import Clock
from stream_app.monitoring.metrics import Metrics
from stream_app.replay.cut_history import check_origin, history
from stream_app.replay.follower import Follower
from stream_app.settings import Settings
from stream_app.state.design import entry_of
from stream_app.state.spec import StateSpec
from stream_app.wire.state_records import StateOrigin

log = structlog.get_logger()


def follow_ownership(app: faust.App, runtime: Runtime, clock: Clock) -> None:
    """Follow the assignment of the cut log's partition; the messages are read by the reader."""
    name = runtime.topics.cuts
    topic = app.topic(name, value_type=bytes, value_serializer="raw")

    @app.agent(topic, name="ownership")
    @crash_guard(runtime.status)
    async def ownership(stream: Any) -> None:
        async for _ in stream:
            pass

    @app.on_partitions_assigned.connect(weak=False)
    async def assigned(_: Any, assigned: Any, **__: Any) -> None:
        owned = any(tp.topic == name for tp in assigned)
        if owned and not clock.owned:
            clock.acquire()
            log.info("clock.owned", topic=name)
        elif not owned and clock.owned:
            clock.release()
            log.info("clock.given_up", topic=name)
        runtime.status.clock_owned = owned

    @app.on_partitions_revoked.connect(weak=False)
    async def revoked(_: Any, revoked: Any, **__: Any) -> None:
        if any(tp.topic == name for tp in revoked):
            clock.release()
            runtime.status.clock_owned = False


_STOP_SECONDS = 4.5
_LAST_SECONDS = 2.5
_LOOK_SECONDS = 2.0


@dataclass(frozen=True, eq=False)
class WorkerParts:
    """A worker that is built but not started."""

    app: faust.App
    runtime: Runtime
    checkpoints: CheckpointService
    reader: LogReader
    queries: QueryReader


def build(
    settings: Settings, connection: Connection, admin_port: int, data_dir: Path
) -> WorkerParts:
    """Return a worker with every stage attached; call it inside a running event loop."""
    settings, spec = _in_force(settings)
    runtime = new_runtime(settings, spec)
    topics, status = runtime.topics, runtime.status
    membership = Membership(settings.instance, SESSION_SECONDS, status.fail_from_thread)
    app = new_app(settings, connection, admin_port, data_dir)
    group_membership.attach(app, membership)
    # Separate producers: rejections cannot fill the queue of the cut log's producer.
    patient = partial(patient_producer, connection, linger_ms=20)
    rejections = RejectionWriter(patient(), topics.rejected, status.fail_from_thread)
    runtime.reject = rejections
    clock = Clock(
        runtime.replica.spec.digest,
        settings.cut_seconds,
        settings.round_records,
        checkpoint_seconds=settings.checkpoint_seconds,
        retention_seconds=settings.ratings_retention_seconds,
        opening=entry_of(None, spec).sealed(runtime.seal),
    )
    scan = StateTopicScan(connection, topics, runtime.seal)
    reader = _reader(app, runtime, connection, clock, scan)
    runtime.append = reader.append
    checkpoints = assembly.attach(app, runtime, connection, membership, rejections, scan)
    runtime.checkpoints = checkpoints
    runtime.ranking = RankingService(runtime.recommender, runtime.metrics, runtime.status)
    if spec.shards > 1:
        changes = patient(compression_type="zstd", **clients.LARGE_BATCHES)
        runtime.exchange = ExchangeWriter(runtime, changes)
    follow_ownership(app, runtime, clock)
    campaigns.attach(app, runtime, connection)
    http_views.attach(app, runtime)
    if spec.shard == 0:  # of public tables there is one writer
        item_table.attach(app, runtime, patient())
        item_table.attach_links(
            app, runtime, connection, patient(), lambda: runtime.recommender.side
        )
    _attach_timers(app, runtime, checkpoints, rejections)

    queries = _query_reader(app, runtime, connection)

    @app.task
    async def read() -> None:
        await app.add_runtime_dependency(reader)
        await app.add_runtime_dependency(queries)

    return WorkerParts(app, runtime, checkpoints, reader, queries)


def _in_force(settings: Settings) -> tuple[Settings, StateSpec]:
    """Return the settings, with those of the log where the log decides them, and the design."""
    own = Deployment.from_settings(settings)
    spec = with_design(own).spec
    if differ := differences(spec, own.spec):
        log.warning("settings.differ", differ=differ, fix="murmurec config plan, then apply")
    return settings_in_force(settings, spec), spec


def _attach_timers(
    app: faust.App, runtime: Runtime, checkpoints: CheckpointService, rejections: RejectionWriter
) -> None:
    """Publish the gauges every second, and flush the rejections at shutdown."""
    gauges, metrics, status = runtime.gauges, runtime.metrics, runtime.status

    @app.timer(1.0)
    @crash_guard(status)
    async def publish_gauges() -> None:
        gauges.publish()
        checkpoints.checkpoint_when_idle()
        if runtime.ranking is not None and not runtime.mid_round:
            runtime.ranking.at_cut()
        if runtime.exchange is not None and not runtime.mid_round:
            runtime.exchange.at_cut()
        rejections.serve()
        metrics.ready(not runtime.ready_reason())
        metrics.clock_owner(status.clock_owned)
        if status.broker_unreachable:
            metrics.lag(nan, nan)

    @app.timer(10.0)
    @crash_guard(status)
    async def publish_fill() -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, gauges.publish_fill)
        await loop.run_in_executor(None, _publish_disks, runtime.settings.data_dir, metrics)

    @app.on_before_shutdown.connect(weak=False)
    async def flush(*_: Any, **__: Any) -> None:
        rejections.close()


def _publish_disks(data_dir: Path, metrics: Metrics) -> None:
    """Publish what is free where this worker, and a broker beside it, write."""
    with suppress(OSError):  # absent before the first file
        metrics.disk_free("data", shutil.disk_usage(data_dir).free)
    with suppress(OSError):  # absent: the broker is elsewhere
        metrics.disk_free("broker", shutil.disk_usage(data_dir / "broker").free)


def _reader(
    app: faust.App, runtime: Runtime, connection: Connection, clock: Clock, scan: StateTopicScan
) -> LogReader:
    """Return the reader, which hands the records of the log to the learn agent."""
    settings, topics = runtime.settings, runtime.topics
    deployment = Deployment(connection, topics, runtime.replica.spec, runtime.seal)

    def log_recovery(read: Recovery) -> None:
        runtime.metrics.unsealed(read.unsealed)
        (log.warning if read.damaged or read.foreign or read.unsealed else log.info)(
            "checkpoint.read",
            topic=topics.state,
            records=read.records,
            damaged=read.damaged,
            foreign=read.foreign,
            unsealed=read.unsealed,
        )

    def recover(progress: Progress) -> Checkpoint | None:
        found = checkpoint_reader.read_checkpoint(deployment, progress, log_recovery)
        if found is not None:
            scan.remember(found.survey)
        runtime.status.await_kernels()  # nothing is applied before the kernels are compiled
        return found

    def follow(start: Start, spec: StateSpec | None) -> Follower:
        line = DesignLine(spec) if spec else line_of(deployment, start.cut)
        records = settings.round_records
        return Follower(deployment, start, records, runtime.catalogue, line=line)

    def first_origin() -> StateOrigin:
        check_origin(deployment)
        past = history(deployment)
        excluded = past.forgotten(past.next_number - 1, rebuild_only=True)
        return StateOrigin(0, (0,) * settings.partitions, excluded=excluded)

    cuts = clients.producer(deployment.connection, linger_ms=0)
    channel = learn.attach(app, runtime)
    check = _topic_check(runtime, clients.admin(deployment.connection))
    return LogReader(runtime, recover, first_origin, follow, clock, cuts, channel, check)


def _topic_check(runtime: Runtime, admin: AdminClient) -> Callable[[], None]:
    """Return the check of the topics under a running worker.

    A recreated rating topic ends the worker. One that takes what it should not makes it not ready,
    with the command that sets it: what is in the log is read and rejected all the same, so learning
    goes on, and one command makes every worker ready again.
    """
    topics, status = runtime.topics, runtime.status
    read = topics.read_from_outsiders()
    same = checkpoint_reader.SameTopic(admin, topics.ratings)

    def check() -> None:
        same.check()
        fault = topic_checks.outsiders_fault(admin, read, _LOOK_SECONDS)
        if fault and fault != status.intake_fault:
            log.warning("topics.differ", reason=fault)
        status.intake_fault = status.intake_fault if fault is None else fault

    return check


def _query_reader(app: faust.App, runtime: Runtime, connection: Connection) -> QueryReader:
    """Return the reader of the queries; a reply that waits 10 s makes room for others."""
    replies = clients.producer(
        connection,
        linger_ms=0,
        message_timeout_ms=10_000,
        queue_buffering_max_kbytes=16_384,
        compression_type="none",  # a compressed reply has the length of its contents again
    )
    answers = Answers(runtime, replies)
    return QueryReader(runtime, connection, app.conf.id, answers, SESSION_SECONDS)


async def run(settings: Settings, connection: Connection, admin_port: int) -> None:
    """Run a worker until SIGTERM, SIGINT or a failure; raises the failure."""
    loop = asyncio.get_running_loop()
    # Decoding makes thousands of short-lived objects a second: the collector skips the imported
    # modules, and runs every 50,000 objects instead of every 700.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    folder = settings.cache_dir / "worker"
    folder.mkdir(parents=True, exist_ok=True)
    # The lock lasts while the file is open: as long as the process lives.
    lock = settings.instance and lock_instance(
        settings.data_dir, settings.topic_prefix + settings.of_shard, settings.instance
    )
    worker = build(settings, connection, admin_port, folder)
    status = worker.runtime.status
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, status.ending.set)
    worker.reader.read_ahead()
    await _until_ended(worker, f"{settings.admin_host}:{admin_port}")
    failure = _as_user_error(status.failure or worker.app.crash_reason)
    log.info("worker.stopping", reason=type(failure).__name__ if failure else "asked")
    await _stop(worker, failure)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Without the handlers of the loop, a second signal would end the process like a crash.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    if lock:
        lock.close()
    if (failure := failure or status.failure) is not None:
        raise failure


async def _stop(worker: WorkerParts, failure: BaseException | None) -> None:
    """Hand over the queries, write a last checkpoint meanwhile, unless a failure ends the worker,
    and stop the application."""
    # Faust's consumer thread may outlive its event loop and would then print a traceback.
    threading.excepthook = lambda ended: log.warning("thread.ended", reason=repr(ended.exc_value))
    _limit_stop_time(failure)
    handing_over = asyncio.ensure_future(worker.queries.hand_over())
    async with AsyncExitStack() as ends:  # each, whichever fails
        ends.push_async_callback(worker.app.stop)
        ends.callback(worker.checkpoints.close)
        ends.push_async_callback(lambda: handing_over)
        if failure is None and not await worker.checkpoints.finish(_LAST_SECONDS):
            log.warning("checkpoint.last_missing", cut=worker.runtime.replica.cut)


def _as_user_error(failure: BaseException | None) -> BaseException | None:
    """Return the failure, as a UserError where the broker withdrew an access right."""
    if isinstance(failure, TopicAuthorizationFailedError):
        return UserError(
            f"the worker lost access to a topic that it reads ({failure}): restore READ on it"
        )
    return failure


async def _until_ended(worker: WorkerParts, address: str) -> None:
    """Start the application; return on a request to end or a crash."""
    app, status = worker.app, worker.runtime.status
    starting = asyncio.ensure_future(app.start())
    ending = asyncio.ensure_future(status.ending.wait())
    crashed = asyncio.ensure_future(_crash_of(app))
    try:
        await asyncio.wait({starting, ending, crashed}, return_when=asyncio.FIRST_COMPLETED)
        reason = starting.exception() if starting.done() else None
        if isinstance(reason, OSError):
            raise UserError(
                f"{address} cannot be served ({reason.strerror}): choose another address with "
                "--admin-port or admin_host"
            )
        if reason is not None:
            raise reason
        if not ending.done():
            log.info("worker.started", admin=f"http://{address}")
        await asyncio.wait({ending, crashed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (starting, ending, crashed):
            task.cancel()


async def _crash_of(app: faust.App) -> None:
    while not app.crashed:
        await asyncio.sleep(0.2)


def _limit_stop_time(failure: BaseException | None) -> None:
    """End the process after `_STOP_SECONDS` at the latest: without a broker Faust waits longer.

    No data is lost: state is rebuilt from the log and unsent rejections are sent again.
    """

    def give_up() -> None:
        log.warning("worker.stop_timed_out", seconds=_STOP_SECONDS)
        if failure is not None:
            sys.stderr.write(f"murmurec: {failure}\n")
            sys.stderr.flush()
        os._exit(1 if failure else 0)

    timer = threading.Timer(_STOP_SECONDS, give_up)
    timer.daemon = True
    timer.start()
