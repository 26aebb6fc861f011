"""Both panels as data, over all splits.

nDCG@10 of the lists that devices make, each user's last fifth held out, no use of order.

    rr            every rating is reported: that it exists is public
    like, cell    every cell of the scope is reported once
    campaign      *together* over the scope

References: popular items, and EASE of everybody's true ratings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial

import numpy as np

from murmurec.campaigns import campaign_lists
from murmurec.ranking import RankingEvaluation, RankingOptions
from producers.datasets.load import Dataset
from research.commands.experiment.rows import Rows
from research.commands.experiment.summary import Interval
from research.commands.experiment.whole_person.errors import Errors
from research.commands.experiment.whole_person.points import (
    DELTA,
    LISTS,
    Row,
    Run,
    WholePersonOptions,
    person_epsilon,
    point,
)
from stream_app.evaluation import ranking
from stream_app.evaluation.campaigns import ListOptions
from stream_app.evaluation.ranking import Way, baselines
from stream_app.privacy import registry


def measure(
    dataset: Dataset,
    options: WholePersonOptions,
    kept: Rows,
    progress: Callable[[int, int], object] = lambda done, total: None,  # noqa: ARG005
) -> Row:
    """Return the data of both panels; points that are kept are not measured again. `progress` is
    called with the points done and their total.

    Raises ValueError for ratings that are too few, or of which none can be ranked.
    """
    found: list[list[Row]] = []
    references: list[dict[str, float]] = []
    for number, seed in enumerate(options.seeds):
        panels = Errors(dataset, options, seed), Lists(dataset, options, seed)
        runs = [run for panel in panels for run in panel.runs()]
        progress(number * len(runs), options.splits * len(runs))
        # A run is told by its place among those of equal parameters.
        alone = replace(options, splits=1, seed=seed)
        key = asdict(alone) | {"grid": repr(options.grid)}
        references.append(kept.once(key, partial(_references, panels)))
        rows: list[Row] = []
        for run in runs:
            rows.append(kept.once(key | {"run": len(rows)}, run))
            progress(number * len(runs) + len(rows), options.splits * len(runs))
        found.append(rows)
    people, items = len(np.unique(dataset.users)), len(np.unique(dataset.items))
    return {
        "data": dataset.name,
        "scale": str(dataset.scale),
        "ratings": len(dataset),
        "people": people,
        "items": items,
        "in_time": dataset.timestamps is not None,
        "delta": float(DELTA),
        "scope": min(options.scope, items),
        "model": options.model,
        "factors": options.factors,
        "seeds": options.seeds,
        "points": list(_means(found)),
        "references": {
            name: float(np.mean([each[name] for each in references])) for name in references[0]
        },
    }


def _references(panels: tuple[Errors, Lists]) -> dict[str, float]:
    return panels[0].references() | panels[1].references()


def _means(found: list[list[Row]]) -> Iterator[Row]:
    """Yield each point with the means over splits, and half the 95 % interval of its value."""
    for rows in zip(*found, strict=True):
        epsilon = float(np.mean([row["person_epsilon"] for row in rows]))
        value, half = Interval.over([row["value"] for row in rows])
        yield rows[0] | {"person_epsilon": epsilon, "value": value, "half": half}


LENGTH = 10
SPLIT = "user-time"
PRESENCE = ("like", "cell")
_MODEL = "sketch"  # of the stars, which make no list


class Lists:
    """The runs of the panel with one draw of the noise."""

    def __init__(self, dataset: Dataset, options: WholePersonOptions, seed: int) -> None:
        self._dataset, self._options, self._seed = dataset.in_time_order(seed), options, seed
        items = len(np.unique(dataset.items))
        self._scope, self._length = min(options.scope, items), min(LENGTH, items)

    def runs(self) -> Iterator[Run]:
        """Yield one run for each point."""
        grid = self._options.grid
        for epsilon in grid.ratings:
            yield partial(self.ratings, epsilon)
        for family in PRESENCE:
            for epsilon in grid.cells:
                yield partial(self.cells, family, epsilon)
        for mode, epsilons in (("central", grid.campaigns), ("split", grid.shared)):
            for epsilon in epsilons:
                yield partial(self.campaign, mode, epsilon)

    def references(self) -> dict[str, float]:
        """Return the figures of popular items, and of EASE without a mechanism."""
        task = self._evaluation(None).task
        found = {}
        for name, scorer in (("popular", baselines.popular), ("EASE", baselines.ease)):
            lists = ranking.lists_of(task, scorer(task), self._length)
            found[name] = ranking.row_of(task, Way(name, "baseline", "none", lists)).ndcg
        return found

    def ratings(self, epsilon: Fraction) -> Row:
        """Return the point of `rr` on every rating, at the cost of a person of mean activity."""
        id = registry.mechanism("rr", self._dataset.scale.levels, epsilon).id
        run = self._evaluation(id)
        mean = max(1, round(len(run.task.rows) / len(run.task.users)))
        return point(LISTS, "rr", person_epsilon(id, mean), self._ndcg(run), spent=f"{id}*{mean}")

    def cells(self, family: str, epsilon: Fraction) -> Row:
        """Return the point of a report on every cell."""
        id = registry.mechanism(family, self._dataset.scale.levels, epsilon).id
        spent = person_epsilon(id, self._scope)
        ndcg = self._ndcg(self._evaluation(id))
        return point(LISTS, family, spent, ndcg, spent=f"{id}*{self._scope}")

    def campaign(self, mode: str, epsilon: Fraction) -> Row:
        """Return the point of *together* alone."""
        options = ListOptions(self._length, scope=self._scope)
        found = campaign_lists(self._dataset, mode, epsilon, options, seed=self._seed)
        ndcg = next(row.ndcg for row in found.rows if row.history == "clean")
        return point(
            LISTS, "campaign", float(epsilon), ndcg, variant=mode, spent="together, 1 stage"
        )

    def _evaluation(self, mechanism: str | None) -> RankingEvaluation:
        options = RankingOptions(self._options.factors, scope=self._scope)
        return RankingEvaluation(
            self._dataset,
            mechanism,
            k=self._length,
            split=SPLIT,
            model=_MODEL,
            seed=self._seed,
            options=options,
        )

    @staticmethod
    def _ndcg(run: RankingEvaluation) -> float:
        for _ in run.learning():
            pass
        return run.device_row().ndcg
