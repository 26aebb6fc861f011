"""What the figures of a budget mean, and what spends one best, in sentences."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from producers.person import spending
from producers.person.enrolment import PersonBudget
from producers.person.plans import mechanism_of
from stream_app.cli.device.wording import LARGE_PER_USER, campaigns, likelihood_factor
from stream_app.cli.output import plural, printable

_MEANING = {
    ("rating", "value"): "no report is more than e^(its epsilon) times likelier under one value of "
    "the rating than under another; for all values of the user together the factor is e^(the sum). "
    "That the ratings exist is public",
    ("rating", "cell"): "no report is more than e^(its epsilon) times likelier under one rating of "
    "the item, or none, than under another; for the user's whole record the factor is e^(the sum)",
    ("rating", "nothing"): "these ratings were sent without noise: nothing is protected",
}

_SHOWN = 20  # accounts
_IDLE = "no program runs on it"


def sentences(row: dict[str, Any]) -> Iterator[str]:
    """Yield the figures of one user, or of a journal and the largest spendings in it, in words."""
    if "user" in row:
        yield f"user {printable(row['user'])}, as of epoch {row['epoch']}"
        yield from _about_person(row)
    else:
        yield from _about_journal(row)
        yield (
            f"{plural(row['users'], 'user')}, {row['enrolled']} enrolled, {row['withdrawn']} "
            f"withdrawn, {row['simulated']} simulated, as of epoch {row['epoch']}"
        )
    if not row["spent"]:
        yield "nothing was spent"
    for spent in row["spent"]:
        yield _line(spent)
        key = spent["scope"], spent["adjacency"]
        yield f"  {_MEANING.get(key, 'see the mechanism for what it protects')}"
        if spent["delta"] not in (None, "0"):
            yield "  up to an additive delta, which also grows with the number of items"
    yield from _totals(row)
    for each in row.get("receipts", ()):
        place = f"campaign {each['campaign']} ({each['plan'][:16]}), stage {each['stage']}"
        cost = f"; paid epsilon {each['epsilon']}, {plural(each['paid'], 'time')}"
        found = f"{place}: {each['outcome']}, {each['reason']}{cost}"
        yield f"receipt    {each['reason'] if each['campaign'] is None else found}"


def _about_journal(row: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences about the program, what waits, and the moments of the accounts."""
    running, scope = row["running"], row["scope"]
    yield f"device     {row['journal']}: {'in use by a program' if running else _IDLE}"
    yield f"messages   {plural(row['pending_events'], 'message')} not confirmed by the broker"
    yield f"ratings    {plural(row['ratings_kept'], 'line')} kept on this device"
    yield f"scope      {f'SHA-256 {scope}' if scope else 'none stored'}"
    for each in row["accounts"][:_SHOWN]:
        yield (
            f"{each['device']}  enrolled in epoch {each['enrolled']}, next moment "
            f"{each['next'] or 'none: withdrawn'}"
        )
    if len(row["accounts"]) > _SHOWN:
        yield f"and {len(row['accounts']) - _SHOWN:,} more (--json)"


def _about_person(row: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences about the whole person."""
    person, user = row["person"], printable(row["user"])
    if person is None:
        yield (
            f"not enrolled: nothing is released for {user} without a budget; run murmurec device "
            f"enrol --user {user}"
        )
        return
    if person["withdrawn"]:
        yield f"withdrawn in epoch {person['withdrawn']}: nothing is released any more"
    if person["epsilon"] is None:
        yield "no limit for the whole person: a simulated account"
        return
    left = " or ".join(reports_left(id, count) for id, count in person["left"].items())
    yield f"{_as_person(person)}; {left}"
    yield f"spent {_so_far(person)}; the plan is {person['plan'] or 'not decided yet'}"
    if float(person["spent"]) > Fraction(person["epsilon"]):
        yield "  its plan, made beforehand, keeps everything together within the budget"
    yield f"campaigns {campaigns(person['pace'])}"
    purposes = person["purposes"] if len(person["purposes"]) > 1 else {}
    for name, each in purposes.items():
        yield f"  {name}: {_so_far(each)}"


def _so_far(row: dict[str, Any]) -> str:
    """Return what was spent if it ended now, to three decimals, rounded up."""
    zeros, replaced = (
        f"{math.ceil(round(float(row[key]) * 1000, 6)) / 1000:g}" if row[key] != "inf" else "inf"
        for key in ("spent", "spent_against_another")
    )
    return f"{zeros} so far, {replaced} against another record"


def _as_person(person: dict[str, Any]) -> str:
    bare, _, span = person["budget"].partition(") ")
    return f"{bare}) for you as a person {span}"


def reports_left(id: str, count: int) -> str:
    """Return how many more releases of one mechanism a budget holds; a campaign is one release,
    and its exact epsilon a fraction of a thousand digits."""
    if id.startswith("gaussian:"):
        return f"{plural(count, 'campaign')} of the same stages left"
    return f"{plural(count, 'report')} left at {mechanism_of(id).epsilon} ({id})"


def _totals(row: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences about all kinds together."""
    most = "" if "user" in row else " of the user with the most"
    if float(row["epsilon_on_one_rating"]):
        yield f"each single rating{most}: epsilon {row['epsilon_on_one_rating']} at most"
    if (k := row["reports_on_one_item"]) > 1:
        yield f"a rating has {k} reports: their joint factor is e^({k} x epsilon)"
    if float(row["epsilon_in_sum"]) > LARGE_PER_USER:
        yield f"warning: a sum above {LARGE_PER_USER} is weak protection"
    if row["pending_events"]:
        yield (
            f"{plural(row['pending_events'], 'event')} paid for and not acknowledged: the next "
            "publish or replay sends them"
        )


def _line(spent: dict[str, Any]) -> str:
    """Return the line of one kind: the user's spending, or the largest spending of a user."""
    is_rating = spent["scope"] == "rating"
    noun = "report" if is_rating else spent["scope"]
    parts = [f"{'' if is_rating else f'{noun}, '}{spent['adjacency']}:"]
    if spent["epsilon"] is not None:
        parts.append(f"epsilon {spent['epsilon']}")
        if spent["delta"] != "0":
            parts.append(f"delta {spent['delta']}")
    parts.append(f"on {plural(spent['reports'], noun)}")
    if spent["reports_again"]:
        parts.append(f"({spent['reports_again']} of items that were reported before)")
    if "users" in spent:
        parts.append(f"by the user with the most ({plural(spent['users'], 'user')} in all)")
    return " ".join(parts)


def meaning_of_raise(user: str, before: PersonBudget, after: PersonBudget) -> Iterator[str]:
    """Yield what a raised budget means for a person."""
    assert before.epsilon is not None
    assert after.epsilon is not None
    yield f"the budget of {user} was {before} and is {after}"
    yield (
        f"all reports of {user} together may now be e^{float(after.epsilon):g} = "
        f"{likelihood_factor(after.epsilon)} times likelier than those of a person without any of "
        f"these ratings, before e^{float(before.epsilon):g} = {likelihood_factor(before.epsilon)} "
        "times"
    )
    yield "reports that use it are public for good: it can be raised further, and never lowered"
    if after.epsilon > LARGE_PER_USER:
        yield f"warning: above {LARGE_PER_USER} a person's taste as a whole is weakly protected"


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
