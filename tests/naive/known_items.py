"""The obvious version of the items that have a row: dictionaries and lists, report by report."""

from __future__ import annotations

from stream_app.state.known_items import Admission

MASK = 2**64 - 1
DEPTH = 4


def hash64(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Items:
    def __init__(self, most: int, seed: int, rule: Admission) -> None:
        self.most, self.seed, self.rule = most, seed, rule
        self.keys: list[int] = []
        self.reports: list[int] = []
        self.credit: list[int] = []
        self.cells = [[0] * rule.width for _ in range(DEPTH)]
        self.hand = self.outside = 0
        self.waiting: list[int] = []

    def enter(self, key: int) -> int:
        if key not in self.keys and len(self.keys) < self.most:
            self.keys.append(key)
            self.reports.append(0)
            self.credit.append(0)
        if key in self.keys:
            row = self.keys.index(key)
            self.credit[row] = min(255, self.credit[row] + 1)
            return row
        if self.outside >= self.rule.width:
            self.cells = [[cell // 2 for cell in row] for row in self.cells]
            self.outside //= 2
        self.outside += 1
        found = []
        for j, row_of_cells in enumerate(self.cells):
            salt = (self.seed * 64 + 8 * DEPTH + j) * 0x9E3779B97F4A7C15
            h = hash64(hash64((key + salt) & MASK))
            cell = ((h >> 32) * self.rule.width) >> 32
            row_of_cells[cell] = min(255, row_of_cells[cell] + 1)
            found.append(row_of_cells[cell])
        ready = min(found) >= self.rule.threshold and len(self.waiting) < self.rule.waiting
        if ready and key not in self.waiting:
            self.waiting.append(key)
        return -1

    def end_round(self, pinned: list[int]) -> list[int]:
        replaced, steps = [], self.rule.steps
        for key in self.waiting:
            row = -1
            while steps and row < 0:
                steps, at = steps - 1, self.hand
                self.hand = (at + 1) % len(self.keys)
                if at in pinned:
                    continue
                if self.credit[at]:
                    self.credit[at] //= 2
                else:
                    row = at
            if row < 0:
                break
            self.keys[row] = key
            self.reports[row], self.credit[row] = self.rule.threshold, 0
            replaced.append(row)
        self.waiting = []
        return replaced
