"""What a demo has shown, in plain words: how good the lists are, of whom, and what is protected."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from stream_app.cli.demo.lists.people import People
from stream_app.cli.demo.lists.quality import Comparison, Judged, K
from stream_app.cli.output import described, plural
from stream_app.privacy.mechanism import Mechanism

if TYPE_CHECKING:
    from stream_app.cli.demo.campaign_run import CampaignFigures

_RATED, _LISTED = 3, 5
_LATER, _FITS = "*", "+"


def of_lists(lists: Judged) -> Iterator[str]:
    """Yield how good the lists are, two people with theirs, and the share in liked genres."""
    found, quality, absent = lists
    if quality is None:
        yield f"lists: quality unknown: {absent}"
    else:
        yield (
            f"lists: quality {quality} (nDCG@{K} over {quality.users} people: 1 where all that a "
            "person liked later is on top, 0 where none of it is listed)"
        )
    if found is None:
        return
    for user in found.shown():
        yield from _of_person(found, user)
    yield (
        f"  {_LATER} the person liked it later, which was never sent; {_FITS} it is of a genre "
        "that the person likes; both lists are near the middle of all"
    )
    if shares := lists.genres:
        yield (
            f"share of a list in genres that its person likes: here {shares['here']:.0%}, popular "
            f"{shares['popular']:.0%}, with privacy off {shares['privacy_off']:.0%}"
        )


def _of_person(found: Comparison, user: int) -> Iterator[str]:
    people, later = found.people, found.later(user)
    likes = " and ".join(people.likes(user)) or "nothing that has a name"
    rated = (f"{_title(people, item)} {stars:g}" for item, stars in people.typical(user)[:_RATED])
    yield f"a person who likes {likes}, and rated {'; '.join(rated)}"
    listed = found.served[user]
    marks = [_LATER * (item in later) + _FITS * people.fits(user, item) for item in listed]
    shown = (mark + _title(people, item) for mark, item in zip(marks, listed, strict=True))
    yield (
        f"  is recommended {'; '.join(islice(shown, _LISTED))}; in all, of {len(listed)}, "
        f"{sum(_LATER in each for each in marks)} {_LATER} and "
        f"{sum(_FITS in each for each in marks)} {_FITS}"
    )


def _title(people: People, item: int) -> str:
    about = people.about(item)
    return described(about.title, about.genres, about.year)


def of_reports(ratings: int, people: int, mechanism: Mechanism) -> str:
    """Return how many ratings were learned, and how each of them is protected."""
    if mechanism.epsilon is None:
        return f"learned {ratings:,} ratings of {people:,} people under {mechanism.id}: unprotected"
    return (
        f"learned {ratings:,} ratings of {people:,} people; each left its device as a noised "
        f"report: epsilon {float(mechanism.epsilon):g} for each rating ({mechanism.id}, adjacency "
        f"{mechanism.adjacency}; public: {mechanism.observed})"
    )


def of_attacker(right: tuple[float, float]) -> str:
    """Return the shares of guesses that are right, without a report and with it."""
    return (
        f"an attacker who knows all other ratings guesses {right[0]:.0%} of single ratings, and "
        f"{right[1]:.0%} with the report: a measurement, not a guarantee"
    )


def of_sums(figures: CampaignFigures) -> str:
    """Return what a campaign was learned from, and what is protected."""
    parties = (
        "two parties, of which one must be honest,"
        if figures.mode == "split"
        else "one party, which is trusted,"
    )
    return (
        f"learned from {figures.ratings:,} ratings of {figures.people:,} people; no rating was "
        f"sent: {parties} published one noisy sum; epsilon {figures.epsilon:.3g} at delta "
        f"{figures.delta:g} for everything that a person ever rated, all of it against none "
        "(adjacency user)"
    )


def of_stages(figures: CampaignFigures) -> Iterator[str]:
    """Yield what each stage took, and what was checked."""
    for stage in figures.stages:
        yield (
            f"stage {stage.index} ({stage.kind}, {figures.scope} items): "
            f"{plural(stage.contributions, 'device')} sent {stage.bytes / 1000:.0f} kB each in "
            f"{stage.sending:.0f} s; the sum came {stage.summing:.0f} s later, and is exact but "
            f"for {stage.noise_ratio:.3f} of the stated noise"
        )
    yield f"every device counted once and paid once; {figures.seconds:.0f} s in all"
