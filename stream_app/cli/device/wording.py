"""Sentences of the publishing commands: what is protected, public and spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_app.cli.device.mechanism_options import hides_presence
from stream_app.cli.output import plural

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from producers.journal import Journal
    from stream_app.privacy.mechanism import Mechanism

LARGE_PER_RATING = 4
LARGE_PER_USER = 20

PUBLIC = "that the ratings exist, their items, the day, and that one pseudonym made them"
PUBLIC_SCOPE = (
    "the scope of items, and that a pseudonym reports once on every item in it (except items "
    "reported before)"
)
AT_ONCE = "at once: the time and size of a message reveal when the user rates and how much"
AT_THE_END = "at the end of the epoch: the time of a message does not reveal when a user rated"


def public_sample(reports: int) -> str:
    """Return what is public where a device reports on a sample of the scope."""
    return (
        f"the scope of items, and that a pseudonym reports on {plural(reports, 'item')} of it that "
        "a key of the device selects (except items reported before)"
    )


def likelihood_factor(epsilon: Fraction) -> str:
    """Return e^epsilon, rounded."""
    import math

    factor = math.exp(epsilon)
    return f"{factor:,.0f}" if 1000 <= factor < 1e12 else f"{factor:.3g}"


def protection_claim(mechanism: Mechanism) -> str:
    """Return what this mechanism protects."""
    if mechanism.epsilon is None:
        return f"nothing: the ratings themselves are sent ({mechanism.id})"
    what, than = "the value of each rating", "one value than under another"
    if hides_presence(mechanism):
        likes = mechanism.family == "like"
        what = f"whether each item was rated, and {'whether it is a like' if likes else 'how'}"
        than = "one rating, or none, than under another"
    return (
        f"{what}: no report is more than e^{mechanism.epsilon} = "
        f"{likelihood_factor(mechanism.epsilon)} times likelier under {than} "
        f"({mechanism.id}, adjacency: {mechanism.adjacency})"
    )


def spending_claim(mechanism: Mechanism, most: int, before: Fraction | None = None) -> str:
    """Return what a run spends: `most` reports of one user, `before` the largest earlier spending.

    Two different users may have the most reports and the largest earlier spending.
    """
    if mechanism.epsilon is None:
        return "no epsilon is claimed, so no sum exists"
    total = mechanism.epsilon * most
    earlier = f"; largest spending of a user before this run: {float(before):g}" if before else ""
    return (
        f"a user's reports add up: {most} x {mechanism.epsilon} = {float(total):g} for the user "
        f"with the most in this run{earlier}"
    )


def warnings(mechanism: Mechanism, most: int, total: Fraction | None = None) -> list[str]:
    """Return the warnings before publishing; `total`: the largest epsilon of one user afterwards,
    earlier runs included."""
    from fractions import Fraction

    sentences = []
    if total is None:
        total = (mechanism.epsilon or Fraction(0)) * most
    if mechanism.epsilon is None:
        sentences.append("nothing is protected: every reader of the topic reads the ratings")
    elif mechanism.epsilon > LARGE_PER_RATING:
        sentences.append(
            f"epsilon {mechanism.epsilon} is above {LARGE_PER_RATING} per rating: a report nearly "
            "always equals the rating"
        )
    if total > LARGE_PER_USER:
        sentences.append(
            f"above {LARGE_PER_USER} in sum a user's taste as a whole is weakly protected; the "
            "guarantee holds for each single rating"
        )
    return sentences


def journal_notices(journal: Journal) -> Iterator[str]:
    """Yield the warnings about a journal that was just opened."""
    if journal.made:
        yield (
            f"journal    {journal.path} is new: new pseudonyms, and no record of earlier reports"
        )
    if journal.cut:
        yield (
            f"journal    {journal.path}: a crash interrupted a write; its "
            f"{plural(journal.cut, 'byte')} were removed"
        )


def campaigns(pace: str) -> str:
    """Return what campaigns may spend of a budget, from SHARE:PART."""
    share, part = pace.split(":")
    return f"may spend {share} of it, and {part} of that in any 30 days"
