"""RMSE of predicted ratings: what reports and cells teach, folded in on the device.

One random 80 / 10 / 10 split; everybody has reported of the first part and is tested on the last.
All are folded in with clean ratings of the first part by `research/fold_in.py`, whose ridges are
chosen on the middle part.

References: each item's mean of the true ratings; nothing sent, where a device knows its own mean;
and no privacy, a learner of all true ratings, folded in.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from murmurec.learner_evaluation import sizes_of
from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from producers.person.enrolment import PersonBudget
from producers.person.spending import Expected, best_plan
from research.commands.experiment.whole_person.points import (
    DELTA,
    ERRORS,
    Row,
    Run,
    WholePersonOptions,
    person_epsilon,
    point,
)
from research.fold_in import OwnRatings, folded_in
from stream_app.evaluation import (
    AdaptiveDevices,
    Devices,
    FixedReports,
    TrueRatings,
    item_means,
    most_rated_items,
    split,
)
from stream_app.evaluation.results import rms
from stream_app.evaluation.scope_errors import ScopeCells, learn_cells
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.partition_response import MOST_LEVELS

_DEPTH = 4
_PRESENCE_BYTES = 4 << 20
_FIRST_BATCH, _BATCH = 256, 8192  # devices choose groups by what was learned: small ones at first
_CELLS = "cell"


class Errors:
    """The runs of the panel on one split."""

    def __init__(self, dataset: Dataset, options: WholePersonOptions, seed: int) -> None:
        self._dataset, self._options, self._seed = dataset.in_time_order(seed), options, seed
        data, values = self._dataset, dataset.scale.values
        self._truth = TrueRatings(data.ratings, float(values[0]), float(values[-1]))
        stars = 1 + 4 * (data.ratings - values[0]) / (values[-1] - values[0])
        users, items = user_keys(data.users), item_keys(data.items)
        self._own = OwnRatings(users, items, stars, *split(len(data), seed))
        self._people = np.unique(users)
        self._mean = max(1, round(len(self._own.learned) / len(self._people)))

    def runs(self) -> Iterator[Run]:
        """Yield one run for each point."""
        grid = self._options.grid
        families = ["rr"] if self._dataset.scale.levels > MOST_LEVELS else ["rr", "partition"]
        for family in families:
            for budget in grid.budgets:
                yield partial(self.planned, family, budget)
        for epsilon in grid.cells:
            yield partial(self.cells, epsilon)

    def references(self) -> dict[str, float]:
        """Return the errors without a mechanism."""
        own, ratings = self._own, self._truth.ratings
        means = item_means(own.items[own.learned], ratings[own.learned], own.items[own.tested])
        none = registry.mechanism("none", self._dataset.scale.levels, None)
        nothing = self._learner(Channels.from_mechanisms([none]))
        return {
            "item means": rms(means - ratings[own.tested]),
            "nothing sent": self._folded(nothing),
            "no privacy": self._folded(self._learned(none, own.learned)),
        }

    def planned(self, family: str, budget: Fraction) -> Row:
        """Return the point of a family whose reports are the best plan of a person's budget."""
        person = PersonBudget(budget, DELTA, None)
        levels = self._dataset.scale.levels
        plan = best_plan(person, Expected(self._mean), family=family, levels=levels)
        rows = self._first_of_each(plan.reports)
        error = self._folded(self._learned(registry.parse(plan.mechanism), rows))
        return point(ERRORS, family, float(budget), error, spent=plan.plan)

    def cells(self, epsilon: Fraction) -> Row:
        """Return the point of a report on every cell of the scope."""
        own, options = self._own, self._options
        mechanism = registry.mechanism(_CELLS, self._dataset.scale.levels, epsilon)
        channels = Channels.from_mechanisms([mechanism])
        scope = most_rated_items(own.items, min(options.scope, len(np.unique(own.items))))
        rows = own.learned[np.isin(own.items[own.learned], scope)]
        rated = own.users[rows], own.items[rows], self._dataset.levels[rows]
        cells = ScopeCells.holding(self._people, scope, rated, mechanism.levels)
        learner = self._learner(channels)
        presence = PresenceRates(channels, _PRESENCE_BYTES, self._seed)
        for batch in cells.sent(mechanism, SeededSource(self._seed), self._seed):
            learn_cells(learner, presence, mechanism.alphabet - 1, batch)
        spent = person_epsilon(mechanism.id, len(scope))
        return point(
            ERRORS, _CELLS, spent, self._folded(learner), spent=f"{mechanism.id}*{len(scope)}"
        )

    def _first_of_each(self, count: int) -> NDArray[np.int64]:
        """Return at most `count` learned rows of each user; they are in random order."""
        learned = self._own.learned
        order = np.argsort(self._own.users[learned], kind="stable")
        users = self._own.users[learned][order]
        rank = np.arange(len(users)) - np.searchsorted(users, users)
        return learned[np.sort(order[rank < count])]

    def _learned(self, mechanism: Mechanism, rows: NDArray[np.int64]) -> Learner:
        """Return a learner after one pass over the reports of these rows."""
        own, source = self._own, SeededSource(self._seed)
        channels = Channels.from_mechanisms([mechanism])
        learner, levels = self._learner(channels), self._dataset.levels
        devices: Devices
        if mechanism.masks:
            columns = own.users, own.items, levels
            devices = AdaptiveDevices(mechanism, channels, *columns, source)
        else:
            devices = FixedReports(mechanism.release(levels, source))
        first = 0
        while first < len(rows):
            part = rows[first : first + min(max(first, _FIRST_BATCH), _BATCH)]
            reports = devices.report(part, learner)
            everything = np.ones(len(part), np.bool_)
            learner.learn_many(own.users[part], own.items[part], *reports, everything)
            first += len(part)
        return learner

    def _learner(self, channels: Channels) -> Learner:
        entities = len(self._people) + len(np.unique(self._own.items))
        sizes = sizes_of(entities, self._options.factors, _DEPTH, self._seed)
        return build(self._options.model, channels, sizes)

    def _folded(self, learner: Learner) -> float:
        predicted = folded_in(self._own, learner)
        return rms(self._truth.errors(predicted, self._own.tested))
