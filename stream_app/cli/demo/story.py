"""What a demo has shown, in plain words: how good the lists are, and what is protected;
and what its page shows of the population, a file that the gateway serves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from stream_app.cli.demo.campaign_stages import StageRun
from stream_app.cli.demo.quality import Judged, K, ListQuality
from stream_app.cli.demo.setup import FACTS_NAME
from stream_app.cli.output import plural
from stream_app.kafka import durable_file
from stream_app.privacy.mechanism import Mechanism


def of_lists(lists: Judged) -> str:
    """Return how good the lists are, or why that is not known."""
    quality = lists.quality
    if quality is None:
        return f"lists: quality unknown: {lists.absent}"
    return (
        f"lists: quality {quality} (nDCG@{K} over {quality.users} people: 1 where all that a "
        "person liked later is on top, 0 where none of it is listed)"
    )


def of_reports(ratings: int, people: int, mechanism: Mechanism) -> str:
    """Return how many ratings were learned, and how each of them is protected."""
    assert mechanism.epsilon is not None
    return (
        f"learned {ratings:,} ratings of {people:,} people; each left its device as a noised "
        f"report: epsilon {float(mechanism.epsilon):g} for each rating ({mechanism.id}, adjacency "
        f"{mechanism.adjacency}; public: {mechanism.observed})"
    )


def of_sums(ratings: int, people: int, mode: str, epsilon: float, delta: float) -> str:
    """Return what a campaign was learned from, and what is protected."""
    parties = (
        "two parties, of which one must be honest,"
        if mode == "split"
        else "one party, which is trusted,"
    )
    return (
        f"learned from {ratings:,} ratings of {people:,} people; no rating was sent: {parties} "
        f"published one noisy sum; epsilon {epsilon:.3g} at delta {delta:g} for everything that a "
        "person ever rated, all of it against none (adjacency user)"
    )


def of_stages(stages: Sequence[StageRun], scope: int, seconds: float) -> Iterator[str]:
    """Yield what each stage took, and what was checked."""
    for stage in stages:
        yield (
            f"stage {stage.index} ({stage.kind}, {scope} items): "
            f"{plural(stage.contributions, 'device')} sent {stage.bytes / 1000:.0f} kB each in "
            f"{stage.sending:.0f} s; the sum came {stage.summing:.0f} s later, and is exact but "
            f"for {stage.noise_ratio:.3f} of the stated noise"
        )
    yield f"every device counted once and paid once; {seconds:.0f} s in all"


def write_facts(
    folder: Path, mode: str, people: int, ratings: int, quality: ListQuality | None
) -> None:
    """Write the size and, once it is measured, the quality; a reader never sees half a file."""
    facts = {"mode": mode, "people": people, "ratings": ratings}
    content = json.dumps(facts | {"quality": quality and quality.facts()}).encode()
    durable_file.replace(folder / FACTS_NAME, content, durable_file.SHARED)
