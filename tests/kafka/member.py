"""A worker without a model, as a process: who owns the cut log and the table, as lines of JSON.

    python -m tests.kafka.member BOOTSTRAP PREFIX DATA_DIR [--instance NAME] [--no-table] [--slow]

Each line has `event`, `time` (seconds since the process began) and what belongs to it. Lines from
standard input are commands: `claim` and `page N` write to the state topic as the owner would.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import faust
import numpy as np
import structlog

from stream_app.agents.checkpointing.fenced_producer import FencedProducer, gap_reader
from stream_app.agents.faust_ext import group_membership as membership
from stream_app.agents.faust_ext import state_table as table
from stream_app.broker.local import free_ports
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.wire import Topics
from stream_app.wire.state_records import PAGE_BYTES, Claim, ClaimKey, PageKey, encode_claim

SESSION_SECONDS = 6.0


def started() -> float:
    """Return when this process began, in seconds since boot."""
    ticks = int(Path("/proc/self/stat").read_text().rsplit(") ", 1)[1].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


def report(event: str, **more: Any) -> None:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    line = json.dumps({"event": event, "time": round(now - started(), 3), "at": now, **more})
    os.write(1, f"{line}\n".encode())


class Member:
    """One application and the events it receives."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.names = Topics(options.prefix)
        self.ending = asyncio.Event()
        self.failure: BaseException | None = None
        self.loop = asyncio.get_running_loop()
        self.membership = membership.Membership(
            options.instance, options.session, self.fail, on_evicted=self.on_evicted
        )
        self.app = self.application(options)
        membership.attach(self.app, self.membership)
        self.changelog = FencedProducer(
            clients.producer(Connection(options.bootstrap), linger_ms=0),
            self.names.state,
            self.fail,
            lambda generation: report("foreign", generation=generation),
            gap_reader(Connection(options.bootstrap), self.names.state),
            lambda: self.membership.lease_valid,
        )
        self.table: table.StateTable | None = None
        if not options.no_table:
            self.table = table.attach(
                self.app,
                lambda: {"a": np.zeros(3 * PAGE_BYTES, np.uint8)},
                self.changelog,
                assigned_with=self.names.cuts,
                partitions_now=table.partition_counter(Connection(options.bootstrap)),
                acquire=lambda: report("owns"),
                release=lambda: report("disowned"),
                fail=self.fail,
            )
        self.agents()

    def application(self, options: argparse.Namespace) -> faust.App:
        return faust.App(
            options.prefix,
            broker=f"kafka://{options.bootstrap}",
            store="memory://",
            datadir=str(options.data_dir),
            autodiscover=False,
            topic_disable_leader=True,
            topic_allow_declare=False,
            table_standby_replicas=0,
            stream_wait_empty=False,
            broker_session_timeout=options.session,
            broker_heartbeat_interval=1.5,
            broker_request_timeout=options.session + 9.0,
            broker_commit_interval=1.0,
            consumer_auto_offset_reset="latest",
            web_bind="127.0.0.1",
            web_port=free_ports(1)[0],
            **membership.member_identity(options.prefix, options.instance),
            **({} if options.slow else {"TableManager": table.PatientTableManager}),
        )

    def agents(self) -> None:
        cuts = self.app.topic(self.names.cuts, value_type=bytes, value_serializer="raw")
        queries = self.app.topic(self.names.queries, value_type=bytes, value_serializer="raw")

        @self.app.agent(cuts, name="ownership")
        async def ownership(stream: Any) -> None:
            async for _ in stream:
                pass

        @self.app.agent(queries, name="query")
        async def query(stream: Any) -> None:
            async for value in stream:
                report("query", value=value.decode())

        @self.app.on_partitions_revoked.connect(weak=False)
        async def revoked(*_: Any, **__: Any) -> None:
            report("revoked")

        @self.app.on_partitions_assigned.connect(weak=False)
        async def assigned(_: Any, assigned: Any, **__: Any) -> None:
            topics = sorted(
                f"{tp.topic.removeprefix(self.names.prefix)}/{tp.partition}" for tp in assigned
            )
            report("assigned", topics=topics)

        @self.app.on_rebalance_complete.connect(weak=False)
        async def complete(*_: Any, **__: Any) -> None:
            report("recovered")

    def on_evicted(self) -> None:
        report("put_out")
        if self.table is not None:
            self.table.step_down()

    def fail(self, reason: BaseException) -> None:
        self.failure = self.failure or reason
        self.loop.call_soon_threadsafe(self.ending.set)

    def command(self, line: str) -> None:
        word, *rest = line.split()
        claim = ClaimKey(secrets.token_bytes(16))
        key, value = claim.encode(), encode_claim(claim, Claim("test"))
        count = 1
        if word == "page":
            count, value = int(rest[0]), secrets.token_bytes(PAGE_BYTES)
        for number in range(count):
            if word == "page":
                key = PageKey(0, number, 0, self.changelog.generation or 0).encode()
            while True:
                try:
                    self.changelog.produce(
                        key,
                        value,
                        lambda offset: (
                            report("written", offset=offset) if word == "claim" else None
                        ),
                    )
                    break
                except BufferError as full:
                    if not self.membership.lease_valid:
                        report("held_back", reason=str(full))
                        return
                    self.changelog.poll(0.01)
        self.changelog._writer.flush(20)
        report("done", command=line.strip(), position=self.changelog.position)

    def listen(self) -> None:
        try:
            for line in sys.stdin:
                self.command(line)
        except BaseException as reason:  # noqa: BLE001
            self.fail(reason)


async def run(options: argparse.Namespace) -> int:
    try:
        if not options.no_table:
            name = Topics(options.prefix).state
            table.check_partitions(
                name, table.partition_counter(Connection(options.bootstrap))(name)
            )
        held = options.instance and membership.lock_instance(
            options.data_dir, options.prefix, options.instance
        )
        member = Member(options)
        member.loop.add_signal_handler(signal.SIGTERM, member.ending.set)
        threading.Thread(target=member.listen, daemon=True).start()
        report("begins", lock=bool(held))
        starting = asyncio.ensure_future(member.app.start())
        while not (member.ending.is_set() or member.app.crashed):
            await asyncio.sleep(0.05)
        if member.app.crashed and member.failure is None:
            report("crashed", reason=repr(member.app.crash_reason))
        del starting
        threading.Timer(4.0, lambda: os._exit(1)).start()
        await member.app.stop()
        if member.failure is not None:
            raise member.failure
    except UserError as refusal:
        report("refused", sentence=str(refusal))
        return 1
    report("ended")
    return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--session", type=float, default=SESSION_SECONDS)
    parser.add_argument("--instance")
    parser.add_argument("--no-table", action="store_true")
    parser.add_argument("--slow", action="store_true", help="Faust's own TableManager")
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    os._exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
