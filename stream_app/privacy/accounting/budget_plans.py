"""Plans of a budget: what may be reported so that the whole interaction satisfies (epsilon, delta).

A plan is fixed at enrolment and determines what the budget admits. Let a step of the interaction
be one report: mechanism and input of a step may depend on all earlier reports. Each step is a
post-processing of one draw of its mechanism's dominating pair (Zhu, Dong and Wang 2022, Thm 10).

    exact      "rr:5:1/2*93" or "rr:5:1/2*60,cell:5:1/4*20": these mechanisms, these counts. Draw
               all of the plan's pairs beforehand: any order of mechanisms, any inputs and any
               stopping rule within the counts are a function of these draws. So the curve of the
               whole plan bounds the interaction, exactly. A count that is left out, "rr:5:1/2", is
               the largest that fits the budget beside the others; only the last may be left out.
    adaptive   "adaptive:45/16" ("adaptive" chooses the order from the budget): any mechanisms,
               chosen on the way, by the Renyi filter of `renyi.py`. The curve of loss distributions
               is NOT valid there: a strategy that takes other parameters after a lucky report
               exceeds delta although the curve of the counts that occurred never does.
    sum        "sum": pure epsilons, added; a valid filter for any choice (Rogers, Roth, Ullman and
               Vadhan 2016).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from stream_app.privacy.accounting.renyi import capacity, filter_order
from stream_app.privacy.accounting.whole_person import (
    NOTHING_REPORTED,
    ReportLoss,
    renyi_cost,
    report_loss,
    sum_cost,
)
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_loss import delta_of, is_campaign

Counts = Mapping[str, int]
_PART = re.compile(r"([a-z]{1,16}(?::[0-9a-z/]{1,32}){1,4})(?:\*([0-9]{1,12}))?", re.ASCII)
_ORDER = re.compile(r"adaptive:([0-9]{1,6}(?:/[0-9]{1,2})?)", re.ASCII)
MOST_REPORTS = 10**9
LARGEST_EPSILON = 10**6
LEAST_DELTA = Fraction(1, 10**15)


@dataclass(frozen=True)
class ExactPlan:
    """Mechanisms with counts that are fixed in advance."""

    counts: tuple[tuple[str, int], ...]
    delta: Fraction

    def room(self, used: Counts, id: str) -> int:
        """Return the planned count less the used one."""
        return max(0, dict(self.counts).get(id, 0) - used.get(id, 0))

    def spent(self, used: Counts) -> float:
        """Return epsilon of the composition of the counts."""
        counts = tuple(sorted((id, count) for id, count in used.items() if count))
        return _composed_epsilon(counts, self.delta)


@dataclass(frozen=True)
class RenyiPlan:
    """Any mechanisms, while the sum of their Renyi divergences is within the capacity."""

    epsilon: Fraction
    delta: Fraction
    order: Fraction

    def room(self, used: Counts, id: str) -> int:
        """Return how many more fit, by division of integers."""
        left = _renyi_capacity(self.epsilon, self.delta, self.order)
        for before, count in used.items():
            left -= count * _renyi_cost(before, self.order)
        if left < 0:
            return 0
        cost = _renyi_cost(id, self.order)
        return min(MOST_REPORTS, left // cost) if cost else MOST_REPORTS


@dataclass(frozen=True)
class SumPlan:
    """Any mechanisms, while the sums of their epsilons and deltas are within the budget."""

    epsilon: Fraction
    delta: Fraction

    def room(self, used: Counts, id: str) -> int:
        """Return how many more fit, exactly."""
        rooms = [MOST_REPORTS]
        for left, cost in zip(self._left(used), sum_cost(id), strict=True):
            if left < 0:
                return 0
            rooms += [int(left // cost)] if cost else []
        return min(rooms)

    def _left(self, used: Counts) -> tuple[Fraction, Fraction]:
        epsilon, delta = self.epsilon, self.delta
        for id, count in used.items():
            each = sum_cost(id)
            epsilon, delta = epsilon - count * each[0], delta - count * each[1]
        return epsilon, delta


Plan = ExactPlan | RenyiPlan | SumPlan
"""What a budget admits, given the counts of the reports so far."""
KEPT = 1 - Fraction(1, 1024)  # the share of delta that a divergence is turned into


@lru_cache(maxsize=64)
def _renyi_capacity(epsilon: Fraction, delta: Fraction, order: Fraction) -> int:
    return capacity(epsilon, delta * KEPT, order)


_renyi_cost = lru_cache(maxsize=256)(renyi_cost)


@lru_cache(maxsize=1024)
def _composed_epsilon(counts: tuple[tuple[str, int], ...], delta: Fraction) -> float:
    return _composed(counts).epsilon(float(delta))


def _composed(counts: Iterable[tuple[str, int]]) -> ReportLoss:
    total = NOTHING_REPORTED
    for id, count in counts:
        total = total.compose(report_loss(id).self_composed(count))
    return total


def pin(plan: str, epsilon: Fraction, delta: Fraction) -> str:
    """Return the plan with the order or the last count filled in; ValueError if it does not fit."""
    _check_budget(epsilon, delta)
    if plan == "adaptive":
        return f"adaptive:{filter_order(epsilon, delta * KEPT)}"
    if plan == "sum" or _ORDER.fullmatch(plan):
        read_plan(plan, epsilon, delta)
        return plan
    parts = _parts(plan)
    if any(count is None for _, count in parts[:-1]):
        raise ValueError(f"plan {plan[:80]!r}: only the last mechanism may be without a count")
    *fixed, (last, stated) = parts
    before = tuple((id, count or 0) for id, count in fixed)
    if stated is None:
        stated = largest_count(last, epsilon, delta, before)
    whole = ",".join(f"{id}*{count}" for id, count in (*before, (last, stated)))
    read_plan(whole, epsilon, delta)
    return whole


@lru_cache(maxsize=256)
def read_plan(plan: str, epsilon: Fraction, delta: Fraction) -> Plan:
    """Return a completed plan; ValueError if it is none, or exceeds the budget."""
    _check_budget(epsilon, delta)
    if plan == "sum":
        return SumPlan(epsilon, delta)
    if match := _ORDER.fullmatch(plan):
        order = Fraction(match[1])
        if order <= 1:
            raise ValueError(f"plan {plan}: the order of a Renyi divergence is above 1")
        return RenyiPlan(epsilon, delta, order)
    counts = []
    for id, count in _parts(plan):
        if count is None:
            raise ValueError(f"plan {plan[:80]!r}: a count is missing; enrol completes it")
        counts.append((id, count))
    if not fits(tuple(counts), epsilon, delta):
        raise ValueError(
            f"plan {plan[:80]!r}: exceeds ({epsilon}, {float(delta):g}) for the whole person"
        )
    return ExactPlan(tuple(counts), delta)


@lru_cache(maxsize=256)
def largest_count(
    id: str, epsilon: Fraction, delta: Fraction, before: tuple[tuple[str, int], ...] = ()
) -> int:
    """Return the largest number of reports that fit (epsilon, delta) beside `before`; maybe 0."""

    def enough(count: int) -> bool:
        return fits((*before, (id, count)), epsilon, delta)

    guess = _guess(id, epsilon, delta, before)
    low, high = (guess, guess + 1 + guess // 8) if guess and enough(guess) else (0, max(1, guess))
    while high < MOST_REPORTS and enough(high):
        low, high = high, 2 * high - low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def _guess(id: str, epsilon: Fraction, delta: Fraction, before: tuple[tuple[str, int], ...]) -> int:
    """Return a count that Renyi divergences prove, without proof: the search starts from it."""
    try:
        rest = renyi_cost(id, order := filter_order(epsilon, delta))
        used = sum(n * renyi_cost(each, order) for each, n in before)
    except ValueError:
        return 0
    room = capacity(epsilon, delta, order) - used
    return min(MOST_REPORTS, max(0, room // rest)) if rest else 0


def fits(counts: tuple[tuple[str, int], ...], epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether all these reports together satisfy (epsilon, delta) for the person."""
    return delta_at(counts, epsilon) <= delta


def delta_at(counts: tuple[tuple[str, int], ...], epsilon: Fraction) -> Fraction:
    """Return a bound of the delta of all these reports together at `epsilon`."""
    if all(is_campaign(id) for id, _ in counts):
        return delta_of([(naming.parse(id), n) for id, n in counts], epsilon)
    return Fraction(_composed(counts).delta(_below(epsilon)))


def _below(x: Fraction) -> float:
    """Return a float64 that is at most x."""
    found = float(x)
    return found if Fraction(found) <= x else math.nextafter(found, -math.inf)


def _parts(plan: str) -> list[tuple[str, int | None]]:
    found = []
    for part in plan.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(
                f"plan {plan[:80]!r}: give adaptive, sum, or mechanisms with counts, as "
                "rr:5:1/2*60,cell:5:1/4*20"
            )
        found.append((match[1], None if match[2] is None else int(match[2])))
    if len({id for id, _ in found}) < len(found):
        raise ValueError(f"plan {plan[:80]!r}: a mechanism occurs twice; give each once")
    return found


def _check_budget(epsilon: Fraction, delta: Fraction) -> None:
    for name, amount in (("epsilon", epsilon), ("delta", delta)):
        if not isinstance(amount, Fraction):
            raise ValueError(  # noqa: TRY004 (one error for bad input)
                f"{name} {str(amount)[:40]}: give an exact number, as Fraction(20)"
            )
    if not 0 < epsilon <= LARGEST_EPSILON or not LEAST_DELTA <= delta < 1:
        raise ValueError(
            f"budget ({float(epsilon):g}, {float(delta):g}): epsilon is above 0 and at most "
            f"{LARGEST_EPSILON}, delta from {float(LEAST_DELTA):g} to 1"
        )
