"""Which broker a demo or a test run uses: the configured one, a local one, or one in a container.

They are tried in that order. Nothing stands in for Kafka: where none of the three is there, one
sentence says what was missing of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from stream_app.broker import Broker, container, local
from stream_app.broker.jars import Tell
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
    tell: Tell = to_stderr,
) -> Iterator[Broker]:
    """Give a broker for the length of the block; raises `UserError` where there is none.

    `configured` wins and is only checked.
    Without `data_dir` a broker that is started forgets everything afterwards.
    """
    if configured:
        clients.describe_cluster(configured)
        yield Broker(configured.bootstrap, "configured")
        return
    with ExitStack() as stack:
        # Entered before the yield: a UserError of the block is never taken for one of these.
        broker = _first(stack, data_dir, cache_dir, port, prefer, tell)
        yield broker


def _first(
    stack: ExitStack,
    data_dir: Path | None,
    cache_dir: Path,
    port: int | None,
    prefer: Prefer,
    tell: Tell,
) -> Broker:
    missing: list[str] = []
    if prefer in ("auto", "local"):
        try:
            return stack.enter_context(local.run(data_dir, cache_dir, port, tell=tell))
        except UserError as refusal:
            missing.append(f"a local Kafka ({refusal})")
    if prefer in ("auto", "container"):
        try:
            return stack.enter_context(container.run(port, tell=tell))
        except UserError as refusal:
            missing.append(f"a container ({refusal})")
    raise UserError(
        "there is no Kafka: tried the configured bootstrap servers (MURMUREC_BOOTSTRAP_SERVERS is "
        f"not set), then {', then '.join(missing)}"
    )
