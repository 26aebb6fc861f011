"""The sentences with which publishing commands state what is protected, public and spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_app.cli.device.mechanism_options import hides_presence

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from producers.journal import Journal
    from stream_app.privacy.mechanism import Mechanism

LARGE_PER_RATING = 4
LARGE_PER_USER = 20


def likelihood_factor(epsilon: Fraction) -> str:
    """Return e^epsilon as people write numbers."""
    import math

    factor = math.exp(epsilon)
    return f"{factor:,.0f}" if 1000 <= factor < 1e12 else f"{factor:.3g}"


def journal_notices(journal: Journal) -> Iterator[str]:
    """Yield what somebody should know who has just opened a journal."""
    if journal.made:
        yield (
            f"journal    {journal.path} is new: new pseudonyms, nothing known of what was "
            "published before"
        )
    if journal.cut:
        yield f"journal    {journal.path}: a write was torn by a crash, its {journal.cut} bytes cut"


def protection_claim(mechanism: Mechanism) -> str:
    """Return in a sentence what this mechanism protects."""
    if mechanism.epsilon is None:
        return f"nothing: the ratings themselves are sent ({mechanism.id})"
    what, than = "the value of each rating", "one value than under another"
    if hides_presence(mechanism):
        what = "whether each item was rated, and how"
        than = "one rating, or none, than under another"
    return (
        f"{what}: no report is more than e^{mechanism.epsilon} = "
        f"{likelihood_factor(mechanism.epsilon)} times likelier under {than} "
        f"({mechanism.id}, adjacency: {mechanism.adjacency})"
    )


PUBLIC = "that the ratings exist, their items, the day, and that one pseudonym made them"


PUBLIC_SCOPE = (
    "the scope of items, and that a pseudonym reports on all of it that it has not reported on "
    "before"
)


AT_ONCE = (
    "at once: when messages come and how large they are tells when somebody rates and how much"
)


AT_THE_END = "at the epoch's end: when a message comes tells nothing of when anybody rated"


def public_sample(reports: int) -> str:
    """Return in a sentence what is public where a device reports on some items of the scope."""
    return (
        f"the scope of items, and that a pseudonym reports on {reports} items of it that a key of "
        "the device picks, but for those that it has reported on before"
    )


def spending_claim(mechanism: Mechanism, most: int, before: Fraction | None = None) -> str:
    """Return in a sentence what the user with the most reports spends at most in sum, and what
    the user who has spent the most has spent before."""
    if mechanism.epsilon is None:
        return "no epsilon is claimed, so none adds up"
    total = mechanism.epsilon * most
    earlier = ""
    if before:
        earlier = f"; the one who has spent the most has spent {float(before):g} before"
    return (
        f"a user's reports add up: {most} x {mechanism.epsilon} = {float(total):g} for the user "
        f"with the most in this run{earlier}"
    )


def warnings(mechanism: Mechanism, most: int, whole: Fraction | None = None) -> list[str]:
    """Return what a careful person would say before publishing; `whole`: what one user will have
    spent at most, with what was spent before."""
    from fractions import Fraction

    said = []
    if whole is None:
        whole = (mechanism.epsilon or Fraction(0)) * most
    if mechanism.epsilon is None:
        said.append("nothing is protected: whoever reads the topic reads the ratings")
    elif mechanism.epsilon > LARGE_PER_RATING:
        said.append(
            f"epsilon {mechanism.epsilon} is above {LARGE_PER_RATING} per rating: a report nearly "
            "always is the rating"
        )
    if whole > LARGE_PER_USER:
        said.append(
            f"above {LARGE_PER_USER} in sum a user's taste as a whole is weakly protected; the "
            "guarantee holds for each single rating"
        )
    return said
