"""One rating of one user, from the raw number to the bytes that are sent.

A rating is checked before anything is drawn: a rejected rating costs no epsilon and no seq, and
leaves the journal unchanged. What a device has rated it looks up when it reports, from a data set
or from its own file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from producers.device import requests as device
from producers.identities import Identities
from producers.journal import Journal, Message, enrolled
from producers.scale import Scale
from stream_app import wire
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency


@dataclass(frozen=True, eq=False, repr=False)  # raw columns have no place in a log
class Rated:
    """The ratings of one device; see the module."""

    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    raw_levels: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))


class Ratings(Protocol):
    """Ratings by device."""

    def rated(self, device_id: bytes) -> Rated:
        """Return what a device has rated; nothing for one without ratings."""


class ScaledRatings(Ratings, Protocol):
    """Ratings by device, on a scale that is known; both look-ups may raise `Unreadable`."""

    @property
    def identities(self) -> Identities:
        """Seal what the devices that were looked up send."""

    @property
    def scale(self) -> Scale:
        """The scale of the levels."""

    def levels(self, device: bytes, keys: NDArray[np.uint64], missing: int) -> NDArray[np.uint16]:
        """Return the level of each of these items, (n,); `missing` where it is not rated."""


def rate(
    user: int | str,
    item: wire.Item,
    raw_rating: object,
    reporting: device.ReportSettings,
    *,
    scale: Scale,
    journal: Journal,
    epoch: int,
    republish: bool = False,
) -> Message:
    """Return the message of one rating, paid for and durable; send it until the broker accepts it.

    Raises ValueError for bad input, `BudgetExhausted` if the cost exceeds the budget, and
    `UserError` for a user who is not enrolled and for a rating that was published before, unless
    `republish`; the journal is unchanged then.
    """
    named = reporting.identities or Identities(journal.key)
    check_levels_agree(scale, reporting.mechanism)
    check_may_be_sent_at_once(reporting.mechanism)
    raw_level = scale.level(raw_rating)
    named.check_journal(journal, [user])
    pseudonym = named.pseudonym(user)
    enrolled(journal.enrolment(pseudonym), pseudonym, str(user))
    request = device.request(
        np.array([raw_level], np.uint8),
        device.item_keys([item]),
        reporting,
        device=pseudonym,
        epoch=journal.epoch(epoch),
        republish=republish,
    )
    (message,) = journal.release(request)
    return message


def check_levels_agree(scale: Scale, mechanism: Mechanism) -> None:
    """Raise ValueError where a mechanism has another number of levels than the scale."""
    if scale.levels != mechanism.levels:
        raise ValueError(
            f"mechanism {mechanism.id}: has {mechanism.levels} levels, but the scale {scale} has "
            f"{scale.levels}; use {mechanism.family}:{scale.levels}:..."
        )


def check_may_be_sent_at_once(mechanism: Mechanism) -> None:
    """Raise ValueError for a mechanism that hides which items were rated: a message reveals it."""
    if mechanism.adjacency is Adjacency.CELL:
        raise ValueError(
            f"mechanism {mechanism.id}: hides whether a rating exists, and a message at the moment "
            "of rating reveals it; send whole epochs: murmurec device run --scope FILE, or "
            "murmurec replay --emission epoch"
        )
