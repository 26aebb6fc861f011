"""The obvious versions of the statistics: Python integers, sets, dictionaries, one by one."""

from __future__ import annotations

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
PRIME = 2**61 - 1


def mix(x: int) -> int:
    x &= MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def bounded(h: int, n: int) -> int:
    return ((h >> 32) * n) >> 32


class Seen:
    """Split-block Bloom filter as a set of (block, word, bit)."""

    def __init__(self, blocks: int, seed: int) -> None:
        self.blocks, self.seed = blocks, seed
        self.bits: set[tuple[int, int, int]] = set()

    def places(self, user: int, item: int) -> set[tuple[int, int, int]]:
        h = mix(mix(user + self.seed * GOLDEN) + item)
        g = mix(h + GOLDEN)
        return {(bounded(h, self.blocks), j, (g >> (5 * j)) & 31) for j in range(8)}

    def add(self, user: int, item: int) -> None:
        self.bits |= self.places(user, item)

    def test(self, user: int, item: int) -> bool:
        return self.places(user, item) <= self.bits

    def words(self) -> list[list[int]]:
        words = [[0] * 8 for _ in range(self.blocks)]
        for block, word, bit in self.bits:
            words[block][word] |= 1 << bit
        return words


class CountMin:
    """Rows of counters; the seed of row j is seed * 64 + j."""

    def __init__(self, depth: int, width: int, seed: int) -> None:
        self.seeds = [seed * 64 + j for j in range(depth)]
        self.cells = [[0] * width for _ in range(depth)]

    def places(self, key: int) -> list[tuple[int, int]]:
        width = len(self.cells[0])
        return [(j, bounded(mix(mix(key + s * GOLDEN)), width)) for j, s in enumerate(self.seeds)]

    def add(self, key: int) -> None:
        for j, cell in self.places(key):
            self.cells[j][cell] += 1

    def estimate(self, key: int) -> int:
        return min(self.cells[j][cell] for j, cell in self.places(key))


class SecondMoment:
    """Fast AMS with the polynomial written out and the moment summed again."""

    def __init__(self, coefficients: list[list[int]], width: int) -> None:
        self.coefficients = coefficients
        self.cells = [[0] * width for _ in coefficients]

    def add(self, key: int) -> None:
        for row, (a0, a1, a2, a3) in zip(self.cells, self.coefficients, strict=True):
            value = (a0 + a1 * key + a2 * key**2 + a3 * key**3) % PRIME
            row[((value >> 29) * len(row)) >> 32] += 1 - 2 * (value & 1)

    def moments(self) -> list[int]:
        return [sum(c * c for c in row) for row in self.cells]


class Marks:
    """The seqs of each device as two sets of numbers, the one that was extended last in front; or
    the largest alone, where they are signed. `rows` has the device of each row, or None; `contents`
    what each number was entered with, and `reused` whether the last event differs from that."""

    def __init__(self, gap: int, *, signed: bool = False) -> None:
        self.gap, self.signed = gap, signed
        self.runs: dict[tuple[int, int], list[set[int]]] = {}
        self.days: dict[tuple[int, int], int] = {}
        self.contents: dict[tuple[int, int], dict[int, object]] = {}
        self.reused = False
        self.rows: list[tuple[int, int] | None] = []
        self.free: list[int] = []
        self.oldest = self.newest = self.hand = self.left = 0

    def accept(self, days: tuple[int, int] | None) -> None:
        if days is not None:
            if days[0] > self.oldest:
                self.left = len(self.rows)
            self.oldest, self.newest = max(self.oldest, days[0]), max(self.newest, days[1])

    def evict(self, steps: int) -> list[int]:
        evicted = []
        while steps and self.left:
            steps, self.left, at = steps - 1, self.left - 1, self.hand
            self.hand = (at + 1) % len(self.rows)
            device = self.rows[at]
            if device is not None and self.days[device] < min(self.oldest, 65534):
                del self.runs[device], self.days[device], self.contents[device]
                self.rows[at] = None
                self.free.append(at)
                evicted.append(at)
        return evicted

    def _enter(self, device: tuple[int, int]) -> None:
        if self.free:
            self.rows[self.free.pop()] = device
        else:
            self.rows.append(device)

    def advance(
        self,
        device: tuple[int, int],
        seq: int,
        accepted: bool,
        day: int = 0,
        content: object = None,
    ) -> tuple[int, int]:
        self.reused = False
        if not accepted:
            return 3, 0
        runs = self.runs.get(device, [{0}, {0}])
        if seq < 1 or any(seq in run for run in runs) or (self.signed and seq < max(runs[0])):
            newest = seq >= 1 and seq in [max(run) for run in runs]
            self.reused = newest and self.contents[device][seq] != content
            return 1, 0
        first = device not in self.runs
        if first:
            self._enter(device)
        self.days[device] = max(day, self.days.get(device, 0))
        self.runs[device] = runs
        self.contents.setdefault(device, {})[seq] = content
        if self.signed:
            skipped = min(seq - max(runs[0]) - 1, self.gap)
            runs[0] = {seq}
            return 0, skipped
        ends = [max(run) for run in runs]
        if seq - 1 in ends:
            followed = ends.index(seq - 1)
            runs[:] = [runs[followed] | {seq}, runs[1 - followed]]
            outcome = 0, 0
        else:
            near = [n for n, end in enumerate(ends) if end < seq <= end + 1 + self.gap]
            runs[:] = [{seq}, runs[near[0] if near else 0]]
            outcome = (0, seq - ends[near[0]] - 1) if near else (0 if first else 2, 0)
        newer, other = runs
        if max(newer) + 1 in other or max(other) + 1 in newer:
            runs[:] = [newer | other, {0}]
        return outcome

    def row(self, device: tuple[int, int]) -> list[int]:
        """Return what the state holds of a known device."""
        first, second = self.runs[device]
        if self.signed:
            return [max(first)]
        return [min(first), max(first), min(second), max(second)]


def event_digest(epoch: int, ratings: list[tuple[int, int, int]], salt: int) -> int:
    """Return the digest of an event of (item, report, channel) by the formula."""
    h = (salt + epoch) & MASK
    for item, report, channel in ratings:
        h = mix(mix(h + item) + channel * 256 + report)
    return max(h >> 32, 1)
