"""Chooses the broker of a demo or a test run: the configured one, a local one, or a container.

They are tried in that order. Kafka has no substitute: if none of the three is available, the error
names the reason for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from stream_app.broker import Broker, container, local
from stream_app.broker.jars import Notify
from stream_app.broker.local import to_stderr
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection

Prefer = Literal["auto", "local", "container"]


@contextmanager
def running(
    data_dir: Path | None,
    cache_dir: Path,
    port: int | None = None,
    prefer: Prefer = "auto",
    configured: Connection | None = None,
    notify: Notify = to_stderr,
) -> Iterator[Broker]:
    """Yield a broker for the duration of the block; raises `UserError` if none is available.

    `configured` takes precedence and is only checked. Without `data_dir`, the data of a started
    broker is deleted afterwards.
    """
    if configured:
        clients.describe_cluster(configured)
        yield Broker(configured.bootstrap, "configured")
        return
    with ExitStack() as stack:
        # Entered before the yield, so that a UserError raised in the block is not caught.
        broker = _first(stack, data_dir, cache_dir, port, prefer, notify)
        yield broker


def _first(
    stack: ExitStack,
    data_dir: Path | None,
    cache_dir: Path,
    port: int | None,
    prefer: Prefer,
    notify: Notify,
) -> Broker:
    missing: list[str] = []
    if prefer in ("auto", "local"):
        try:
            return stack.enter_context(local.run(data_dir, cache_dir, port, notify=notify))
        except UserError as refusal:
            missing.append(f"a local Kafka ({refusal})")
    if prefer in ("auto", "container"):
        try:
            return stack.enter_context(container.run(port, notify=notify))
        except UserError as refusal:
            missing.append(f"a container ({refusal})")
    raise UserError(
        "no Kafka is available: tried the configured servers (MURMUREC_BOOTSTRAP_SERVERS is "
        f"not set), then {', then '.join(missing)}"
    )
