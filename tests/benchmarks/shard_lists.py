"""What dividing the ratings among shards costs in lists: nDCG@10 over that of one worker.

MovieLens-1M on the splits of `ranking.py`, with its up to 2,000 tested users, drawn by a seed. The
learned ratings pass in time order through a state of default sizes, in rounds of 2,000; changes are
merged a round after they were published. The shard of each user makes both of the user's lists:

    server    the reply to the device's query, from its reports
    device    the device's own clean history, ranked by the item side that the shard derives

They are made where the stream stops, so what waits is in none. A side is derived every second of a
running worker, here after each of the last seven rounds, and after all but the last shards exchange
what their devices say of the weights of lists. A difference is on the same users, with a 95 %
interval over them; its target is minus one standard error.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from murmurec.ranking import days_of, least_like, own_histories
from murmurec.ratings import columns_of
from producers.datasets.load import Dataset, load
from producers.ranking.ranker import Ranker, Rated
from stream_app.evaluation.ranking import Mean, RankingTask, difference, ranking_task, user_gains
from stream_app.models.factorization.joining import Meetings
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.ranking.compact_side import decode_side, encode_side
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import Ingredients, ServedSide
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import LIST_LENGTH
from tests.benchmarks.figure import Figure
from tests.benchmarks.ranking import SPLITS
from tests.benchmarks.shards import SHARDS, STEP
from tests.fixtures.movielens import skipped
from tests.fixtures.rating_files import rating_files
from tests.fixtures.shards import Shards, Stream, device_of, home

MECHANISMS, PARTITIONS, K = ("none:5:inf", "rr:5:2", "like:5:2"), 16, 10
_DERIVED = 6  # rounds
Gains = dict[str, np.ndarray]


class Asked(NamedTuple):
    """A task, the reports (m,) that are learned, users by their places in it, and the histories of
    the devices of its tested users."""

    task: RankingTask
    stream: Stream
    own: list[Rated]


class Answered(NamedTuple):
    """nDCG of the tested users (t,) by how their lists are made, and the side of the first
    shard."""

    gains: Gains
    served: ServedSide


def measure() -> list[Figure]:
    """Return nDCG of one worker, and what that of shards is above it."""
    path = rating_files().get("ml-1m")
    if path is None:
        return skipped("lists of shards")
    data = columns_of(load(path), None)
    return [each for name in MECHANISMS for split in SPLITS for each in _figures(data, name, split)]


def _figures(data: Dataset, name: str, split: str) -> Iterator[Figure]:
    asked, title = asked_of(data, name, split), f"{name}, {split}"
    one = answered(asked, name, 1)
    for way, found in one.gains.items():
        yield _figure(f"{title}: {way}, one worker", Mean.over(found))
    for shards in SHARDS:
        for way, found in answered(asked, name, shards).gains.items():
            above = difference(found, one.gains[way])
            label = f"{title}: {way}, {shards} shards above one worker"
            yield _figure(label, above, f">= {-above.error:.4f}")


def _figure(title: str, mean: Mean, target: str = "") -> Figure:
    low, high = mean.value - mean.half_width, mean.value + mean.half_width
    return Figure(title, mean.value, "nDCG", target, low, high)


def asked_of(data: Dataset, name: str, split: str) -> Asked:
    """Return what is learned of a data set in time order, and who is asked about what."""
    liked, days = data.ratings >= least_like(None, data), days_of(data)
    users, items = (column.astype(np.uint64) for column in (data.users, data.items))
    task = ranking_task(users, items, data.ratings, liked, split, 0, days)
    assert task.learned.days is not None
    assert data.timestamps is not None
    reports = registry.parse(name).release(data.levels[task.rows], SeededSource(1))
    people, things = task.learned.users.astype(np.uint64), items[task.rows]
    stream = Stream(people, things, np.asarray(reports, np.uint8), task.learned.days)
    own = own_histories(task, task.learned.ratings, data.timestamps[task.rows])
    return Asked(task, stream, own)


def answered(asked: Asked, name: str, shards: int) -> Answered:
    """Return what shards answer."""
    spec = StateSpec((registry.parse(name),), partitions=PARTITIONS)
    made, ratings = Shards(spec, shards, len(asked.task.users), Meetings()), len(asked.stream)
    times = [0, *range((ratings // STEP - _DERIVED) * STEP, ratings, STEP), ratings]
    for first, stop in pairwise(times):
        if first and shards > 1:
            made.merge()
            made.publish(fits=[served_by(replica).derived.fits for replica in made.replicas])
        for _ in made.learn(asked.stream.part(first, stop), STEP):
            pass
    tested, found = asked.task.tested.astype(np.uint64), []
    homes = home(tested, PARTITIONS) % np.uint64(shards)
    lists: Gains = {}
    for shard, replica in enumerate(made.replicas):
        places = np.flatnonzero(homes == shard)
        found.append(served_by(replica))
        _make(asked, replica, found[-1], places, lists)
    return Answered({way: user_gains(asked.task, each) for way, each in lists.items()}, found[0])


def served_by(replica: Replica) -> ServedSide:
    """Return the item side that a state gives."""
    found = Ingredients.taken_from(replica)
    assert found is not None, "nothing is counted"
    return found.derived()


def _make(
    asked: Asked, replica: Replica, served: ServedSide, places: np.ndarray, lists: Gains
) -> None:
    """Make the lists of the tested users at some places, by the state and the side of a shard."""
    recommender = Recommender(replica, Catalogue(), "exact")
    recommender.adopt(served)
    ranker, (task, _, own) = Ranker(decode_side(encode_side(served.side))), asked
    by_server, by_device = (
        lists.setdefault(where, np.full((len(task.tested), K), -1, np.intp))
        for where in ("server", "device")
    )
    for place in places.tolist():
        reply = recommender.answer(device_of(int(task.tested[place])), LIST_LENGTH)
        listed = np.searchsorted(task.items, reply.items)
        listed = listed[~np.isin(listed, task.history.of_user(place)[0])][:K]
        by_server[place, : len(listed)] = listed
        ranked = ranker.rank(own[place], K, excluded=own[place].items)
        keys = np.array([each.item for each in ranked], np.uint64)
        by_device[place, : len(keys)] = np.searchsorted(task.items, keys)
