"""What each release of lists by similar items guarantees, as rows of docs/privacy.md."""

from __future__ import annotations

from fractions import Fraction

from research.score_noise.damped import DampedLists
from research.score_noise.printed import (
    LIST,
    PrintedLaplace,
    cosine_sensitivity,
    slope_one_sensitivity,
    value_sensitivity,
)
from research.similarity.noised_sums import plan_for

HEAD = ("release", "its epsilon covers", "a score moves by", f"a list of {LIST} costs")
_DAMPINGS = (20.0, 50.0)
_ITEMS = 1_000
_DELTA = Fraction(1, 10**6)


def rows() -> list[tuple[str, str, str, str]]:
    """Return one row a release: the mechanism as printed, damped lists, and noise once."""
    found = [
        _printed("Slope One", slope_one_sensitivity()),
        _printed("cosine", cosine_sensitivity()),
    ]
    for method in ("slope-one", "cosine"):
        for damping in _DAMPINGS:
            lists = DampedLists(method, Fraction(1), LIST, damping)
            found.append(
                (
                    f"damped {method}, beta {damping:g}: ordered list alone",
                    "an own rating, or another user's whole profile",
                    f"at most {lists.sensitivity:.4f}, proved",
                    "epsilon, for each list that is drawn for anyone",
                )
            )
    for epsilon in (2, 8):
        plan = plan_for(epsilon, _DELTA, _ITEMS)
        proved = float(plan.certificate.delta(Fraction(epsilon)))
        found.append(
            (
                f"noise once, epsilon {epsilon}, {_ITEMS:,} items",
                f"all that one device reported, but for delta {proved:.1g}",
                f"noise of {plan.deviation:.2f} a sum, beside 1 for all sums of a device",
                "nothing: the table costs epsilon once",
            )
        )
    return found


def _printed(method: str, sensitivity: float) -> tuple[str, str, str, str]:
    bound = PrintedLaplace(1.0, sensitivity).bound_of_list(LIST)
    if method == "cosine":
        holds = "nothing: a first buyer moves a score by .707"
    else:
        holds = (
            f"a rating's value in one score, which it moves by {value_sensitivity():.3f} at most"
        )
    return (
        f"`paper`: Laplace noise on scores, {method}",
        holds,
        f"{sensitivity:g} claimed",
        f"up to {bound:g} epsilon for its order alone",
    )
