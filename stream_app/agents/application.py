"""Building the worker: settings in, a Faust application with every stage attached out; then run
until told to stop.

Faust keeps membership, the ownership of the clock, the query stream and the web view. It commits
nothing that matters: the state is a function of the log, and the reader positions itself.
"""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import signal
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from math import nan
from pathlib import Path
from typing import Any

import faust
import structlog
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from stream_app.agents import clock_owner, http_views, item_table, learn, query
from stream_app.agents.checkpointing.fenced_producer import FencedProducer, gap_reader
from stream_app.agents.checkpointing.service import CheckpointService
from stream_app.agents.checkpointing.state_topic_scan import scan_state_topic
from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.faust_ext import state_table
from stream_app.agents.faust_ext.group_membership import Membership, lock_instance, member_identity
from stream_app.agents.faust_ext.group_membership import attach as attach_membership
from stream_app.agents.faust_ext.table_manager import PatientTableManager
from stream_app.agents.log_reader import LogReader, Progress
from stream_app.agents.rejections import RejectionWriter
from stream_app.agents.runtime import Runtime
from stream_app.agents.warmup import warm_up
from stream_app.checkpoints import reader as checkpoint_reader
from stream_app.checkpoints.protocol.recovery import Found, Recovery
from stream_app.deployment import new_replica, spec_from_settings
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.log.canonical_order import Start
from stream_app.log.cut_clock import Clock
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.replay.cut_history import check_origin, history
from stream_app.replay.follower import Follower
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.settings import Settings
from stream_app.wire import Topics
from stream_app.wire.state_records import StateOrigin

log = structlog.get_logger()
_SESSION_SECONDS = 6.0
_STOP_SECONDS = 4.5
_LAST_SECONDS = 2.5
_LARGEST_BYTES = 4 << 20  # a manifest of a large state; the topic takes as much


def build(
    settings: Settings, bootstrap: str, admin_port: int, data_dir: Path
) -> tuple[faust.App, Runtime]:
    """Return the application and what its stages share; call it inside a running event loop."""
    topics = Topics(settings.topic_prefix)
    design = spec_from_settings(settings)
    replica = new_replica(design)
    catalogue = Catalogue()
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    metrics = Metrics(registry)
    metrics.build({"model": settings.model})
    recommender = Recommender(replica, catalogue, settings.index, settings.code_bits)
    gauges = Gauges(metrics, replica, recommender)
    runtime = Runtime(
        settings, topics, replica, catalogue, recommender, gauges, reject=lambda _: None
    )
    metrics.privacy_mode(runtime.privacy)
    metrics.clip_threshold(settings.clip)
    for mechanism in design.mechanisms:
        metrics.epsilon_claimed(mechanism.id, str(mechanism.adjacency), mechanism.epsilon)
    membership = Membership(settings.instance, _SESSION_SECONDS, runtime.fail_from_thread)
    app = _application(settings, bootstrap, admin_port, data_dir)
    attach_membership(app, membership)
    # A producer each: however many records are set aside, a cut finds room in its own queue.
    rejections = RejectionWriter(
        _patient_producer(bootstrap, settings, linger_ms=20),
        topics.rejected,
        runtime.fail_from_thread,
    )
    runtime.reject = rejections
    clock = Clock(
        design.digest,
        settings.cut_seconds,
        settings.round_records,
        checkpoint_seconds=settings.checkpoint_seconds,
    )
    reader = _reader(app, runtime, bootstrap, clock)
    checkpoints = _checkpoints(app, runtime, bootstrap, membership, rejections, reader)
    runtime.checkpoints = checkpoints
    clock_owner.attach(app, runtime, clock)
    query.attach(app, runtime)
    http_views.attach(app, runtime)
    item_table.attach(app, runtime, _patient_producer(bootstrap, settings, linger_ms=20))

    @app.task
    async def read() -> None:
        await app.add_runtime_dependency(reader)

    @app.timer(1.0)
    @crash_guard(runtime)
    async def publish_gauges() -> None:
        gauges.publish()
        checkpoints.checkpoint_when_idle()
        rejections.serve()
        metrics.ready(not runtime.ready_reason())
        if runtime.broker_unreachable:
            metrics.lag(nan, nan)

    @app.timer(10.0)
    @crash_guard(runtime)
    async def publish_fill() -> None:
        await asyncio.get_running_loop().run_in_executor(None, gauges.publish_fill)

    @app.on_before_shutdown.connect(weak=False)
    async def flush(*_: Any, **__: Any) -> None:
        rejections.close()

    return app, runtime


def _patient_producer(bootstrap: str, settings: Settings, **more: Any) -> Producer:
    """Return a producer that waits for a broker that is away as long as it takes, but for a topic
    that is gone only five seconds, not half a minute: then a refusal ends the process."""
    return clients.producer(
        bootstrap,
        settings.kafka,
        message_timeout_ms=0,
        topic_metadata_propagation_max_ms=5000,
        **more,
    )


def _reader(app: faust.App, runtime: Runtime, bootstrap: str, clock: Clock) -> LogReader:
    """Return the reader of the log, which hands it to the learn agent."""
    settings, topics, design = runtime.settings, runtime.topics, runtime.replica.spec
    pool = ThreadPoolExecutor(1, "murmurec-warm-up")
    warming = pool.submit(warm_up, design, settings.index, settings.code_bits)
    pool.shutdown(wait=False)

    def tell(read: Recovery) -> None:
        (log.warning if read.damaged or read.foreign else log.info)(
            "checkpoint.read",
            topic=topics.state,
            records=read.records,
            damaged=read.damaged,
            foreign=read.foreign,
        )

    def recover(progress: Progress) -> Found | None:
        found = checkpoint_reader.read_checkpoint(
            bootstrap, settings.kafka, topics, design.digest, settings.partitions, progress, tell
        )
        warming.result()  # nothing is applied before the kernels are there
        return found

    def follow(start: Start) -> Follower:
        return Follower(
            bootstrap,
            settings.kafka,
            topics,
            design.intake,
            settings.round_records,
            runtime.catalogue,
            design.digest,
            start=start,
        )

    def first_origin() -> StateOrigin:
        check_origin(bootstrap, settings.kafka, topics, settings.partitions, design.digest)
        past = history(bootstrap, settings.kafka, topics, settings.partitions)
        gone = past.forgotten(len(past.cuts), rebuild_only=True)
        return StateOrigin(0, (0,) * settings.partitions, excluded=gone)

    cuts = clients.producer(bootstrap, settings.kafka, linger_ms=0)
    same = checkpoint_reader.SameTopic(clients.admin(bootstrap, settings.kafka), topics.ratings)
    channel = learn.attach(app, runtime)
    return LogReader(runtime, recover, first_origin, follow, clock, cuts, channel, same.check)


def _checkpoints(
    app: faust.App,
    runtime: Runtime,
    bootstrap: str,
    membership: Membership,
    rejections: RejectionWriter,
    reader: LogReader,
) -> CheckpointService:
    """Return the checkpoints, written by whoever has the state's table."""
    settings, topics = runtime.settings, runtime.topics
    topic_id = checkpoint_reader.topic_id(clients.admin(bootstrap, settings.kafka), topics.ratings)
    producer = _patient_producer(
        bootstrap,
        settings,
        linger_ms=5,
        compression_type="lz4",
        message_max_bytes=_LARGEST_BYTES,
    )

    def later_claim(generation: int) -> None:
        log.warning("checkpoint.claimed_by_another", generation=generation)
        owned.step_down()

    pages = FencedProducer(
        producer,
        topics.state,
        runtime.fail_from_thread,
        later_claim,
        gap_reader(bootstrap, settings.kafka, topics.state),
        lambda: membership.lease_valid,
    )
    runtime.witness = reader.append
    checkpoints = CheckpointService(
        runtime,
        pages,
        reader.append,
        rejections,
        topic_id,
        lambda: scan_state_topic(bootstrap, settings.kafka, topics),
        f"{platform.node()}:{settings.instance or os.getpid()}",
    )
    owned = state_table.attach(
        app,
        runtime.replica.model_arrays,
        pages,
        assigned_with=topics.cuts,
        partitions_now=state_table.partition_counter(bootstrap, settings.kafka),
        acquire=checkpoints.acquire,
        release=checkpoints.release,
        fail=runtime.fail_from_thread,
    )
    membership.on_evicted = owned.step_down
    return checkpoints


def _application(settings: Settings, bootstrap: str, admin_port: int, data_dir: Path) -> faust.App:
    return faust.App(
        settings.group or f"{settings.topic_prefix}-worker",
        broker=[f"kafka://{address.strip()}" for address in bootstrap.split(",")],
        broker_credentials=credentials(settings.kafka),
        store="memory://",
        datadir=str(data_dir),
        autodiscover=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=False,
        broker_session_timeout=_SESSION_SECONDS,
        broker_heartbeat_interval=1.5,
        broker_request_timeout=15.0,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="latest",
        producer_linger=0,
        web_bind=settings.admin_host,
        web_host=settings.admin_host,
        web_port=admin_port,
        web_tables_enabled=False,
        web_router_enabled=False,
        table_standby_replicas=0,
        TableManager=PatientTableManager,
        **member_identity(settings.topic_prefix, settings.instance),
    )


def credentials(extra: dict[str, str]) -> Any:
    """Return Faust's form of librdkafka's security properties, None for a plain connection."""
    protocol = extra.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return None
    context = None
    if protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=extra.get("ssl.ca.location"))
        certificate = extra.get("ssl.certificate.location")
        if certificate:
            context.load_cert_chain(certificate, extra.get("ssl.key.location"))
    if protocol == "SSL":
        return faust.SSLCredentials(context)
    mechanism = extra.get("sasl.mechanism", extra.get("sasl.mechanisms", "PLAIN"))
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        raise UserError(f"sasl.mechanism {mechanism}: a worker knows PLAIN and SCRAM-SHA-256/512")
    return faust.SASLCredentials(
        username=extra.get("sasl.username"),
        password=extra.get("sasl.password"),
        mechanism=mechanism,
        ssl_context=context,
    )


async def run(settings: Settings, bootstrap: str, admin_port: int) -> None:
    """Run a worker until SIGTERM or SIGINT, or until something ends it; raises what ended it."""
    loop = asyncio.get_running_loop()
    # Decoding makes thousands of short-lived objects a second: the collector need not look at the
    # imported modules each time, nor come every 700 objects.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    # Faust wants a folder, in which nothing is kept.
    folder = settings.cache_dir / "worker"
    folder.mkdir(parents=True, exist_ok=True)
    # Kept open, and so locked, for as long as the process lives.
    held = settings.instance and lock_instance(
        settings.data_dir, settings.topic_prefix, settings.instance
    )
    app, runtime = build(settings, bootstrap, admin_port, folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.ending.set)
    await _until_ended(app, runtime, f"{settings.admin_host}:{admin_port}")
    failure = _as_refusal(runtime.failure or app.crash_reason)
    log.info("worker.stopping", reason=type(failure).__name__ if failure else "asked")
    # Faust's consumer thread may outlive the loop that it reports to, and would tell it on stderr.
    threading.excepthook = _log_thread_end
    _limit_stop_time(failure)
    if runtime.checkpoints is not None:
        if failure is None and not await runtime.checkpoints.finish(_LAST_SECONDS):
            log.warning("checkpoint.last_missing", cut=runtime.replica.cut)
        runtime.checkpoints.close()
    await app.stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # The loop takes its handlers with it: a second word would end the process as a crash does.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    if held:
        held.close()
    if (failure := failure or runtime.failure) is not None:
        raise failure


def _log_thread_end(ended: threading.ExceptHookArgs) -> None:
    log.warning("thread.ended", reason=repr(ended.exc_value))


def _as_refusal(failure: BaseException | None) -> BaseException | None:
    """Return what ended the worker, as a sentence where it is a right that was taken away."""
    if isinstance(failure, TopicAuthorizationFailedError):
        return UserError(
            f"the worker may not go on with what it reads ({failure}); check the topic and the "
            "right to read it"
        )
    return failure


async def _until_ended(app: faust.App, runtime: Runtime, address: str) -> None:
    """Start the application and return when it was told to end or has crashed."""
    starting = asyncio.ensure_future(app.start())
    ending = asyncio.ensure_future(runtime.ending.wait())
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
    """End the process after `_STOP_SECONDS` whatever still waits: without its broker Faust would
    wait long.

    Nothing is lost by it: the state is that of the log, and what was not told is told again.
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
