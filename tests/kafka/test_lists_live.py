"""Lists of a deployment after `murmurec replay FILE` are as good as `evaluate --rank` says.

    file      the learned part of a split, replayed by the command: packed messages, rr:5:2
    server    asked over Kafka for 100 items, of which the user leaves out what it rated
    device    ranks its own clean history by the item side that the worker published

Both are compared with `evaluate --rank` and with the most popular items, on the same users. The
reports of the two runs are drawn apart: that moves a mean by .003 to .005 (standard deviation over
seeds), and its standard error over 200 users is .014 to .018, so an interval of two of those holds
five such deviations. Lists of half the quality, as of an order that a message does not have, are
two intervals away or more.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pytest

from consumers.recommendations import Recommendations
from murmurec import LocalRecommender
from murmurec.ranking import (
    RankingEvaluation,
    RankingOptions,
    device_lists,
    own_histories,
    server_lists,
)
from producers.datasets import synthetic
from producers.datasets.load import Dataset, load
from producers.journal import read_key
from producers.pseudonyms import pseudonym
from producers.ranking import RatedItem
from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.errors import UserError
from stream_app.evaluation.ranking import (
    Mean,
    baselines,
    difference,
    gains_by_key,
    lists_of,
    user_gains,
)
from stream_app.evaluation.ranking.ranking_results import Gains
from stream_app.kafka import clients
from stream_app.kafka.broker_answers import ends
from stream_app.wire import EPOCH_SECONDS, LIST_LENGTH, Topics, key_of
from tests.conftest import Kafka
from tests.fixtures import data_sets
from tests.fixtures.small_worker import SMALL
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Start

pytestmark = pytest.mark.kafka

K, TESTED = 10, 200
PROMISE = RankingOptions(messages=("packed",))


class Split(NamedTuple):
    """What `evaluate --rank` measures of one split: the run, and what the devices hold."""

    data: Dataset
    run: RankingEvaluation
    server: Gains
    device: Gains
    popular: Gains

    @classmethod
    def of(cls, data: Dataset, split: str) -> Split:
        run = RankingEvaluation(
            data, "rr:5:2", k=K, split=split, model="hybrid", seed=5, options=PROMISE
        )
        for _ in run.learning("packed"):
            pass
        task = run.task
        stars, times = stars_and_times(data, task.rows)
        made = device_lists(run.server, task, own_histories(task, stars, times), K)
        popular = lists_of(task, baselines.popular(task), K)
        _, served = server_lists(run.server, task, K)
        return cls(data, run, *(user_gains(task, lists) for lists in (served, made, popular)))


def stars_and_times(data: Dataset, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    assert data.timestamps is not None
    return 1 + 4 * data.levels[rows] / (data.scale.levels - 1), data.timestamps[rows]


def histories(split: Split) -> dict[int, list[RatedItem]]:
    """Return what the devices of the tested users hold, by the user's id."""
    data, task = split.data, split.run.task
    some = np.linspace(0, len(task.tested) - 1, min(len(task.tested), TESTED)).astype(int)
    learned, found = task.learned_rows(), {}
    for user in some.tolist():
        rows = task.rows[learned[user]]
        columns = data.items[rows], *stars_and_times(data, rows)
        found[int(data.users[rows[0]])] = [
            RatedItem(item, item, stars, at // EPOCH_SECONDS, at)
            for item, stars, at in zip(*(column.tolist() for column in columns), strict=True)
        ]
    return found


def replayed(split: Split, worker: WorkerProcess, kafka: Kafka, topics: str) -> LocalRecommender:
    """Replay the learned ratings as the README says; return the item side made of all of them."""
    rows, data = split.run.task.rows, split.data
    assert data.timestamps is not None
    columns = data.users, data.items, data.ratings, data.timestamps
    names = "user", "item", "rating", "timestamp"
    np.savez("learned.npz", **{n: column[rows] for n, column in zip(names, columns, strict=True)})
    common = ["--bootstrap", kafka.bootstrap, "--prefix", topics, "--journal", "device.journal"]
    assert run(["replay", "learned.npz", *common]) == 0
    consumer = clients.consumer(kafka.connection)
    places = [place.offset for place in ends(consumer, Topics(topics).ratings)]
    consumer.close()
    cut, deadline = worker.wait_for(places)["cut"], time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(UserError):  # before the first version
            found = LocalRecommender.from_kafka(kafka.connection, topics)
            if found.table.side.version >= cut:
                return found
        time.sleep(0.5)
    raise AssertionError(f"no item side of cut {cut} within {PATIENCE_SECONDS:.0f} s")


def asked(own: dict[int, list[RatedItem]], kafka: Kafka, topics: str) -> dict[int, list[int]]:
    """Return what the server recommends to each user, without what the user has rated."""
    key, lists = read_key("device.journal"), {}
    with Recommendations(kafka.bootstrap, topics) as ask:
        for user, rated in own.items():
            answer = ask.best(pseudonym(key, user).hex(), LIST_LENGTH, PATIENCE_SECONDS)
            known = {row.key for row in rated}
            lists[user] = [item for item in map(key_of, answer.items) if item not in known]
    return lists


def check(split: Split, start: Start, kafka: Kafka, topics: str) -> None:
    own = histories(split)
    side = replayed(split, start(), kafka, topics)
    made = {
        user: [key_of(row.item) for row in side.recommend(rated, K).items]
        for user, rated in own.items()
    }
    compare(split, split.server, asked(own, kafka, topics))
    compare(split, split.device, made)


def compare(split: Split, promised: Gains, lists: dict[int, list[int]]) -> None:
    live = gains_by_key(split.run.task, lists, K)
    there = ~np.isnan(live)
    assert there.sum() == len(lists)
    expected, off = Mean.over(promised[there]), difference(live, promised)
    above = difference(live, split.popular)
    shown = f"{Mean.over(live)}, evaluate {expected}, above it {off}, above popular {above}"
    print(shown)
    assert abs(off.value) <= 2 * expected.error, shown
    assert above.value >= -2 * above.error, shown


@pytest.fixture
def start(start: Start, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start workers of the default size that publish at once."""
    for name in SMALL:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MURMUREC_TUNING_ITEM_LINKS_SECONDS", "0.5")
    return start


def test_lists_of_a_generated_population_are_as_good_as_measured(
    start: Start, kafka: Kafka, topics: str
) -> None:
    world = synthetic.generate(3, users=300, items=320, ratings=24_000, factors=3)
    check(Split.of(world.dataset.in_time_order(), "user-time"), start, kafka, topics)


@pytest.mark.thorough
@pytest.mark.parametrize("split", ["user-time", "visit", "global"])
def test_lists_of_ml_100k_are_as_good_as_measured(
    split: str, start: Start, kafka: Kafka, topics: str
) -> None:
    path = data_sets.path_of("ml-100k")
    if not path.exists():
        pytest.skip(f"{data_sets.FILES['ml-100k']}: not under $MURMUREC_DATA")
    check(Split.of(load(path).in_time_order(), split), start, kafka, topics)
