"""Whether Kafka and its topics are there, looked at by a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from aiohttp import web
from confluent_kafka.admin import AdminClient

from stream_app.errors import NotAdmitted, UserError
from stream_app.kafka import acls, clients
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.wire.topics import grown

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway

_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0


class Readiness:
    """What the gateway waits for: a sentence, or None when it is ready."""

    def __init__(self) -> None:
        self.waiting_for: str | None = "Kafka"
        self.was_ready = False
        self.failure: str | None = None
        self.failed = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether events can be written."""
        return self.waiting_for is None

    def fail(self, sentence: str) -> None:
        """End the gateway, from its event loop: only a new process can go on."""
        self.failure = sentence
        self.failed.set()


def watching(gateway: Gateway) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return the context in which a thread keeps the gateway's readiness current."""

    async def context(_: web.Application) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def fail(sentence: str) -> None:
            loop.call_soon_threadsafe(gateway.readiness.fail, sentence)

        thread = BackgroundThread("readiness", lambda: _watch(gateway, thread, fail))
        thread.start()
        yield
        thread.end()  # it may wait for Kafka: it is not waited for

    return context


def _watch(gateway: Gateway, thread: BackgroundThread, fail: Callable[[str], object]) -> None:
    client = clients.admin(gateway.connection)
    while not thread.ended:
        try:
            missing = _missing(gateway, client)
        except NotAdmitted as refused:
            fail(str(refused))
            return
        # Rights are looked at before the gateway is ready, and not again every second.
        if missing is None and not gateway.readiness.ready:
            missing = _lacking(gateway)
        gateway.readiness.waiting_for = missing
        gateway.readiness.was_ready |= missing is None
        thread.wait(_LOOK_SECONDS)


def _lacking(gateway: Gateway) -> str | None:
    """Return the topic that is absent or the right that the gateway's user lacks, in a sentence."""
    try:
        rights = acls.of_role("gateway", gateway.topics, gateway.settings.features)
        acls.check(gateway.connection, rights, "gateway")
    except UserError as error:
        return str(error)
    return None


def _refuse_settings(gateway: Gateway) -> None:
    """Raise `NotAdmitted` where Kafka does not answer because it refuses the gateway's settings."""
    try:
        clients.describe_cluster(gateway.connection)
    except NotAdmitted:
        raise
    except UserError:
        pass


def _missing(gateway: Gateway, client: AdminClient) -> str | None:
    try:
        found = clients.listed(client, _ANSWER_SECONDS)
    except UserError:
        _refuse_settings(gateway)
        return "Kafka"
    topic = found.get(gateway.topics.ratings)
    if topic is None or topic.error is not None:
        return f"topic {gateway.topics.ratings}"
    count, wanted = len(topic.partitions), gateway.intake.partitions
    if count < wanted:
        return (
            f"topic {gateway.topics.ratings} with {wanted} partitions (setting partitions); it has "
            f"{count}"
        )
    # Where it was ready, or the number was set, partitions were added, in which nothing is written.
    if count > wanted and not (gateway.readiness.was_ready or gateway.settings.partitions_stated):
        return grown(gateway.topics.ratings, count, wanted)
    return None
