"""What false devices at their bound do to a sum of MovieLens-1M, and to the lists after it.

One *together* stage of two parties over the 300 most rated items, epsilon 1 for a person; 1, 10 and
100 of the 6,040 people are false. They know the sum of all others and send `bound` in its direction
reversed, or all of it in one coordinate. Whether a vector counts is decided by the parties' own
proofs: one at the bound does, one beyond it does not. Error: L2 distance of the sum from that of
the honest people, in bounds. Lists: nDCG@10 of the split by user and time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import nan

import numpy as np
from numpy.typing import NDArray

from murmurec.campaigns import ListOptions, campaign_lists
from murmurec.ratings import columns_of
from producers.datasets.load import load
from stream_app.campaigns import together
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.verified import field, norm_proof
from stream_app.evaluation.campaigns import campaign_lists as runs
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files

_FALSE = (1, 10, 100)
_Vector = NDArray[np.int32]


def measure(counts: Sequence[int] = _FALSE) -> list[Figure]:
    """Return the error of the sum and the quality of the lists, by how many devices are false."""
    files = rating_files()
    if "ml-1m" not in files:
        title = f"false devices in real sums: skipped, none in {folder()} (set MURMUREC_DATA)"
        return [Figure(title, nan, "")]
    data = columns_of(load(files["ml-1m"]), None)
    figures = []
    for name in ("reversed", "one coordinate"):
        for count in (0, *counts) if name == "reversed" else counts:
            sums: dict[str, float] = {}

            def sent(
                plan: Campaign,
                index: int,
                own: Sequence[RatedItems],
                count: int = count,
                name: str = name,
                sums: dict[str, float] = sums,
            ) -> Iterator[_Vector]:
                honest = [together.contribution(plan.stages[index], each) for each in own]
                rest = honest[: len(honest) - count]
                total = np.sum(rest, axis=0, dtype=np.int64)
                false = _false(total, plan.stages[index].bound, name)
                sums["rejected"] = not _counts(false * 2, plan, index)
                sums["counted"] = _counts(false, plan, index)
                all_sum = total + count * false.astype(np.int64)
                bound = plan.stages[index].bound
                sums["error"] = float(np.linalg.norm(all_sum - total)) / bound
                yield from rest
                yield from [false] * count

            honest_ones, runs._sent = runs._sent, sent
            try:
                found = campaign_lists(
                    data, "split", Fraction(1), ListOptions(split="user-time"), seed=11
                )
            finally:
                runs._sent = honest_ones
            title = f"{count} of {found.people:,} false, {name}"
            assert sums["counted"], "a device at its bound is counted"
            assert sums["rejected"], "one beyond it is not"
            figures += [
                Figure(f"{title}: error of the sum", sums["error"], "bounds", f"<= {count}"),
                Figure(f"{title}: lists", found.ndcg, "nDCG", ""),
            ]
    return figures


def _false(total: NDArray[np.int64], bound: int, name: str) -> _Vector:
    """Return the integers (size,) of norm `bound` at most that a false device sends."""
    if name == "one coordinate":
        made = np.zeros(len(total), np.int32)
        made[int(np.abs(total).argmin())] = bound
        return made
    return np.trunc(-total * (bound / np.linalg.norm(total))).astype(np.int32)


def _counts(vector: _Vector, plan: Campaign, index: int) -> bool:
    """Return whether two parties count a vector, by the proof that its device can make of it."""
    terms = plan.stages[index]
    statement = norm_proof.Statement(bytes(52), terms.size, terms.bound)
    values = field.residues(vector)
    payloads = norm_proof.Prover(statement, bytes(32), bytes(range(32))).payloads(values)
    checks = [norm_proof.check(statement, party, each) for party, each in enumerate(payloads)]
    if any(each is None for each in checks):
        return False
    messages = [each.message for each in checks if each is not None]
    return bool(norm_proof.accepted(*messages)[0])
