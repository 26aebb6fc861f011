"""Profiles: once an epoch each device releases the noised set of items that it has used.

    raw items --> in the public scope? --> Request (scope "profile", key: the epoch) --> journal
                                                  one debit of epsilon (cell), one draw, one record
                                              --> wire.ProfileEvent, fixed size --> profiles topic

Every participating device releases, even an empty profile, in an order that follows from the
pseudonym and the epoch alone: the presence, size and position of a message say nothing about the
items. Every release is drawn and paid again; an update that reused the noise of an earlier release
would show the change in the clear. A second release in an epoch is rejected.

A profile has at most `most` items. Where the public scope has more, a device keeps to `most` items
of the scope that its own key picks, independently of its profile: adding an item then changes at
most one item of the release. A mechanism with a cap drops items of a profile that is too large, so
that one item can push out another; its noise accounts for that (`profiles/profile_mechanism.py`).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.fleet.epoch_emission import emission_time
from producers.fleet.population import Population
from producers.fleet.replay import commit_when_room
from producers.journal import Enrolment, Journal, Message, Request
from stream_app import wire
from stream_app.privacy.profiles.codebook import words
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS, ProfileMechanism, check_items

SCOPE = "profile"
TOGETHER = 256  # profiles that are drawn and recorded in one durable record

Send = Callable[[Message], None]


@dataclass(frozen=True)
class ProfileProgress:
    """Progress of a run: `done` of `total` devices are processed. Of these, `published` released a
    profile, `before` had released one in this epoch, `over` had too little budget. `outside` items
    were not in the scope; `capped` items were, but not among those that their device keeps to, or
    over the cap of the mechanism."""

    done: int
    total: int
    published: int
    before: int
    over: int
    outside: int
    capped: int


@dataclass(frozen=True, eq=False, repr=False)  # a raw profile has no place in a log
class RawProfile:
    """The items that one device has used: its pseudonym and distinct item keys (c,)."""

    device: bytes
    raw_items: NDArray[np.uint64]


def profiles_of(population: Population, accounts: Iterable[Enrolment] = ()) -> list[RawProfile]:
    """Return the profile of each device: every item it has rated, whatever the rating.

    Accounts that are not in the population have an empty one: were they silent, a profile would
    show that its user has rated something.
    """
    fresh = np.flatnonzero(population.fresh)
    order = fresh[np.argsort(population.users[fresh], kind="stable")]
    starts = np.searchsorted(population.users[order], np.arange(1, len(population.devices)))
    columns = np.split(population.items[order], starts)
    pairs = zip(population.devices, columns, strict=True)
    found = [RawProfile(device, raw_items) for device, raw_items in pairs]
    known, empty = set(population.devices), np.zeros(0, np.uint64)
    absent = [account.device for account in accounts if account.device not in known]
    return found + [RawProfile(device, empty) for device in absent]


def kept_scope(
    scope: NDArray[np.uint64], most: int, key: bytes, device: bytes
) -> NDArray[np.uint64]:
    """Return the items of a public scope (n,) that a device keeps to: all, or `most` by its key."""
    if len(scope) <= most:
        return scope
    drawn = hmac.digest(key, b"profile scope\0" + device, "sha256")[:8]
    order = words(scope, 1, int.from_bytes(drawn, "little"))[:, 0]
    return scope[np.lexsort((scope, order))[:most]]


def request(
    raw_profile: RawProfile, mechanism: ProfileMechanism, *, topic: str, epoch: int
) -> Request:
    """Return the request to release one profile.

    ValueError for more than `MOST_ITEMS` items or the same item twice, before anything is paid.
    """
    device, name = raw_profile.device, mechanism.id
    check_items(raw_profile.raw_items)

    def encoded(seq: int, part: slice, released: Any, test: bool) -> bytes:  # noqa: ARG001 (one message)
        event = wire.ProfileEvent(device, seq, name, epoch, released.tobytes(), test)
        return wire.encode_profile(event)

    return Request(
        device=device,
        topic=topic,
        scope=SCOPE,
        reported_keys=np.array([epoch], np.uint64),
        mechanism=mechanism,
        raw_inputs=raw_profile.raw_items,
        count=1,
        encode=encoded,
        epoch=epoch,
    )


@dataclass(frozen=True)
class ProfileOptions:
    """How profiles are released.

    scope      the public items that a profile may hold, rising keys (n,); None for all items, and
               then a profile of more than `most` items is refused before anything is drawn
    most       items in a profile, 1 to `MOST_ITEMS`
    together   profiles that are drawn and recorded in one durable record
    """

    scope: NDArray[np.uint64] | None = None
    most: int = MOST_ITEMS
    together: int = TOGETHER

    def __post_init__(self) -> None:
        if not 1 <= self.most <= MOST_ITEMS:
            raise ValueError(f"at most {self.most} items in a profile: 1 to {MOST_ITEMS}")


def publish(
    raw_profiles: list[RawProfile],
    mechanism: ProfileMechanism,
    *,
    journal: Journal,
    send: Send,
    topic: str,
    epoch: int,
    options: ProfileOptions | None = None,
    make_room: Callable[[], None] | None = None,
) -> Iterator[ProfileProgress]:
    """Release the profile of every device once in this epoch; closing the iterator stops after
    the current record.

    `make_room` waits for the broker while the outbox is full; without it a full outbox raises
    `OutboxFull`.
    """
    options = options or ProfileOptions()
    scope, most = options.scope, options.most
    if scope is None and any(len(profile.raw_items) > most for profile in raw_profiles):
        raise ValueError(
            f"a profile has more than {most} items: give the public scope, of which each device "
            f"keeps to {most} items"
        )
    epoch = journal.epoch(epoch)
    order = sorted(raw_profiles, key=lambda p: (emission_time(p.device, epoch), p.device))
    within = [_within(profile, scope, most, journal.key) for profile in order]
    outside, capped = (sum(column) for column in zip(*(cut for _, cut in within), strict=True))
    capped += sum(max(0, len(kept.raw_items) - mechanism.most) for kept, _ in within)
    requests = [request(profile, mechanism, topic=topic, epoch=epoch) for profile, _ in within]
    return _run(requests, journal, send, make_room, options.together, (outside, capped))


def _run(
    requests: list[Request],
    journal: Journal,
    send: Send,
    make_room: Callable[[], None] | None,
    together: int,
    cut: tuple[int, int],
) -> Iterator[ProfileProgress]:
    published = before = over = 0
    for start in range(0, len(requests), together):
        part = requests[start : start + together]
        new = [
            request
            for request in part
            if journal.unreported(request.device, request.reported_keys, SCOPE).all()
        ]
        paid = [request for request in new if _fits(journal, request)]
        before, over = before + len(part) - len(new), over + len(new) - len(paid)
        if paid:
            for message in commit_when_room(journal, paid, None, make_room):
                send(message)
        published += len(paid)
        done = start + len(part)
        yield ProfileProgress(done, len(requests), published, before, over, *cut)


def _fits(journal: Journal, request: Request) -> bool:
    room = journal.room(request.device, request.mechanism, request.epoch)
    return room is None or room >= request.count


def _within(
    raw_profile: RawProfile, scope: NDArray[np.uint64] | None, most: int, key: bytes
) -> tuple[RawProfile, tuple[int, int]]:
    """Return the items of a profile that its device keeps to, and the counts (outside, capped)."""
    if scope is None:
        return raw_profile, (0, 0)
    raw_items = raw_profile.raw_items
    public = np.isin(raw_items, scope)
    kept = np.isin(raw_items, kept_scope(scope, most, key, raw_profile.device))
    outside = len(raw_items) - int(public.sum())
    cut = outside, len(raw_items) - outside - int(kept.sum())
    return RawProfile(raw_profile.device, raw_items[kept]), cut
