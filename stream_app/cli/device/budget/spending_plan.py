"""`murmurec device plan`: what spends a budget best, in figures and in sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from producers.person import spending
from producers.person.enrolment import PersonBudget
from stream_app.cli.output import plural


def plan_row(
    budget: PersonBudget, expected: spending.Expected, levels: int, terms: list[str]
) -> dict[str, Any]:
    """Return the figures of a plan, exact numbers as text; ValueError where there is none.

    terms: the options of `device enrol` that state the user and this budget.
    """
    found = spending.best_plan(budget, expected, levels=levels)
    sums = spending.best_plan_by_sums(budget, expected, levels=levels)
    return {
        "budget": str(budget),
        "epsilon_of_person": str(budget.epsilon),
        "delta": str(budget.delta),
        "window": budget.window,
        "ratings": expected.ratings,
        "windows": found.windows,
        "plan": found.plan,
        "mechanism": found.mechanism,
        "epsilon": str(found.epsilon),
        "reports": found.reports,
        "information": round(found.information, 3),
        "reports_by_sums": spending.reports_by_sums(budget, found),
        "best_by_sums": {"plan": sums.plan, "information": round(sums.information, 3)},
        "expected": _expected(found, levels),
        "enrol": shlex.join(["murmurec", "device", "enrol", *terms, "--plan", found.plan]),
    }


def _expected(found: spending.SpendingPlan, levels: int) -> dict[str, Any] | None:
    errors = (
        spending.expected_error(found.information * found.windows)
        if levels == spending.LEVELS
        else None
    )
    if errors is None:
        return None
    return {
        "rmse": round(errors[0], 3),
        "rmse_folded_in": round(errors[1], 3),
        "source": spending.SOURCE,
    }


def plan_sentences(row: dict[str, Any]) -> Iterator[str]:
    """Yield a plan in words."""
    reports = plural(row["reports"], "report")
    each = f" in each of {row['windows']} windows" if row["windows"] > 1 else ""
    yield f"budget     {row['budget']} for the whole person, {row['ratings']} ratings expected"
    yield f"plan       {reports} of epsilon {row['epsilon']}{each}: {row['plan']}"
    yield (
        f"carries    as much as {row['information']:.1f} clean ratings{each}; all other ratings "
        "stay on the device, which still uses them for its own lists"
    )
    yield f"sums       {_compared(row)}"
    yield f"expect     {_error(row)}"
    yield f"enrol      {row['enrol']}"
    yield (
        "report     with murmurec device run --plan; workers and devices need "
        f"{row['mechanism']} in MURMUREC_MECHANISMS"
    )


def _compared(row: dict[str, Any]) -> str:
    best = row["best_by_sums"]
    if best["plan"] == row["plan"]:
        return "basic composition (epsilons added) admits the same plan"
    return (
        f"basic composition (epsilons added) admits {row['reports_by_sums']} of them; its best "
        f"plan is {best['plan']}, {best['information']:.1f} clean ratings"
    )


def _error(row: dict[str, Any]) -> str:
    errors = row["expected"]
    if errors is None:
        return "no RMSE was measured for a plan of this size or scale"
    return (
        f"RMSE {errors['rmse']:.3f}, and {errors['rmse_folded_in']:.3f} where the device folds in "
        f"its own ratings: {errors['source']}"
    )
