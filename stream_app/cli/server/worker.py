"""`murmurec worker`: the server that learns from the stream and answers queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.cli.commands import option
from stream_app.cli.options import (
    AllowOption,
    Cluster,
    GroupOption,
    ModelOption,
    connection_from,
    one_blas_thread,
)
from stream_app.cli.output import plural, say
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from stream_app.settings import Settings

# Option of `StartOptions` -> whether a value follows.
_START = {"--from-snapshot": True, "--from": True} | dict.fromkeys(
    ("--rebuild", "--accept-gap", "--reseal"), False
)
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h


@dataclass(frozen=True)
class StartOptions:
    """The start of the state if not the newest checkpoint; at most one of the four options, or
    `rebuild` that accepts a gap."""

    snapshot: Path | None = option(
        None,
        "Start from a file of state export at the newest cut; no effect if it was adopted before.",
        "FILE",
        "--from-snapshot",
    )
    rebuild: bool = option(False, "Start from the log; ignore all checkpoints.")
    accept_gap: bool = option(
        False,
        "Start although records are missing; the state is permanently marked as "
        "incomplete. With --rebuild: drop records that the settings reject.",
    )
    position: str = option(
        "",
        "With --accept-gap: earliest, latest, ts=2026-11-01T00:00:00Z or last=1000.",
        "POSITION",
        "--from",
    )
    reseal: bool = option(
        False, "Trust the newest checkpoint once although its seal is another (state_secret)."
    )

    def __post_init__(self) -> None:
        given = sum(map(bool, (self.snapshot, self.rebuild, self.accept_gap, self.reseal)))
        if given > 1 and not (given == 2 and self.rebuild and self.accept_gap):
            raise UsageError(
                "--from-snapshot, --rebuild, --accept-gap and --reseal: give only one of them, or "
                "--rebuild --accept-gap"
            )
        if self.position and self.rebuild:
            raise UsageError(f"--from {self.position}: --rebuild reads the log from its beginning")
        if self.position and not self.accept_gap:
            raise UsageError(
                f"--from {self.position}: discards the records before it; confirm with --accept-gap"
            )

    def apply(self, settings: Settings) -> None:
        """Write the checkpoint from which every worker will start."""
        if not (self.snapshot or self.rebuild or self.accept_gap or self.reseal):
            return
        from stream_app.operations import adopt
        from stream_app.operations.rebuild import rebuild
        from stream_app.operations.session import Session

        for session in Session.each(settings):
            if self.snapshot:
                adopt.from_snapshot(session, self.snapshot)
            elif self.rebuild:
                rebuild(session, drop=self.accept_gap)
            elif self.reseal:
                adopt.reseal(session)
            else:
                adopt.over_a_gap(session, self.position)


def worker(
    cluster: Cluster,
    start: StartOptions,
    warmup: bool = option(False, "Only compile the kernels into their cache; no Kafka needed."),
    allow: AllowOption = None,
    model: ModelOption = None,
    admin_port: int | None = option(
        None, "Port of /metrics and /state; 0: any (env MURMUREC_ADMIN_PORT).", "PORT"
    ),
    group: GroupOption = None,
    shard: int | None = option(
        None, "Hold this shard alone, 0 to shards - 1 (env MURMUREC_SHARD).", "S"
    ),
    instance: str | None = option(
        None, "Static name in the group, for a fast restart (env MURMUREC_INSTANCE).", "NAME"
    ),
) -> None:
    """Learn from the stream, answer queries and serve /metrics; SIGTERM ends it cleanly.

    A worker starts from the newest checkpoint and replays the records after it; /readyz reports the
    progress. Without a checkpoint it replays the whole log. Compiled kernels are valid for one
    processor model and one version: --warmup compiles them before the first start.

    Of several shards it holds those that its group gives it, each in a process of its own.

    Example: murmurec worker --bootstrap localhost:9092 --allow rr:5:2
    """
    # Item sides are derived beside the stream: more threads would take the cores on which it is
    # learned.
    one_blas_thread()
    _return_large_blocks()
    settings = cluster.settings(
        allow=allow,
        model=model,
        admin_port=admin_port,
        group=group,
        instance=instance,
        shard=shard,
    )
    if settings.shards > 1:
        from stream_app.deployment import spec_from_settings

        spec_from_settings(settings)  # refuses shards that cannot be
    if warmup:
        _compile(settings)
    elif settings.shards > 1 and settings.shard is None:
        _hold_shards(settings, start)
    else:
        _serve(settings, start)


def _compile(settings: Settings) -> None:
    """Fill the cache of compiled kernels, so that a worker starts without compiling."""
    import os
    import time

    from stream_app.agents.warmup import compiled
    from stream_app.deployment import spec_from_settings

    began = time.monotonic()
    count = compiled(spec_from_settings(settings), settings.index)
    say(
        f"{plural(count, 'kernel')} compiled in {time.monotonic() - began:.1f} s; the "
        f"others were in the cache {os.environ['NUMBA_CACHE_DIR']}"
    )


def _return_large_blocks() -> None:
    """Make the C library return freed arrays of 1 MiB and more to the system.

    glibc raises this limit to 32 MiB by itself. Tables that a thread derives every second would
    then stay in the heap of each thread: the demo's worker grew by 600 MB in a minute.
    """
    import ctypes
    import os

    options = getattr(ctypes.CDLL(None), "mallopt", None)
    if options is not None and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        options(_MMAP_THRESHOLD, 1 << 20)


def _serve(settings: Settings, start: StartOptions) -> None:
    """Check the broker and its topics, and run the worker until it is stopped."""
    import asyncio
    from importlib import import_module

    from stream_app.broker.local import free_ports
    from stream_app.kafka import acls, clients, topic_checks
    from stream_app.kafka.background_thread import BackgroundThread
    from stream_app.monitoring.log_setup import configure
    from stream_app.operations.watching.examination import check_topics
    from stream_app.wire import Topics

    connection = connection_from(settings)
    names = Topics(settings.topic_prefix, settings.shards, settings.shard or 0)
    configure(settings.log_level, settings.log_format)
    # The imports take a second, in which the broker is checked.
    importing = BackgroundThread("imports", lambda: import_module("stream_app.agents.application"))
    importing.start()
    clients.describe_cluster(connection)
    topic_checks.check_shards(connection, names)
    used = acls.of_role("worker", names, settings.features)
    acls.check(connection, used, "worker", settings.worker_group)
    check_topics(connection, settings, used)
    # Before anything else imports numba: two threads that import it at once may each meet it half
    # initialized.
    importing.join()
    start.apply(settings)
    from stream_app.agents import application

    port = settings.admin_port or free_ports(1)[0]
    asyncio.run(application.run(settings, connection, port))


def _hold_shards(settings: Settings, start: StartOptions) -> None:
    """Hold the shards that the group of the workers gives this one, until it is stopped."""
    import sys

    from stream_app.agents.shards.shard_worker import ShardWorker
    from stream_app.kafka import clients, topic_checks
    from stream_app.monitoring.log_setup import configure
    from stream_app.wire import Topics

    connection, names = connection_from(settings), Topics(settings.topic_prefix, settings.shards)
    configure(settings.log_level, settings.log_format)
    clients.describe_cluster(connection)
    topic_checks.check_shards(connection, names)
    start.apply(settings)
    if code := ShardWorker(settings, connection, _without_start(sys.argv[1:])).run():
        sys.exit(code)


def _without_start(words: Sequence[str]) -> list[str]:
    """Return the words of a command without `StartOptions`, which are applied once."""
    kept, is_value = list[str](), False
    for word in words:
        name, equals, _ = word.partition("=")
        if not is_value and name not in _START:
            kept.append(word)
        is_value = not is_value and _START.get(name, False) and not equals
    return kept
