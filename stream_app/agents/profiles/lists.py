"""What devices with a similar profile have: the answer to a query for neighbours.

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

import numpy as np
from numpy.typing import NDArray

from stream_app.agents.profiles.reading import ProfileIntake
from stream_app.monitoring.metrics import Metrics
from stream_app.privacy.profiles.mechanism import ProfileMechanism
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.state.replica import Replica
from stream_app.wire import LIST_LENGTH, Guarantee

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
            items, cut = self._candidates(), self._replica.cut
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._thread, self._made, device, items, cut)
        finally:
            self._waiting -= 1
        if isinstance(found, RankedItems):
            self._metrics.query_answered(METHOD, time.perf_counter() - arrived)
        return found

    def _candidates(self) -> NDArray[np.uint64]:
        """Return the items that may be in a list: known ones and those of the catalogue, without
        what is withdrawn."""
        listed = np.array(list(self._catalogue.entries), np.uint64)
        items = np.union1d(self._replica.items.keys, listed)
        return items[~self._catalogue.withdrawn(items)]

    def _made(self, device: bytes, items: NDArray[np.uint64], cut: int) -> RankedItems | Refused:
        with self._intake.held() as profiles:
            mechanism = profiles.mechanism_of(device)
            if mechanism is None:
                return Refused(no_profile(tuple(profiles.mechanisms)))
            others = profiles.others(device)
            if not others:
                return Refused(ALONE)
            near = min(NEIGHBOURS, max(1, others // _OF_OTHERS))
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
