"""What more rounds buy on MovieLens-1M: cells reported again, at one budget of the person.

Time is four quarters. From the first to the last, in even steps, `items`: 30 % of the items lose
1.5 stars; `people`: each person gives one star more, or one less (rounded, within 1 .. 5).
`arrivals`: ratings do not change, and each is given in a random quarter; before it the cell is
empty. All devices report under cell:5:e.

    at once          every item in the first quarter
    1 round          every item once in four quarters, when it has its turn (`device.scope.turn`)
    1 round, staggered   the same, and from which quarter turns are counted differs by person
    2 rounds         every item in two quarters, half a year apart
    4 rounds         every item in every quarter

`picked`: of the 300 most rated items a key of the device picks as many as its budget holds, R times
fewer in R rounds, so that all but the first have as many reports in a quarter, of other cells or of
the same. `list`: a list of the 10 most rated items, each with less epsilon in more rounds.

One pass of the dense learner; tested on those of the last 10 % of the ratings that are of items in
the scope, as they are in the last quarter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from producers.device.scope import turn
from stream_app.evaluation import split
from stream_app.evaluation.results import rms
from stream_app.evaluation.scope_errors import Batch, ScopeCells, learn_cells, most_rated_items
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import largest_count
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import Ratings, load, skipped

DELTA = Fraction(1, 10**6)
SEEDS = (11, 12, 13, 14, 15)
QUARTERS, FACTORS = 4, 1
PICKED, LIST = 300, 10  # items of the scope
PLANS = ((20, "1/2"), (20, "1"), (20, "2"), (80, "2"))  # budget of the person, epsilon of a report
DRIFTS = ("no drift", "items", "people", "arrivals")
_SHARE, _ITEMS, _PEOPLE = 0.3, 1.5, 1.0  # of the items that move; stars
_MISSING = 5
_DEVICES = 128  # in a batch


@dataclass(frozen=True)
class Schedule:
    """In which quarters each item is reported; no round: all in the first."""

    name: str
    rounds: int
    staggered: bool = False

    def turns(self, scope: NDArray[np.uint64], people: int, key: int) -> NDArray[np.bool_]:
        """Return whether each item has its turn, by person and quarter, (p, 4, s)."""
        if not self.rounds:
            first = np.arange(QUARTERS) == 0
            return np.broadcast_to(first[None, :, None], (people, QUARTERS, len(scope)))
        every = QUARTERS // self.rounds
        shared = np.array(
            [np.isin(scope, turn(scope, quarter, every, key)) for quarter in range(QUARTERS)]
        )
        starts = np.arange(people) if self.staggered else np.zeros(people, np.int64)
        return np.asarray(shared[(starts[:, None] + np.arange(QUARTERS)) % QUARTERS])


SCHEDULES = (
    Schedule("at once", 0),
    Schedule("1 round", 1),
    Schedule("1 round, staggered", 1, staggered=True),
    Schedule("2 rounds", 2),
    Schedule("4 rounds", 4),
)


def measure() -> list[Figure]:
    """Return the RMSE on the last quarter's ratings, by drift, budget, epsilon and rounds."""
    ratings = load()
    if ratings is None:
        return skipped("RMSE under drift by rounds on MovieLens-1M")
    figures = []
    for drift in DRIFTS:
        for name, id, size, items, schedule in _rows():
            found = [error(ratings, id, (size, items), schedule, drift, seed) for seed in SEEDS]
            figures.append(Figure(f"RMSE, {drift}, {name}", float(np.mean(found)), "stars"))
    return figures


def _rows() -> Iterator[tuple[str, str, int, int, Schedule]]:
    """Yield name, mechanism, size of the scope, items that a device reports on, and schedule."""
    for budget, epsilon in PLANS:
        id = f"cell:5:{epsilon}"
        reports = min(PICKED, largest_count(id, Fraction(budget), DELTA))
        for schedule in SCHEDULES:
            items = reports // max(schedule.rounds, 1)
            yield (
                f"picked, budget {budget}, {id}, {schedule.name} of {items} items",
                id, PICKED, items, schedule,
            )  # fmt: skip
    for schedule in SCHEDULES:
        id = _id_for(LIST * max(schedule.rounds, 1))
        yield f"list of {LIST}, budget 20, {id}, {schedule.name}", id, LIST, LIST, schedule


def _id_for(reports: int) -> str:
    """Return the mechanism with the largest epsilon, in 16ths, of which a budget of 20 holds so
    many reports."""
    for sixteenths in range(64, 0, -1):
        id = f"cell:5:{Fraction(sixteenths, 16)}"
        if largest_count(id, Fraction(20), DELTA) >= reports:
            return id
    raise ValueError(f"{reports} reports: 20 does not hold so many of 1/16")


def error(
    ratings: Ratings,
    id: str,
    sizes: tuple[int, int],
    schedule: Schedule,
    drift: str,
    seed: int,
) -> float:
    """Return the RMSE on the ratings of the last quarter; `sizes`: items of the scope, and how many
    of them a device picks."""
    (size, picked), mechanism = sizes, registry.parse(id)
    scope = most_rated_items(ratings.items, size)
    rows = np.flatnonzero(np.isin(ratings.items, scope))
    learned, _, tested = (part[np.isin(part, rows)] for part in split(len(ratings), seed))
    people, random = np.unique(ratings.users), np.random.default_rng(seed)
    columns = ratings.users[learned], ratings.items[learned], ratings.levels[learned]
    cells = ScopeCells.holding(people, scope, columns, _MISSING)
    shifts, since = _drifting(drift, len(people), size, seed)
    channels = Channels.from_mechanisms([mechanism])
    learner = build("dense", channels, LearnerSpec(factors=FACTORS, seed=seed))
    presence, missing = PresenceRates(channels, 4 << 20, seed), mechanism.alphabet - 1
    own = random.permuted(np.tile(np.arange(size) < picked, (len(people), 1)), axis=1)
    turns, source = schedule.turns(scope, len(people), seed), SeededSource(seed)
    for quarter in range(QUARTERS):
        now = np.where(since <= quarter, _moved(cells.levels, shifts, quarter), _MISSING)
        for devices in _groups(random.permutation(len(people))):
            due = own[devices] & turns[devices, quarter]
            if due.any():
                counts, *sent, inputs = _sent(cells._replace(levels=now), devices, due)
                reports = mechanism.release(inputs, source)
                learn_cells(learner, presence, missing, (counts, *sent, reports))
    users, items = ratings.users[tested], ratings.items[tested]
    places = np.searchsorted(people, users), np.searchsorted(scope, items)
    truth = _moved(ratings.levels[tested], shifts[places], QUARTERS - 1) + 1.0
    return rms(learner.predict_many(users, items) - truth)


def _drifting(
    drift: str, people: int, size: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return by how many stars each cell moves from the first quarter to the last, and the quarter
    in which it is rated, (p, s) each."""
    random = np.random.default_rng(seed)
    shifts, since = np.zeros((people, size)), np.zeros((people, size), np.int64)
    if drift == "items":
        shifts -= _ITEMS * random.permutation(np.arange(size) < _SHARE * size)
    elif drift == "people":
        shifts += _PEOPLE * random.choice((-1.0, 1.0), (people, 1))
    elif drift == "arrivals":
        since = random.integers(0, QUARTERS, (people, size))
    return shifts, since


def _moved(
    levels: NDArray[np.uint8], shifts: NDArray[np.float64], quarter: int
) -> NDArray[np.uint8]:
    """Return the levels in a quarter; an empty cell stays empty."""
    stars = np.clip(np.rint(levels + shifts * (quarter / (QUARTERS - 1))), 0, _MISSING - 1)
    return np.where(levels == _MISSING, _MISSING, stars).astype(np.uint8)


def _groups(order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    return (order[first : first + _DEVICES] for first in range(0, len(order), _DEVICES))


def _sent(cells: ScopeCells, devices: NDArray[np.int64], due: NDArray[np.bool_]) -> Batch:
    """Return counts, users, items and levels of the cells that are due, (d, s)."""
    rows, columns = np.nonzero(due)
    counts = due.sum(1).astype(np.int64)
    return (
        counts[counts > 0],
        cells.people[devices[rows]],
        cells.scope[columns],
        cells.levels[devices[rows], columns].astype(np.uint8),
    )
