"""The reader of the profile topic, in a thread of its own, and what it needs of a worker.

    consumer --records--> ProfileIntake --rejections--> event loop --> topic of rejections

The thread hands over its rejections and waits until the event loop has queued them, so a flood of
bad records slows this reader and nothing else. The consumer is assigned and joins no group: every
worker reads the whole topic.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as WaitTimeout
from typing import Any

import faust
import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from stream_app.agents.crash_guard import ThreadService, crash_guard
from stream_app.agents.profiles.lists import NeighbourAnswers
from stream_app.agents.profiles.reading import OUTCOMES, REJECTED, ProfileIntake
from stream_app.agents.runtime import Runtime
from stream_app.deployment import profile_mechanisms_from
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import TopicFollower
from stream_app.models.neighborhood.live_profiles import LiveProfiles
from stream_app.replay.unreadable import is_unreadable, readable_from
from stream_app.wire import Reason, Rejection
from stream_app.wire.limits import MAX_SEQ

log = structlog.get_logger()
_POLL_SECONDS = 0.1
_WAIT_SECONDS = 0.2


def attach(app: faust.App, runtime: Runtime, connection: Connection) -> ProfileReader | None:
    """Serve neighbours, and return the reader to start; None where no profiles are accepted."""
    settings = runtime.settings
    mechanisms = profile_mechanisms_from(settings)
    if not mechanisms:
        return None
    profiles = LiveProfiles(mechanisms, settings.profiles_most, settings.hash_seed)
    intake = ProfileIntake(profiles, accept_tests=settings.accept_tests)
    answers = NeighbourAnswers(intake, runtime.replica, runtime.catalogue, runtime.metrics)
    runtime.neighbours, runtime.profiles = answers, intake
    entered: dict[str, int] = {}

    @app.timer(1.0)
    @crash_guard(runtime.status)
    async def publish_profiles() -> None:
        summary = intake.summary()
        runtime.metrics.profiles_held(summary["devices"])
        for outcome in OUTCOMES:
            if outcome != REJECTED:
                records = summary[outcome] - entered.get(outcome, 0)
                runtime.metrics.profile_records(outcome, records)
                entered[outcome] = summary[outcome]

    @app.on_before_shutdown.connect(weak=False)
    async def end(*_: Any, **__: Any) -> None:
        answers.close()

    return ProfileReader(runtime, intake, connection)


class ProfileReader(ThreadService):
    """The service that runs the thread while the application runs."""

    def __init__(self, runtime: Runtime, intake: ProfileIntake, connection: Connection) -> None:
        super().__init__("profiles", runtime.status)
        self._runtime, self._intake, self._connection = runtime, intake, connection
        self._topic = runtime.topics.profiles
        self._events: asyncio.AbstractEventLoop | None = None

    async def on_start(self) -> None:
        """Start the thread."""
        self._events = asyncio.get_running_loop()
        await super().on_start()

    def _run(self) -> None:
        with TopicFollower(
            self._connection,
            f"{self._topic}-reading",
            lambda message, error: self._refuse(follower, message, error),
            auto_offset_reset="earliest",
            queued_max_messages_kbytes=2048,
            fetch_wait_max_ms=100,
            **clients.BOUNDED_FETCH,
        ) as follower:
            follower.begin(TopicPartition(self._topic, 0, OFFSET_BEGINNING))
            while not self.thread.ended:
                self._read(follower)

    def _read(self, follower: TopicFollower) -> None:
        """Take what has arrived, and hand over the rejections."""
        rejections = []
        for message in follower.take(_POLL_SECONDS):
            value = message.value()
            reason = self._intake.take(_bytes(message.key()), value)
            if reason is not None:
                self._runtime.metrics.profile_rejected(reason)
                place = message.partition() or 0, message.offset() or 0
                rejections.append(Rejection(self._topic, *place, reason, len(value or b"")))
        if rejections:
            self._hand_over(rejections)
        if follower.at_end and not self._intake.complete:
            log.info("profiles.read", devices=self._intake.summary()["devices"])
            self._intake.complete = True

    def _hand_over(self, rejections: list[Rejection]) -> None:
        async def publish() -> None:
            for rejection in rejections:
                self._runtime.reject(rejection)

        assert self._events is not None, "set before the thread starts"
        queued = asyncio.run_coroutine_threadsafe(publish(), self._events)
        while not self.thread.ended:
            try:
                queued.result(_WAIT_SECONDS)
            except WaitTimeout:
                continue
            return

    def _refuse(self, follower: TopicFollower, message: Message, error: KafkaError) -> None:
        """Go on after a batch that no reader can take."""
        if not is_unreadable(error):
            raise UserError(
                f"{self._topic}: profiles cannot be read ({error.str()}); check that the topic "
                "exists and grant READ on it, or leave profile_mechanisms out"
            )
        offset = message.offset() or 0
        place = TopicPartition(self._topic, 0, offset)
        end = readable_from(self._connection, f"{self._topic}-reading", place, MAX_SEQ)
        place.offset = max(end, offset + 1)
        self._intake.reject(Reason.UNREADABLE)
        self._runtime.metrics.profile_rejected(Reason.UNREADABLE)
        follower.consumer.seek(place)


def _bytes(key: bytes | str | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key
