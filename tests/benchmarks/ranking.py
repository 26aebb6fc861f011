"""Quality of lists: nDCG@10 of up to 2,000 users on three splits, beside popularity and EASE.

Splits: the last fifth of the stream, each user's last day of ratings, each user's last fifth; data
without times are put in a random order and have the last one alone. Relevant is a like, 7/10 up the
scale; one seed of the noise. low and high are a 95 % interval over users. `murmurec/ranking.py` is
the whole of the path: messages of reports, a worker's state, the item side as it is published,
lists. Under rr at 2 ratings are sent in every form of messages, otherwise packed. A figure above
popular is a difference on the same users; its target is minus one standard error.
"""

from __future__ import annotations

from math import nan

from murmurec.ranking import RankingEvaluation, RankingOptions
from murmurec.ratings import columns_of
from producers.datasets import synthetic
from producers.datasets.load import Dataset, is_timed, load
from stream_app.evaluation.ranking import FORMS, Mean, NothingToTest, RankingResult, RankingRow
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files

SPLITS = ("global", "visit", "user-time")
_MODEL = "sketch"
_PUBLIC = "rr:{}:2"
_OTHERS = ("rr:{}:1", "like:{}:1", "like:{}:2", "like:{}:4", "cell:{}:2")
_TARGETS = {  # file, split, method: nDCG
    ("ml-1m", "global", "next"): ">= 0.265",
    ("ml-100k", "global", "next"): ">= 0.18",
    ("ml-1m", "visit", "next"): ">= 0.150",
    ("ml-100k", "visit", "next"): ">= 0.185",
    ("ml-1m", "user-time", "next"): ">= 0.16",
    ("ml-100k", "user-time", "next"): ">= 0.18",
    ("ml-1m", "user-time", "now"): ">= 0.205",
    ("ml-100k", "user-time", "now"): ">= 0.225",
}


def measure() -> list[Figure]:
    """Return the figures of every data set that is found, and of the generated world."""
    sets: dict[str, Dataset] = {name: load(path) for name, path in rating_files().items()}
    figures = []
    for name, data in {**sets, "generated world": synthetic.generate(1).dataset}.items():
        figures += [*_of_public(name, data), *_of_others(name, data)]
    if not sets:
        title = f"ranking on real ratings: skipped, none in {folder()} (set MURMUREC_DATA)"
        figures.append(Figure(title, nan, ""))
    return figures


def measured(data: Dataset, mechanism: str, messages: tuple[str, ...]) -> list[RankingResult]:
    """Return all rows of one mechanism, of each split that tests anyone."""
    found = []
    for split in SPLITS if is_timed(data.timestamps) else SPLITS[-1:]:
        try:
            run = RankingEvaluation(
                columns_of(data, None),
                mechanism.format(data.scale.levels),
                k=10,
                split=split,
                model=_MODEL,
                seed=0,
                options=RankingOptions(messages=messages),
            )
        except NothingToTest:
            continue
        found.append(run.measure(lambda done, total: None))
    return found


def _of_public(name: str, data: Dataset) -> list[Figure]:
    """Return nDCG by split and form of messages, and what it is of that of EASE."""
    figures = []
    for found in measured(data, _PUBLIC, FORMS):
        ease = found.row(method="EASE").ndcg
        for row in found.rows:
            sent = f", {row.messages}" if row.messages else ""
            title = f"{name}, {found.split}{sent}: {row.method}, {row.where}, {row.history}"
            half = Mean(row.ndcg, row.ndcg_error, found.users).half_width
            full = row.where == "device" and row.history == "clean"
            target = _TARGETS.get((name, found.split, row.method), "") if full else ""
            figures.append(
                Figure(title, row.ndcg, "nDCG", target, row.ndcg - half, row.ndcg + half)
            )
            if row.method == "next":
                figures.append(_above(title, row))
                figures.append(Figure(f"{title}, of EASE", row.ndcg / ease, ""))
    return figures


def _of_others(name: str, data: Dataset) -> list[Figure]:
    """Return nDCG by mechanism and split, and by how much it is above that of popular items."""
    figures = []
    for pattern in _OTHERS:
        for found in measured(data, pattern, ("packed",)):
            for row in found.rows:
                if row.where == "server" or (row.method, row.history) == ("next", "clean"):
                    title = f"{name}, {found.split}, {found.mechanism}: {row.where}"
                    figures += [Figure(title, row.ndcg, "nDCG"), _above(title, row)]
    return figures


def _above(title: str, row: RankingRow) -> Figure:
    target = f">= {-row.above_popular_error:.4f}"
    return Figure(f"{title}, above popular", row.above_popular, "nDCG", target)
