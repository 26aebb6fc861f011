"""The obvious version of a feed of pairs: dictionaries and lists, rating by rating."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

MOST = 2**32 - 1
BLOCK = 16


@dataclass
class Device:
    """A list in blocks of 16, oldest first; None where the entry's slot has changed hands."""

    blocks: list[list[tuple[int, int] | None]] = field(default_factory=list)

    @property
    def entries(self) -> list[tuple[int, int] | None]:
        return [entry for block in self.blocks for entry in block]

    def place(self, slot: int) -> tuple[int, int] | None:
        for b, block in enumerate(self.blocks):
            for k, entry in enumerate(block):
                if entry is not None and entry[0] == slot:
                    return b, k
        return None

    def append(self, entry: tuple[int, int], most: int) -> None:
        if not self.blocks or len(self.blocks[-1]) == BLOCK:
            self.blocks.append([])
            if len(self.blocks) > most:
                del self.blocks[0]
        self.blocks[-1].append(entry)


class Pairs:
    def __init__(self, size: int, most: int, *, in_order: bool) -> None:
        self.size, self.most, self.in_order = size, most, in_order
        self.head: list[int] = []  # the item of each slot
        self.counts: dict[int, int] = defaultdict(int)
        self.total = self.elected = 0
        self.devices: dict[int, Device] = {}
        self.pairs: dict[tuple[int, int], int] = defaultdict(int)
        self.ordered: dict[tuple[int, int], int] = defaultdict(int)
        self.moments: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.arrived = 0

    def count(
        self, device: int, ratings: list[tuple[int, int]], *, alone: bool | None = None
    ) -> None:
        """Count one record of (item, weight); alone: it holds one rating."""
        alone = len(ratings) == 1 if alone is None else alone
        own = self.devices.setdefault(device, Device())
        for item, weight in ratings:
            self.total += 1
            self.counts[item] += 1
            if item not in self.head:
                if len(self.head) == self.size:
                    continue
                self.head.append(item)
            slot = self.head.index(item)
            moments = self.moments[slot]
            moments[0] += 1
            if weight == 0:
                continue
            if (found := own.place(slot)) is not None:
                b, k = found
                old = own.blocks[b][k]
                assert old is not None
                moments[1] += weight - old[1]
                moments[2] += weight**2 - old[1] ** 2
                own.blocks[b][k] = (slot, weight)
                continue
            moments[1] += weight
            moments[2] += weight**2
            entries = own.entries
            for entry in entries:
                if entry is not None:
                    self._add(self.pairs, slot, entry[0], weight * entry[1])
            if self.in_order and alone:
                self.arrived += 1
                for distance, entry in enumerate(reversed(entries[-50:]), 1):
                    if entry is not None:
                        decayed = round(64 * math.exp(-distance / 20))
                        self._add(self.ordered, slot, entry[0], decayed)
            own.append((slot, weight), self.most)

    @staticmethod
    def _add(table: dict[tuple[int, int], int], i: int, j: int, more: int) -> None:
        table[i, j] = min(table[i, j] + more, MOST)

    def elect(self, known: int) -> None:
        """Give slots to the items that are reported most, of so many known ones."""
        outside = [item for item in self.counts if item not in self.head]
        if len(self.head) < self.size or known <= self.size or 4 * self.total < 5 * self.elected:
            return
        self.elected = self.total
        outside.sort(key=lambda item: (-self.counts[item], item))
        slots = sorted(range(self.size), key=lambda s: (self.counts[self.head[s]], -self.head[s]))
        for item, slot in zip(outside, slots, strict=False):
            if 4 * self.counts[item] < 5 * self.counts[self.head[slot]] + 32:
                break
            self.head[slot] = item
            self._free(slot)

    def _free(self, slot: int) -> None:
        self.moments.pop(slot, None)
        for table in (self.pairs, self.ordered):
            for pair in [pair for pair in table if slot in pair]:
                del table[pair]
        for device in self.devices.values():
            for block in device.blocks:
                for k, entry in enumerate(block):
                    if entry is not None and entry[0] == slot:
                        block[k] = None

    def clear(self, device: int) -> None:
        if device in self.devices:
            self.devices[device].blocks = []
