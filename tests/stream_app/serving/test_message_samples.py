"""Messages that hide presence are scored half against half: without bias, and once each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.ranking.online_choice import OnlineChoice, ideal
from stream_app.serving import message_samples
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.message_samples import MessageSample
from stream_app.serving.recommender import Recommender
from stream_app.serving.standing import Standing
from stream_app.state.replica import Replica
from stream_app.wire import Event, decode_many
from tests.fixtures.clusters import DESIGN, device_of
from tests.fixtures.streams import publish, run_of
from tests.stream_app.serving.sides import derived

SCOPE, DEVICES, LIKED = 60, 400, 12
ITEMS = np.arange(SCOPE, dtype=np.uint64)


def truth(number: int) -> np.ndarray:
    """Return which items a device likes: most of them of its own half of the scope."""
    rng = np.random.default_rng(number)
    half = np.arange(SCOPE // 2) + SCOPE // 2 * (number % 2)
    found = np.zeros(SCOPE, bool)
    found[rng.choice(half, LIKED, replace=False)] = True
    return found


def message(name: str, number: int, seq: int = 1) -> Event:
    mechanism = registry.parse(name)
    missing = mechanism.inputs - 1 if mechanism.inputs > mechanism.levels else 0
    cells = np.where(truth(number), mechanism.levels - 1, missing).astype(np.uint8)
    reports = mechanism.release(cells, SeededSource(1000 * number + seq))
    return Event(device_of(number), seq, name, 0, ITEMS, reports)


def trained(name: str) -> Recommender:
    design = replace(DESIGN, mechanisms=(registry.parse(name),), head_items=SCOPE)
    replica = Replica(replace(design, presence_bytes=1 << 14))
    recommender = Recommender(replica, Catalogue(), "exact")
    for number in range(DEVICES):
        applied(recommender, message(name, number), most=0)
    replica.end_round(1, replica.end_offsets)
    derived(recommender)
    return recommender


def applied(recommender: Recommender, event: Event, most: int = 9) -> list[MessageSample]:
    """Return the samples of an event, which is applied."""
    record = publish(event)
    run = run_of([record], 0, 1, record.partition)
    batch = decode_many(run, recommender.replica.spec.intake)
    served = recommender.served
    pending = message_samples.before(recommender, served, batch, most) if served else []
    return message_samples.after(pending, recommender.replica.apply(batch))


@pytest.mark.parametrize("name", ["cell:5:4", "like:5:4"])
def test_tastes_are_measured_as_better_than_popular_items_through_the_noise(name: str) -> None:
    recommender, choice = trained(name), OnlineChoice()
    for number in range(DEVICES, DEVICES + 250):
        (sample,) = applied(recommender, message(name, number))
        sample.score(choice)
    standing = Standing.of_choice(choice)
    assert standing.method in ("ease", "low_rank", "blend")
    assert standing.ndcg[standing.method] > 1.2 * standing.ndcg["popular"]
    assert standing.hit_rate == {}


def test_the_measured_quality_is_that_of_the_true_likes() -> None:
    """False alarm below 1e-6 (5 standard errors of the paired difference)."""
    name = "like:5:2"
    recommender = trained(name)
    differences, measured, true = [], OnlineChoice(), OnlineChoice()
    for number in range(DEVICES, DEVICES + 400):
        (sample,) = applied(recommender, message(name, number))
        slots, values = sample.targets
        assert sample.served is recommender.served
        keys = sample.served.side.keys[slots].astype(int)
        likes = truth(number)[keys].astype(np.float32)
        differences.append(float((values - likes).sum()))
        sample.score(measured)
        sample._replace(targets=(slots, likes)).score(true)
    error = np.std(differences) / np.sqrt(len(differences))
    assert abs(np.mean(differences)) < 5 * error
    # The blends differ: each is fitted to the values that it was given.
    for method in ("popular", "ease", "low_rank"):
        assert measured.ndcg(method) == pytest.approx(true.ndcg(method), abs=0.12), method
    assert true.ndcg("ease") > true.ndcg("popular")


def test_the_halves_share_no_cell_and_a_duplicate_is_not_scored() -> None:
    recommender = trained("like:5:4")
    event = message("like:5:4", DEVICES)
    (sample,) = applied(recommender, event)
    assert not set(sample.history[0].tolist()) & set(sample.targets[0].tolist())
    assert len(sample.history[0]) + len(sample.targets[0]) == SCOPE
    assert applied(recommender, event) == []
    long = message("like:5:4", DEVICES + 1)
    short = replace(long, items=long.items[:10], reports=long.reports[:10])
    assert applied(recommender, short) == []


def test_the_ideal_gain_of_a_fraction_lies_between_those_of_whole_numbers() -> None:
    assert ideal(1, 10) == 1.0
    assert ideal(2, 10) == pytest.approx(1 + 1 / np.log2(3))
    assert ideal(1.5, 10) == pytest.approx(1 + 0.5 / np.log2(3))
    assert ideal(50, 10) == ideal(10, 10)
    assert ideal(-1, 10) == 0.0
