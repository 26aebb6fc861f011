"""What dividing the ratings among shards costs in accuracy, and what it does not change.

MovieLens-1M in time order, one pass, `hybrid`, d = 32: RMSE of the predictions before each rating
is learned, of likes the log-loss of the bit. Changes are merged 2,000 ratings after they were
published. Six ways of dividing the users gave RMSE of .8785 to .8798 of one worker, which learns a
partition after the other in a round, .8798 to .8802 of 4 shards, .8801 to .8803 of 16. Then, with
every item in a head of 4,096: whether the counts of all shards that have exchanged everything are
those of one worker, integer by integer.
"""

from __future__ import annotations

import numpy as np

from stream_app.models.factorization.joining import Meetings
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.state.replica import StateSpec
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import Ratings, load, skipped
from tests.fixtures.shards import Shards, Stream
from tests.stream_app.state.test_exchange import exact

USERS, SHARDS, STEP, LIKED = 6_041, (2, 4, 16), 2_000, 3


def measure() -> list[Figure]:
    """Return errors of one worker and of shards, and how many sums differ."""
    ratings = load()
    if ratings is None:
        return skipped("shards")
    figures = []
    for name in ("none:5:inf", "rr:5:2", "like:5:2"):
        what = "log-loss" if name.startswith("like") else "RMSE"
        one = _errors(ratings, name, 1)
        figures += [Figure(f"{name}, one worker, {what}", one[0], "")]
        for shards in SHARDS:
            found = _errors(ratings, name, shards)
            for part, many, alone in zip(("", ", last fifth"), found, one, strict=True):
                label = f"{name}, {shards} shards, {what} over one worker's{part}"
                figures.append(Figure(label, many - alone, "", "<= 0.001"))
    return [*figures, _differing(ratings)]


def _stream(ratings: Ratings, name: str) -> Stream:
    mechanism = registry.parse(name)
    days = 20_000 + np.arange(len(ratings)) * 30 // len(ratings)
    reports = mechanism.release(ratings.levels, SeededSource(1))
    return Stream(ratings.users, ratings.items, np.asarray(reports, np.uint8), days)


def _errors(ratings: Ratings, name: str, shards: int) -> tuple[float, float]:
    """Return the error of a whole stream and of its last fifth."""
    spec = StateSpec((registry.parse(name),), partitions=16, held_out=0.0, head_items=0)
    made, predicted = Shards(spec, shards, USERS, Meetings()), np.zeros(len(ratings))
    for places, outcome in made.learn(_stream(ratings, name), STEP):
        predicted[places] = outcome.update.predicted
    last = slice(-len(ratings) // 5, None)
    if name.startswith("like"):
        liked = np.where(ratings.levels >= LIKED, predicted - 1, 5 - predicted) / 4
        losses = -np.log(np.clip(liked, 1e-3, 1))
        return float(losses.mean()), float(losses[last].mean())
    squares = (predicted - ratings.levels - 1.0) ** 2
    return float(np.sqrt(squares.mean())), float(np.sqrt(squares[last].mean()))


def _differing(ratings: Ratings) -> Figure:
    """Return how many exact sums differ between one worker and four shards."""
    spec = StateSpec((registry.parse("none:5:inf"),), head_items=4_096)
    found = []
    for shards in (1, 4):
        made = Shards(spec, shards, USERS, Meetings())
        for _ in made.learn(_stream(ratings, "none:5:inf"), 50_000):
            pass
        made.exchange_all()
        found += [exact(replica) for replica in made.replicas]
    different = sum(
        int((array != other[name]).sum()) for other in found[1:] for name, array in found[0].items()
    )
    return Figure("exact sums of 4 shards that differ from one worker's", different, "", "<= 0")
