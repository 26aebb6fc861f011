"""The worst pair of neighbours of a mechanism, in integers: one pair that dominates all pairs.

For neighbouring inputs with output laws P and Q, the hockey-stick curve

    H(g) = max over sets S of  P(S) - g Q(S),     delta(epsilon) = H(e^epsilon)

is the support function, in direction (1, -g), of the set of points (Q(S), P(S)). The largest of
several such curves is therefore the support function of the convex hull of all their points, and
the edges of the upper hull are the outputs of one pair whose curve is exactly that maximum (Zhu,
Dong and Wang 2022, Prop. 8: such a maximum is the curve of a dominating pair). All points have
integer coordinates, counts of 2^64, so the hull is exact. A pair that dominates each step of an
adaptive sequence dominates the sequence, by products (Zhu, Dong and Wang 2022, Thm 10).

Inputs v and w of a table are exchangeable if exchanging both the rows v and w and the outputs v and
w leaves the table as it is (verified entry by entry). Relabelled outputs have the same curve, so
one pair of each kind represents all, and both orders of a pair within a class are of one kind.
Inputs with equal rows count once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from stream_app.privacy.exact.integer_tables import TOTAL, Table

Counts = Sequence[int]
Rows = tuple[Counts, Counts]


@dataclass(frozen=True)
class DominatingPair:
    """Outputs (p, q) with P = p / total, Q = q / total, by decreasing p / q; q = 0 comes first."""

    atoms: tuple[tuple[int, int], ...]
    total: int = TOTAL

    def __post_init__(self) -> None:
        whole = [sum(side) for side in zip(*self.atoms, strict=True)]
        if whole != [self.total, self.total] or min(min(atom) for atom in self.atoms) < 0:
            raise ValueError(f"pair of {len(self.atoms)} outputs: each side sums to {self.total}")

    @classmethod
    def covering(cls, pairs: Iterable[Rows], total: int = TOTAL) -> DominatingPair:
        """Return the pair whose curve is the largest of the curves of `pairs` of rows."""
        highest = {0: 0, total: total}
        for rows in pairs:
            below = across = 0
            for p, q in _by_ratio(rows):
                below, across = below + q, across + p
                highest[below] = max(highest.get(below, 0), across)
        hull: list[tuple[int, int]] = []
        for point in sorted(highest.items()):
            while len(hull) > 1 and not _is_concave(hull[-2], hull[-1], point):
                hull.pop()
            hull.append(point)
        corners = [(0, 0), *hull]
        edges = [(y - y0, x - x0) for (x0, y0), (x, y) in pairwise(corners) if (x, y) != (x0, y0)]
        return cls(tuple(edges), total)

    def reversed(self) -> DominatingPair:
        """Return the pair (Q, P)."""
        return DominatingPair(tuple((q, p) for p, q in self.atoms[::-1]), self.total)

    def delta(self, ratio: Fraction) -> Fraction:
        """Return H(ratio), exactly: delta at epsilon = ln(ratio)."""
        return sum((max(Fraction(0), p - ratio * q) for p, q in self.atoms), Fraction(0)) / (
            self.total
        )


def value_pairs(table: Table) -> list[Rows]:
    """Return one pair of rows of each kind over all ordered pairs of inputs; none if all agree."""
    classes = _classes(table.counts, range(table.inputs))
    firsts = [group[0] for group in classes]
    pairs = [(group[0], group[1]) for group in classes if len(group) > 1]
    pairs += [(v, w) for v in firsts for w in firsts if v != w]
    return [(table.counts[v], table.counts[w]) for v, w in pairs]


def presence_pairs(table: Table) -> list[Rows]:
    """Return (any input, the last input) for one input of each kind: a cell against "missing"."""
    last = table.counts[-1]
    classes = _classes(table.counts, range(table.inputs - 1))
    return [(table.counts[group[0]], last) for group in classes]


def log_ratio(p: int, q: int) -> float:
    """Return ln(p / q) to a few roundings of float64, also where p and q are close."""
    return math.log1p(Fraction(p - q, q)) if p >= q else -math.log1p(Fraction(q - p, p))


def _by_ratio(rows: Rows) -> list[tuple[int, int]]:
    """Return the outputs by decreasing p / q, equal ratios joined, impossible ones left out."""
    joined: dict[Fraction | None, list[int]] = {}
    for p, q in zip(*rows, strict=True):
        if p or q:
            at = joined.setdefault(Fraction(p, q) if q else None, [0, 0])
            at[0] += p
            at[1] += q
    never = joined.pop(None, None)
    ordered = [joined[ratio] for ratio in sorted(joined, reverse=True)]  # type: ignore[type-var]
    return [(p, q) for p, q in ([never] if never else []) + ordered]


def _is_concave(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Return whether the slope falls strictly at b."""
    return (b[1] - a[1]) * (c[0] - b[0]) > (c[1] - b[1]) * (b[0] - a[0])


def _classes(counts: Sequence[Counts], inputs: range) -> list[list[int]]:
    """Return the different ones of `inputs` in classes whose members are exchangeable."""
    columns = list(zip(*counts, strict=True))
    found: list[list[int]] = []
    for v in {tuple(counts[v]): v for v in reversed(inputs)}.values():
        for group in found:
            if _exchangeable(counts, columns, group[0], v):
                group.append(v)
                break
        else:
            found.append([v])
    return found


def _exchangeable(counts: Sequence[Counts], columns: Sequence[Counts], v: int, w: int) -> bool:
    if max(v, w) >= len(columns):
        return False
    row = list(counts[v])
    row[v], row[w] = row[w], row[v]
    others = zip(columns[v], columns[w], strict=True)
    return row == list(counts[w]) and all(
        a == b for u, (a, b) in enumerate(others) if u not in (v, w)
    )
