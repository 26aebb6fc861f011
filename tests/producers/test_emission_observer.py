"""What an observer learns from number, size and time of an epoch's messages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from producers.datasets.load import Dataset
from producers.device.requests import ReportSettings
from producers.fleet.epoch_emission import emission_time
from producers.fleet.population import Population, populate
from producers.fleet.replay import ReplayOptions, replay
from tests.producers.conftest import TOPIC, dataset
from tests.producers.emissions import (
    RR,
    SCOPE,
    Observer,
    run,
)
from tests.producers.journals import at


def test_times_sizes_and_order_do_not_depend_on_the_ratings(
    small: Dataset, tmp_path: Path, rng: np.random.Generator
) -> None:
    with at(tmp_path / "0") as journal:
        population = populate(small, journal.key)
    one_user = {
        "users": np.zeros(60, np.int64), "items": SCOPE.copy(), "fresh": np.ones(60, bool),
        "raw_levels": rng.integers(0, 5, 60).astype(np.uint8),
    }  # fmt: skip
    unknown_items = {"items": population.items + np.uint64(10**6)}
    seen = []
    for i, raw in enumerate(
        ({}, one_user, unknown_items, {"raw_levels": 4 - population.raw_levels})
    ):
        with at(tmp_path / f"{i + 1}") as journal:
            observer = Observer()
            run(replace(population, **raw), journal, observer, pace=observer.pace(1000))
        seen.append(observer.seen)
    assert seen[0] == seen[1] == seen[2] == seen[3]
    assert len({size for _, _, size in seen[0]}) == 1
    span = 20 * 60 / 1000
    for when, device, _ in seen[0]:
        assert when == pytest.approx(span * emission_time(device, 20_000))


def test_the_sending_time_is_a_function_of_pseudonym_and_epoch() -> None:
    names = [i.to_bytes(16, "big") for i in range(4000)]
    first, second = (np.array([emission_time(name, epoch) for name in names]) for epoch in (1, 2))
    assert (
        emission_time(bytes(16), 20_000) == emission_time(bytes(16), 20_000) == 0.16867154012912933
    )
    for shares in (first, second):
        assert 0 <= shares.min() < 0.01
        assert 0.99 < shares.max() < 1
        assert abs(shares.mean() - 0.5) < 0.03
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.08


def features(seen: list[tuple[float, bytes, int]], devices: tuple[bytes, ...]) -> NDArray[Any]:
    """What an observer can make of times and sizes: number, bytes, first, last, gaps, premiere."""
    rows = []
    for device in devices:
        own = [(when, size) for when, sender, size in seen if sender == device]
        times = np.array([when for when, _ in own] or [-1.0])
        sizes = np.array([size for _, size in own] or [0])
        premiere = np.count_nonzero((times >= 5.0) & (times < 6.0))
        rows.append(
            [len(own), sizes.sum(), sizes.max(), times.min(), times.max(), np.ptp(times),
             times.mean(), premiere]
        )  # fmt: skip
    return np.array(rows, np.float64)


def accuracy(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Train logistic regression on one half of the rows and return its accuracy on the other."""
    scale = x.std(axis=0)
    x = np.hstack([(x - x.mean(axis=0)) / np.where(scale > 0, scale, 1), np.ones((len(x), 1))])
    half, w = len(x) // 2, np.zeros(x.shape[1])
    for _ in range(500):
        p = 1 / (1 + np.exp(-np.clip(x[:half] @ w, -30, 30)))
        w -= 0.5 * x[:half].T @ (p - y[:half]) / half
    return float(((x[half:] @ w > 0) == y[half:]).mean())


@dataclass
class People:
    """400 people of whom half, at random, have seen the premiere, and half, at random, are busy.

    Who has seen it rates it between 5 and 6 o'clock; everything else is rated before or after.
    """

    data: Dataset
    seen_it: NDArray[np.bool_]
    busy: NDArray[np.bool_]


@pytest.fixture
def people(rng: np.random.Generator) -> People:
    count, rows = 400, []
    seen_it, busy = (rng.permutation(count) < count // 2 for _ in range(2))
    for user in range(count):
        for item in rng.choice(50, 12 if busy[user] else 2, replace=False):
            when = rng.uniform(0, 9)
            rows.append((user, int(item) + 1, when + (when >= 5)))  # not in its hour
        if seen_it[user]:
            rows.append((user, 0, rng.uniform(5, 6)))
    users, items, times = zip(*rows, strict=True)
    stars = rng.integers(1, 6, len(rows)).astype(float).tolist()
    data = dataset(list(users), list(items), stars, [int(1000 * t) for t in times])
    return People(data, seen_it, busy)


def observed(people: People, path: Path, by_epoch: bool) -> tuple[NDArray[Any], Population]:
    observer = Observer()
    with at(path) as journal:
        observer.journal = journal
        population = populate(people.data, journal.key)
        if by_epoch:
            run(population, journal, observer, pace=observer.pace(2000), scope=SCOPE[:51])
        else:
            ordered = people.data.in_time_order()
            assert ordered.timestamps is not None
            line = ReportSettings(TOPIC, RR)
            steps = replay(
                population, line, journal=journal, send=observer.send, epoch=20_000,
                options=ReplayOptions(chunk=10),
            )  # fmt: skip
            times = iter((ordered.timestamps[::10] / 1000).tolist())
            observer.now = next(times)
            for _ in steps:  # ten rows, at the time when they are rated
                observer.now = next(times, 10.0)
    return features(observer.seen, population.devices), population


BOUND = math.sqrt(math.log(2e6) / (2 * 200))  # Hoeffding, of 200 test people, at 1e-6: 0.19


@pytest.mark.statistical
def test_an_observer_learns_nothing_from_whole_epochs(people: People, tmp_path: Path) -> None:
    """Accuracy on 200 people against a coin, by Hoeffding: false alarm 1e-6 for each question.

    Power: an observer whose true accuracy is above 1/2 + 2 * 0.19 is found out with 1 - 1e-6.
    """
    x, _ = observed(people, tmp_path / "j", by_epoch=True)
    for question in (people.seen_it, people.busy):
        assert abs(accuracy(x, question) - 0.5) < BOUND


@pytest.mark.statistical
def test_an_observer_learns_activity_from_messages_at_the_moment_of_rating(
    people: People, tmp_path: Path
) -> None:
    """The same observer, the documented weaker mode: each accuracy is far above what chance gives.

    An accuracy of 1/2 + 0.19 would be reached by chance once in a million; power: the observer is
    right for more than 95 in 100, and for less than 0.69 of 200 less than once in a million runs.
    """
    x, _ = observed(people, tmp_path / "j", by_epoch=False)
    for question in (people.seen_it, people.busy):
        assert accuracy(x, question) > 0.5 + BOUND
