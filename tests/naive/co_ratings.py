"""The obvious version of co-ratings: dictionaries and lists, rating by rating, and the definition
itself, sums over the lists."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations

BLOCK = 16
Entry = tuple[int, int]  # slot, row of the report
Values = list[list[int]]  # by row: value, square, variance


@dataclass
class Device:
    """A list in blocks of 16, oldest first; None where the entry's slot has changed hands."""

    blocks: list[list[Entry | None]] = field(default_factory=list)

    @property
    def entries(self) -> list[Entry]:
        return [entry for block in self.blocks for entry in block if entry is not None]


class CoRatings:
    """Sums by (low slot, high slot) and by slot, kept up to date with the lists."""

    def __init__(self, most: int, values: Values) -> None:
        self.most, self.values = most, values
        self.devices: dict[int, Device] = defaultdict(Device)
        self.cells: Counter[tuple[int, int, int]] = Counter()
        self.moments: Counter[tuple[int, int]] = Counter()

    def rate(self, device: int, slot: int, row: int) -> None:
        own = self.devices[device]
        for block in own.blocks:
            for k, entry in enumerate(block):
                if entry is not None and entry[0] == slot:
                    block[k] = None
                    self._count(entry, own.entries, -1)
                    self._count((slot, row), own.entries, 1)
                    block[k] = slot, row
                    return
        if not own.blocks or len(own.blocks[-1]) == BLOCK:
            if len(own.blocks) == self.most:
                self._drop_oldest(own)
            own.blocks.append([])
        self._count((slot, row), own.entries, 1)
        own.blocks[-1].append((slot, row))

    def _drop_oldest(self, own: Device) -> None:
        for k, entry in enumerate(own.blocks[0]):
            own.blocks[0][k] = None
            if entry is not None:
                self._count(entry, own.entries, -1)
        del own.blocks[0]

    def _count(self, entry: Entry, others: list[Entry], sign: int) -> None:
        for column, value in enumerate((1, *self.values[entry[1]])):
            self.moments[entry[0], column] += sign * value
        for other in others:
            (low, i), (high, j) = sorted((entry, other))
            v, w = self.values[i][0], self.values[j][0]
            for column, value in enumerate((1, v - w, v * w)):
                self.cells[low, high, column] += sign * value

    def clear(self, device: int) -> None:
        """Forget a device, also how many blocks it had."""
        own = self.devices.pop(device, Device())
        while own.blocks:
            self._drop_oldest(own)

    def clear_slots(self, slots: list[int]) -> None:
        for own in self.devices.values():
            for block in own.blocks:
                block[:] = [None if e is not None and e[0] in slots else e for e in block]
        for cell in [cell for cell in self.cells if {cell[0], cell[1]} & set(slots)]:
            del self.cells[cell]
        for moment in [moment for moment in self.moments if moment[0] in slots]:
            del self.moments[moment]


def sums(
    lists: list[list[Entry]], values: Values
) -> tuple[Counter[tuple[int, int, int]], Counter[tuple[int, int]]]:
    """Return the cells and moments of lists: the definition."""
    cells: Counter[tuple[int, int, int]] = Counter()
    moments: Counter[tuple[int, int]] = Counter()
    for entries in lists:
        for slot, row in entries:
            for column, value in enumerate((1, *values[row])):
                moments[slot, column] += value
        for (low, i), (high, j) in combinations(sorted(entries), 2):
            v, w = values[i][0], values[j][0]
            for column, value in enumerate((1, v - w, v * w)):
                cells[low, high, column] += value
    return cells, moments
