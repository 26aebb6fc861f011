"""Quality of lists: nDCG@10, coverage and overlap of 2,000 users, beside popularity.

Each user's last fifth is held out, and relevant is a rating of 4 or more of 1 .. 5; one split and
one seed of the noise, so that differences below .003 mean nothing. `murmurec/ranking.py` is the
whole of the path: reports, a worker's state, the item side as it is published, lists. The
prequential figures are of one pass in time order over all ratings: before an item is learned that
the reports call a like, the list is made that would have been shown.
"""

from __future__ import annotations

from itertools import pairwise
from math import nan

from murmurec.ranking import RankingEvaluation, RankingOptions
from murmurec.ratings import columns_of
from producers.datasets import synthetic
from producers.datasets.load import Dataset, load
from stream_app.evaluation.ranking import RankingResult, RankingRow
from stream_app.ranking.online_choice import METHODS, OnlineChoice
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files

_MODEL = "sketch"
_FOREVER = 1e12
_PRIVATE = ("rr:{}:1", "rr:{}:2", "like:{}:1", "like:{}:2", "like:{}:4")
_LIKE = (  # mechanism, scope, where, target
    ("like:5:1", 300, "device", ">= 0.108"),
    ("like:5:2", 300, "device", ">= 0.120"),
    ("like:5:4", 300, "device", ">= 0.125"),
    ("like:5:2", 300, "server", ">= 0.108"),
    ("like:5:4", 1000, "device", ">= 0.128"),
)
_SMALL = (  # file, history, target
    ("movies", "clean", ">= 0.18"),
    ("ml-100k", "clean", ">= 0.175"),
    ("ml-100k", "clean, by recency", ">= 0.20"),
)


def measure() -> list[Figure]:
    """Return the figures of every data set that is found, and of the generated world."""
    files = rating_files()
    figures = []
    if "ml-1m" in files:
        data = load(files["ml-1m"])
        figures += [*_public(data), *_protected(data), *prequential(data)]
    for name, history, target in _SMALL:
        if name in files:
            found = measured(load(files[name]), "rr:5:1")
            row = row_of(found, "device", history)
            figures.append(Figure(f"{name}, rr:5:1, device, {history}", row.ndcg, "nDCG", target))
    sets: dict[str, Dataset] = {name: load(path) for name, path in files.items()}
    sets["generated world"] = synthetic.generate(1).dataset
    for name, data in sets.items():
        figures += above_popularity(name, data)
    if not files:
        title = f"ranking on real ratings: skipped, none in {folder()} (set MURMUREC_DATA)"
        figures.append(Figure(title, nan, ""))
    return figures


def measured(data: Dataset, mechanism: str, scope: int | None = None) -> RankingResult:
    """Return all rows of one mechanism."""
    run = RankingEvaluation(
        columns_of(data, None),
        mechanism,
        k=10,
        split="user-time",
        model=_MODEL,
        seed=0,
        options=RankingOptions(scope=scope),
    )
    return run.measure(lambda done, total: None)


def row_of(result: RankingResult, where: str, history: str, method: str = "") -> RankingRow:
    """Return a row of a device, or of a server: the best of its methods or the named one."""
    rows = [row for row in result.rows if (row.where, row.history) == (where, history)]
    return max((row for row in rows if method in ("", row.method)), key=lambda row: row.ndcg)


def _public(data: Dataset) -> list[Figure]:
    found = measured(data, "rr:5:2")
    rows = (
        ("server", "reports", ">= 0.118"),
        ("device", "clean", ">= 0.133"),
        ("device", "clean, by recency", ">= 0.160"),
        ("server", "reports, by arrival", ""),
    )
    figures = [
        Figure(
            f"ml-1m, rr:5:2, {where}, {history}", row_of(found, where, history).ndcg, "nDCG", target
        )
        for where, history, target in rows
    ]
    baselines = {row.method: row.ndcg for row in found.rows if row.where == "baseline"}
    figures += [Figure(f"ml-1m, {name}, clean", ndcg, "nDCG") for name, ndcg in baselines.items()]
    return [*figures, *_variety("rr:5:2", found, "<= 0.10", ">= 0.18")]


def _protected(data: Dataset) -> list[Figure]:
    figures, results = [], {}
    for mechanism, scope, where, target in _LIKE:
        if (mechanism, scope) not in results:
            results[mechanism, scope] = measured(data, mechanism, scope)
        history = "reports" if where == "server" else "clean"
        row = row_of(results[mechanism, scope], where, history)
        figures.append(
            Figure(f"ml-1m, {mechanism}, scope {scope}, {where}", row.ndcg, "nDCG", target)
        )
    return [*figures, *_variety("like:5:2", results["like:5:2", 300], "<= 0.20", ">= 0.07")]


def _variety(name: str, found: RankingResult, overlap: str, coverage: str) -> list[Figure]:
    return [
        Figure(f"ml-1m, {name}, device: overlap", found.overlap, "", overlap),
        Figure(f"ml-1m, {name}, device: coverage", found.coverage, "", coverage),
    ]


def above_popularity(name: str, data: Dataset) -> list[Figure]:
    """Return nDCG of the device's list minus that of the clean popular one, by mechanism."""
    figures = []
    for pattern in _PRIVATE:
        mechanism = pattern.format(data.scale.levels)
        found = measured(data, mechanism)
        row = row_of(found, "device", found.history)
        title = f"{name}, {mechanism}, device, above popular ({found.ndcg_popular:.3f})"
        figures.append(Figure(title, row.ndcg - found.ndcg_popular, "nDCG", ">= -0.005"))
    return figures


def prequential(data: Dataset, parts: int = 5) -> list[Figure]:
    """Return prequential nDCG@10 of the method that serves and of popularity, over each fifth."""
    run = RankingEvaluation(
        columns_of(data, None), "rr:5:2", k=10, split="last", model=_MODEL, seed=0,
        options=RankingOptions(),
    )  # fmt: skip
    server, whole = run.server, OnlineChoice(memory=_FOREVER)
    server.choices.append(whole)
    marks: list[dict[str, float]] = [dict.fromkeys((*METHODS, "events"), 0.0)]
    total = len(run.task.rows)
    for done in run.learning():
        if done * parts // total >= len(marks):
            sums = {name: whole.ndcg(name) * whole.events for name in METHODS}
            marks.append(sums | {"events": whole.events})
    figures = []
    for number, (before, after) in enumerate(pairwise(marks), 1):
        events = max(after["events"] - before["events"], 1.0)
        gains = {name: (after[name] - before[name]) / events for name in METHODS}
        title = f"ml-1m, rr:5:2, prequential, fifth {number}"
        last = number == len(marks) - 1
        figures += [Figure(f"{title}: {name}", gains[name], "nDCG") for name in METHODS]
        target = ">= 0" if last else ""
        figures.append(
            Figure(f"{title}: blend above popular", gains["blend"] - gains["popular"], "", target)
        )
    return figures
