"""Both panels as data, over all splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from producers.datasets.load import Dataset
from research.commands.tradeoff.whole_person.errors import Errors
from research.commands.tradeoff.whole_person.lists import Lists
from research.commands.tradeoff.whole_person.points import DELTA, Row, WholePersonOptions


def measure(
    dataset: Dataset,
    options: WholePersonOptions,
    progress: Callable[[int, int], object] = lambda done, total: None,  # noqa: ARG005
) -> Row:
    """Return the data of both panels; `progress` is called with the points done and their total.

    Raises ValueError for ratings that are too few, or of which none can be ranked.
    """
    found: list[list[Row]] = []
    references: list[dict[str, float]] = []
    for number, seed in enumerate(options.seeds):
        panels = Errors(dataset, options, seed), Lists(dataset, options, seed)
        runs = [run for panel in panels for run in panel.runs()]
        progress(number * len(runs), options.splits * len(runs))
        references.append(panels[0].references() | panels[1].references())
        rows = []
        for run in runs:
            rows.append(run())
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


def _means(found: list[list[Row]]) -> Iterator[Row]:
    """Yield each point with the means over splits."""
    for rows in zip(*found, strict=True):
        means = {
            name: float(np.mean([row[name] for row in rows]))
            for name in ("person_epsilon", "value")
        }
        yield rows[0] | means
