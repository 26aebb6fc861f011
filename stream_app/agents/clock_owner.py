"""Ownership of the clock: it goes to the worker with the one partition of the cut log.

Kafka assigns the partition of an agent's topic to exactly one worker of the group; when that worker
dies, another worker has it after the session timeout. The agent ignores its messages (the reader
thread reads the cut log); only the assignment matters. A frozen former owner that still writes does
no harm: see `log/cut_clock.py`.
"""

from __future__ import annotations

from typing import Any

import faust
import structlog

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.log.cut_clock import Clock

log = structlog.get_logger()


def attach(app: faust.App, runtime: Runtime, clock: Clock) -> None:
    """Follow the assignment of the cut log's partition."""
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
