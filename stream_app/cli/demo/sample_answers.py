"""Recommendations to three users, beside the ratings that only their devices know."""

from __future__ import annotations

from typing import Any

import numpy as np

from consumers.recommendations import Recommendations
from stream_app.cli.demo.report import SampleAnswer
from stream_app.cli.demo.setup import DemoSetup

_LIKED = 5
_QUARTERS = (1, 2, 3)


def sample_answers(stage: DemoSetup) -> list[SampleAnswer]:
    """Ask for three users: with few, a middling number, and many ratings."""
    dataset, population = stage.dataset, stage.population
    names, counts = np.unique(dataset.users, return_counts=True)
    order = np.argsort(counts, kind="stable")
    chosen = order[[len(order) * quarter // 4 for quarter in _QUARTERS]]
    titles = dataset.titles or {}

    def title(item: Any) -> str:
        item = item.item() if isinstance(item, np.generic) else item
        return str(titles.get(item, item))

    tastes = []
    with Recommendations(stage.connection, stage.topics.prefix) as ask:
        for user in chosen:
            rows = np.flatnonzero(dataset.users == names[user])
            best = rows[np.argsort(-dataset.ratings[rows], kind="stable")[:_LIKED]]
            liked = [f"{title(dataset.items[row])} ({dataset.ratings[row]:g})" for row in best]
            answer = ask.best(population.devices[user].hex(), 10, 5.0)
            unit = (population.scale.values[-1] - population.scale.values[0]) / 4.0
            low = population.scale.values[0]
            recommended = [
                (title(item), low + (score - 1.0) * unit)
                for item, score in zip(answer.items, answer.scores, strict=True)
            ]
            tastes.append(SampleAnswer(str(names[user]), liked, recommended, answer.method))
    return tastes
