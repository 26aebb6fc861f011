"""The obvious version of a feed of pairs: dictionaries and lists, rating by rating."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST = 2**32 - 1
BLOCK = 16


@dataclass
class Entry:
    """A rating of an item with a slot; slot -1 where that has changed hands."""

    slot: int
    weight: int
    visit: int
    like: bool
    alone: bool


@dataclass
class Device:
    """A list in blocks of 16, oldest first, and its visits, numbered from 0."""

    blocks: list[list[Entry]] = field(default_factory=list)
    day: int = 0
    visit: int = 0
    step: int = 0
    channels: set[int] = field(default_factory=set)

    @property
    def entries(self) -> list[Entry]:
        return [entry for block in self.blocks for entry in block]

    def of_visit(self, visit: int) -> list[Entry]:
        return [entry for entry in self.entries if entry.visit == visit]

    def singles(self, ago: int = 0) -> list[Entry]:
        """The newest entries that came one by one in a visit, newest first."""
        found: list[Entry] = []
        for entry in reversed(self.of_visit(self.visit - ago)):
            if not entry.alone:
                break
            found.append(entry)
        return found

    def begin(self, day: int, step: int) -> None:
        if day > self.day or not self.entries:
            self.day, self.visit, self.step = max(day, self.day), self.visit + 1, step
            self.channels = set()

    def held(self, slot: int) -> Entry | None:
        return next((entry for entry in self.entries if entry.slot == slot), None)

    def append(self, entry: Entry, most: int) -> None:
        if not self.blocks or len(self.blocks[-1]) == BLOCK:
            self.blocks.append([])
            if len(self.blocks) > most:
                del self.blocks[0]
        self.blocks[-1].append(entry)


class Pairs:
    """likes: whether a report of each number speaks for a like."""

    def __init__(self, size: int, most: int, *, in_order: bool, likes: Sequence[int] = ()) -> None:
        self.size, self.most, self.in_order = size, most, in_order
        self.likes = likes or [0] * 16
        self.head: list[int] = []  # the item of each slot
        self.counts: dict[int, int] = defaultdict(int)
        self.recent: dict[int, int] = defaultdict(int)
        self.total = self.elected = self.decayed = self.steps = 0
        self.day = self.elected_day = self.changes = 0
        self.devices: dict[int, Device] = {}
        self.pairs: dict[tuple[int, int], int] = defaultdict(int)
        self.between: dict[tuple[int, int], int] = defaultdict(int)
        self.within: dict[tuple[int, int], int] = defaultdict(int)
        self.moments: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.after = [0, 0]  # ratings that are in `between`, and in `within`

    def count(
        self,
        device: int,
        ratings: list[tuple[int, int]],
        *,
        alone: bool | None = None,
        day: int = 0,
        channel: int = 0,
    ) -> None:
        """Count one record of (item, weight); alone: it holds one rating."""
        alone = len(ratings) == 1 if alone is None else alone
        own = self.devices.setdefault(device, Device())
        own.begin(day, self.steps)
        self.day = max(self.day, day)
        for item, weight in ratings:
            self.total += 1
            self.counts[item] += 1
            self.recent[item] += 256
            if item not in self.head:
                if len(self.head) == self.size:
                    continue
                self.head.append(item)
            slot = self.head.index(item)
            moments = self.moments[slot]
            moments[0] += 1
            if weight == 0:
                continue
            like = bool(self.likes[weight])
            if (found := own.held(slot)) is not None:
                moments[1] += weight - found.weight
                moments[2] += weight**2 - found.weight**2
                if any(entry is found for entry in own.entries[-64:]):
                    found.like = like
                found.weight = weight
                if found.visit == own.visit:
                    own.channels.add(channel)
                continue
            moments[1] += weight
            moments[2] += weight**2
            for entry in own.entries:
                if entry.slot >= 0:
                    self._add(self.pairs, slot, entry.slot, weight * entry.weight)
            if self.in_order:
                self._count_order(slot, own, alone)
            own.append(Entry(slot, weight, own.visit, like, alone), self.most)
            own.channels.add(channel)

    def _count_order(self, slot: int, own: Device, alone: bool) -> None:
        before = own.of_visit(own.visit - 1)
        self.after[0] += bool(before)
        for entry in before:
            if entry.slot >= 0:
                self._add(self.between, slot, entry.slot, 1)
        singles = own.singles()[:50] if alone else []
        self.after[1] += bool(singles)
        for distance, entry in enumerate(singles, 1):
            if entry.slot >= 0:
                decayed = round(64 * math.exp(-distance / 20))
                self._add(self.within, slot, entry.slot, decayed)

    @staticmethod
    def _add(table: dict[tuple[int, int], int], i: int, j: int, more: int) -> None:
        table[i, j] = min(table[i, j] + more, MOST)

    def end_round(self, known: int, days: tuple[int, int] | None = None) -> None:
        """Decay, and give slots to the items of the highest standing, of so many known ones."""
        self.day = days[1] if days else self.day
        mass = max(2**13, min(self.total // 20, 2**19))
        due = (self.total - self.decayed) // (mass // 8)
        for _ in range(min(due, 8)):
            for item in self.recent:
                self.recent[item] -= self.recent[item] // 8
        self.steps, self.decayed = self.steps + due, self.decayed + due * (mass // 8)
        if self.total - self.elected >= mass // 16 or self.day != self.elected_day:
            self._elect(known, mass)

    def _elect(self, known: int, mass: int) -> None:
        outside = [item for item in self.counts if item not in self.head]
        if len(self.head) < self.size or known <= self.size:
            return
        self.elected, self.elected_day = self.total, self.day

        def standing(item: int) -> int:
            lately = self.counts[item] * min(mass, self.total) * 256 // max(self.total, 1)
            return max(self.recent[item], lately)

        outside.sort(key=lambda item: (-standing(item), item))
        slots = sorted(range(self.size), key=lambda s: (standing(self.head[s]), -self.head[s]))
        taken = []
        for item, slot in zip(outside, slots, strict=False):
            if 4 * standing(item) < 5 * standing(self.head[slot]) + 32 * 256:
                break
            taken.append((item, slot))
        for item, slot in taken:
            self.head[slot] = item
            self.changes += 1
            self._free(slot)

    def _free(self, slot: int) -> None:
        self.moments.pop(slot, None)
        for table in (self.pairs, self.between, self.within):
            for pair in [pair for pair in table if slot in pair]:
                del table[pair]
        for device in self.devices.values():
            for entry in device.entries:
                if entry.slot == slot:
                    entry.slot = -1

    def clear(self, device: int) -> None:
        if device in self.devices:
            self.devices[device] = Device()
