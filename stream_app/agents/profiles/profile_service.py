"""The reader of the profile topic, in a thread of its own, and what it needs of a worker.

    consumer --records--> ProfileIntake --rejections--> event loop --> topic of rejections

The thread hands over its rejections and waits until the event loop has queued them, so a flood of
bad records slows this reader and nothing else. The consumer is assigned and joins no group: every
worker reads the whole topic.

What devices with a similar profile have: the answer to a query for neighbours.

The list holds items and about the share of the most similar devices that have each, and no
pseudonym: an asker learns nothing about a single neighbour that the releases of all of them
together do not say, and what a release says about one item is bounded by the epsilon of its
mechanism. Answers are computed from releases alone, which costs no epsilon. Items that the device
has may be among them: the profile hides these, so the device leaves them out itself.

A list takes milliseconds where others take microseconds, so a thread makes one after the other, and
few wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from typing import Any

import faust
import numpy as np
import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition
from numpy.typing import NDArray

from stream_app.agents.crash_guard import ThreadService, crash_guard
from stream_app.agents.profiles.profile_reading import OUTCOMES, REJECTED, ProfileIntake
from stream_app.agents.runtime import Runtime
from stream_app.deployment import profile_mechanisms_from
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import refusal
from stream_app.kafka.topic_follower import TopicFollower
from stream_app.models.neighborhood.live_profiles import LiveProfiles
from stream_app.monitoring.metrics import Metrics
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.state.replica import Replica
from stream_app.wire import LIST_LENGTH, Guarantee, Reason, Rejection

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
        self._topic, self._unreadable = runtime.topics.profiles, 0
        self._events: asyncio.AbstractEventLoop | None = None

    def has_read(self) -> bool:
        """Return whether all that the topic held at the start has been read."""
        return self._intake.complete

    async def on_start(self) -> None:
        """Start the thread."""
        self._events = asyncio.get_running_loop()
        await super().on_start()

    def _run(self) -> None:
        with TopicFollower(
            self._connection,
            f"{self._topic}-reading",
            self._refuse,
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
        while self._unreadable < follower.unreadable:
            self._unreadable += 1
            self._intake.reject(Reason.UNREADABLE)
            self._runtime.metrics.profile_rejected(Reason.UNREADABLE)
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

    def _refuse(self, _: Message, error: KafkaError) -> None:
        fault = (
            f"{self._topic}: profiles cannot be read ({error.str()}); check that the topic exists, "
            "or leave profile_mechanisms out"
        )
        raise UserError(refusal(error, f"topic {self._topic}", "READ", fault))


def _bytes(key: bytes | str | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


NEIGHBOURS = 50
_OF_OTHERS = 4  # a quarter of the others at most: all of them would be one list for everyone
METHOD = "neighbours"
_MOST_WAITING = 16
READING = "profiles are still being read: ask again in a moment"
BUSY = f"{_MOST_WAITING} queries for neighbours wait already: ask again in a moment"
ALONE = "no other device has a profile of this kind: neighbours need two at least"


class NeighbourAnswers:
    """Makes the lists; use it on the event loop, and close it."""

    def __init__(
        self, intake: ProfileIntake, replica: Replica, catalogue: Catalogue, metrics: Metrics
    ) -> None:
        self._intake, self._replica = intake, replica
        self._catalogue, self._metrics = catalogue, metrics
        self._thread = ThreadPoolExecutor(1, "murmurec-neighbours")
        self._waiting = 0

    def answer(self, device: bytes, arrived: float) -> Refused | Awaitable[RankedItems | Refused]:
        """Return the list of a device, or why there is none; `arrived`: perf_counter."""
        if not self._intake.complete:
            return Refused(READING)
        if self._waiting >= _MOST_WAITING:
            return Refused(BUSY)
        self._waiting += 1
        return self._answered(device, arrived)

    def close(self) -> None:
        """End the thread; lists that wait are not made."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _answered(self, device: bytes, arrived: float) -> RankedItems | Refused:
        try:
            # Copied here, where the state changes; devices can make up millions of items, so what
            # takes longer than a copy is left to the thread.
            known, cut = self._replica.items.keys.copy(), self._replica.cut
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._thread, self._made, device, known, cut)
        finally:
            self._waiting -= 1
        if isinstance(found, RankedItems):
            self._metrics.query_answered(METHOD, time.perf_counter() - arrived)
        return found

    def _candidates(self, known: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the items that may be in a list: known ones and those of the catalogue, without
        what is withdrawn."""
        listed = np.array(list(self._catalogue.entries), np.uint64)
        items = np.union1d(known, listed)
        return items[~self._catalogue.withdrawn(items)]

    def _made(self, device: bytes, known: NDArray[np.uint64], cut: int) -> RankedItems | Refused:
        with self._intake.held() as profiles:
            mechanism = profiles.mechanism_of(device)
            if mechanism is None:
                return Refused(no_profile(tuple(profiles.mechanisms)))
            others = profiles.others(device)
            if not others:
                return Refused(ALONE)
            near = min(NEIGHBOURS, max(1, others // _OF_OTHERS))
            items = self._candidates(known)
            shares = np.clip(profiles.scores(device, items, near), 0.0, 1.0)
        best = np.lexsort((items, -shares))[:LIST_LENGTH]
        return RankedItems(
            items[best],
            shares[best].astype(np.float64),
            f"{METHOD}/{mechanism.id}",
            cut,
            guarantee=guarantee_of(mechanism),
        )


def no_profile(mechanisms: tuple[str, ...]) -> str:
    """Return the sentence for a device without a profile."""
    named = ", ".join(mechanisms)
    shown = named if len(named) <= 120 else f"{mechanisms[0]}, ..."
    return f"no profile of this device is known: publish one (murmurec profiles publish) as {shown}"


def guarantee_of(mechanism: ProfileMechanism) -> Guarantee | None:
    """Return what a list from profiles of this mechanism hides; None where it hides nothing."""
    if mechanism.epsilon is None:
        return None
    beyond = f", but for a delta of {mechanism.delta}" if mechanism.delta else ""
    return Guarantee(
        f"one item of the profile of one device, for each profile that it has released{beyond}",
        str(mechanism.epsilon),
        "released-profiles",
    )
