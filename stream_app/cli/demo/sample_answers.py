"""Recommendations to three users, beside the ratings that only their devices know."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np

from consumers.recommendations import Recommendations
from stream_app.cli.demo.setup import DemoSetup
from stream_app.cli.output import described, say, table

_LIKED = 5
_QUARTERS = (1, 2, 3)
_RATED = "what the user rated highly (only the device knows)"
_RECOMMENDED = "what the server recommends, and the rating it predicts"


def show_sample_answers(demo: DemoSetup, *, plain: bool) -> None:
    """Query and print the top 10 of users with few, a middling number, and many ratings."""
    dataset, population = demo.dataset, demo.population
    names, counts = np.unique(dataset.users, return_counts=True)
    order = np.argsort(counts, kind="stable")
    low, high = population.scale.values[0], population.scale.values[-1]
    with Recommendations(demo.connection, demo.topics.prefix) as queries:
        for user in order[[len(order) * quarter // 4 for quarter in _QUARTERS]]:
            rows = np.flatnonzero(dataset.users == names[user])
            best = rows[np.argsort(-dataset.ratings[rows], kind="stable")[:_LIKED]]
            liked = [
                f"{_title(demo, dataset.items[row])} ({dataset.ratings[row]:g})" for row in best
            ]
            answer = queries.best(population.devices[user].hex(), 10, 5.0)
            recommended = [
                (_title(demo, item), f"{low + (score - 1.0) * (high - low) / 4.0:.2f}")
                for item, score in zip(answer.items, answer.scores, strict=True)
            ]
            say(f"\nuser {names[user]}, recommended by {answer.method}")
            _show(liked, recommended, plain)


def _title(demo: DemoSetup, item: Any) -> str:
    item = item.item() if isinstance(item, np.generic) else item
    found = (demo.dataset.described or {}).get(item)
    return described(*found) if found else str(item)


def _show(liked: list[str], recommended: list[tuple[str, str]], plain: bool) -> None:
    if not plain:
        pairs = zip_longest(liked, recommended)
        rows = [(rated or "", *(answer or ("", ""))) for rated, answer in pairs]
        table((_RATED, _RECOMMENDED, ""), rows)
        return
    say(f"  {_RATED}: {'; '.join(liked)}")
    say(f"  {_RECOMMENDED}:")
    for title, score in recommended:
        say(f"    {score}  {title}")
