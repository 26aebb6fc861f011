"""The obvious version of a sample of visits, from the obvious version of a feed of pairs."""

from __future__ import annotations

from typing import NamedTuple

from tests.naive.pairs import Device, Entry, Pairs


class Sampled(NamedTuple):
    """The list of one device: (slot, weight, like) of each entry, and the numbers of its visit."""

    entries: list[tuple[int, int, bool]]
    present: int
    before: int
    singles: int
    singles_before: int
    steps_ago: int
    channel: int


def sample(pairs: Pairs, most: int, *, singles: bool) -> list[Sampled]:
    """Return the lists of the `most` devices with the newest visits, the newest first."""
    found = [
        ((own.step, row * 0x9E3779B1 % 2**32), sampled)
        for row, own in pairs.devices.items()
        if (sampled := _sampled(pairs, own, singles=singles)) is not None
    ]
    return [sampled for _, sampled in sorted(found, reverse=True)[:most]]


def _sampled(pairs: Pairs, own: Device, *, singles: bool) -> Sampled | None:
    entries, one_by_one = _live(own.entries), _live(own.singles())
    present, before = (_live(own.of_visit(own.visit - ago)) for ago in (0, 1))
    enough = len(one_by_one) > 1 if singles else 0 < len(present) < len(entries)
    if not enough or len(own.channels) != 1:
        return None
    newest = own.entries[-64:]
    listed = [(e.slot, e.weight, e.like and any(e is other for other in newest)) for e in entries]
    (channel,) = own.channels
    counts = len(present), len(before), len(one_by_one), len(_live(own.singles(1)))
    return Sampled(listed, *counts, pairs.steps - own.step, channel)


def _live(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.slot >= 0]
