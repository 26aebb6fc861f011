"""Weights of a list: learned where they are better on devices that were not seen, else not."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.evaluation.ranking import list_quality
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.ranking.derivation import derive
from stream_app.ranking.histories import History
from stream_app.ranking.learned_weights import (
    LEAST_EVENTS,
    RIDGE,
    Fit,
    K,
    Learned,
    Others,
    learn,
)
from stream_app.ranking.scores import COUNT, DEFAULT, Components, at_length, score, top_slots
from stream_app.ranking.visit_events import VisitSample, VisitTables, events_of
from tests.stream_app.ranking.populations import Record, counted, counts_of, tables_of

ITEMS = 60
NEXT = np.random.default_rng(8).permutation(ITEMS)


class World(NamedTuple):
    """First and second visits of devices (d, m), and the levels of the second ones."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    levels: NDArray[np.int64]

    def records(self, mechanism: str = "none:5:inf") -> list[Record]:
        chosen, source = registry.parse(mechanism), SeededSource(5)
        flat = self.levels.astype(np.uint8).reshape(-1)
        reports = chosen.release(flat, source).reshape(self.levels.shape)
        found = []
        for device, own in enumerate(zip(self.first, self.second, reports, strict=True), 1):
            one, two, seen = (column.tolist() for column in own)
            found.append(Record(device, 1, one, [4] * len(one)))
            found.append(Record(device, 2, two, seen))
        return found


def noise(seed: int, devices: int) -> World:
    """Both visits are drawn alike for all items."""
    rng = np.random.default_rng(seed)
    drawn = np.array([rng.permutation(ITEMS)[:7] for _ in range(devices)])
    return World(drawn[:, :3], drawn[:, 3:], rng.integers(0, 5, (devices, 4)))


def followed(seed: int, devices: int) -> World:
    """What follows decides: three items, and later what comes next to each, and one other item
    that is not liked."""
    rng = np.random.default_rng(seed)
    first, second = [], []
    while len(first) < devices:
        one = rng.permutation(ITEMS)[:3]
        two = [*NEXT[one], int(rng.integers(ITEMS))]
        if len({*one, *two}) == 7:
            first.append(one)
            second.append(two)
    return World(np.array(first), np.array(second), np.tile([4, 4, 4, 0], (devices, 1)))


def liked(seed: int, devices: int) -> World:
    """Liking decides: half of the items are liked by all, the others by none."""
    found = noise(seed, devices)
    return found._replace(levels=np.where(found.second % 2, 4, 0))


def tabled(world: World, mechanism: str = "none:5:inf") -> tuple[VisitTables, VisitSample]:
    feed = counted(world.records(mechanism), ITEMS, mechanism)
    return tables_of(counts_of(feed)), feed.visit_samples()[0]


def learned_of(world: World, mechanism: str = "none:5:inf") -> Learned:
    return learn(*tabled(world, mechanism), now=False)


@pytest.mark.parametrize("planted", [followed, liked])
def test_where_the_default_is_wrong_learned_weights_serve_and_beat_it_on_other_devices(planted):
    """Both orders of the halves agree, and 100 devices that were never counted gain."""
    feed = counted(planted(1, 300).records(), ITEMS)
    samples = feed.visit_samples()
    found = derive(counts_of(feed), np.full(ITEMS, 3.0, np.float32), samples)
    learned = found.next
    assert learned.devices == 300
    assert learned.gain > 3 * learned.gain_error > 0
    assert learned.weights.shape == (2 * COUNT,)
    assert found.side.next_weights is learned.weights
    assert (found.now.devices, len(found.now.weights)) == (0, 0)
    assert learned.ndcg > learned.ndcg_popular
    others, lists = planted(2, 100), {}
    sides = {"learned": found.side, "default": replace(found.side, next_weights=DEFAULT)}
    for way, side in sides.items():
        lists[way] = np.array([listed(side, own) for own in others.first])
    relevant = [two[own >= 3] for two, own in zip(others.second, others.levels, strict=True)]
    gains = {way: list_quality.ndcg_of_users(own, relevant) for way, own in lists.items()}
    gained = gains["learned"] - gains["default"]
    assert gained.mean() > 3 * gained.std() / len(gained) ** 0.5
    # Whole and measured in the same way: the figure is that of the new devices.
    error = np.hypot(learned.ndcg_error, gains["learned"].std() / 10)
    counted_alone = gains["learned"][[len(own) > 0 for own in relevant]]
    assert learned.ndcg == pytest.approx(counted_alone.mean(), abs=5 * error)


def listed(side, own: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the list for the next visit of a device with one visit."""
    ones = np.ones(len(own), np.float32)
    history = History(own, ones, np.zeros(len(own), np.int64), np.zeros(len(own), np.float32))
    return top_slots(score(side, history), K, ~np.isin(np.arange(len(side)), own))


@pytest.mark.parametrize("seed", range(4))
def test_without_information_the_default_serves(seed):
    """A gain above three of its standard errors comes by chance in less than 1 of 700 draws, since
    weights that mean nothing lose; the seeds are fixed."""
    found = learned_of(noise(seed, 120))
    assert found.weights.size == 0
    assert found.devices == 120
    assert np.isfinite([found.gain, found.gain_error, found.ndcg, found.ndcg_popular]).all()


def test_too_few_devices_say_nothing():
    found = learned_of(noise(1, LEAST_EVENTS - 1))
    assert found.weights.size == 0
    assert found.devices == LEAST_EVENTS - 1
    assert (found.gain, found.ndcg, found.ndcg_popular, found.ndcg_error) == (None,) * 4
    assert learned_of(noise(1, LEAST_EVENTS)).ndcg is not None


def test_shards_find_the_weights_of_all_their_devices():
    """Three parts of the devices, each too small: with the fits of the others each is as one."""
    feed = counted(followed(1, 240).records(), ITEMS)
    tables, sample = tables_of(counts_of(feed)), feed.visit_samples()[0]
    whole = learn(tables, sample, now=False)
    parts = [devices_of(sample, np.arange(first, 240, 3)) for first in range(3)]
    found = alone = [learn(tables, part, now=False) for part in parts]
    assert Fit.from_sums(alone[0].fit).sums.tobytes() == alone[0].fit.tobytes()
    for times in range(4):
        rest = [others_of(*(each for each in found if each is not own)) for own in found]
        found = [
            learn(tables, part, others, now=False) for part, others in zip(parts, rest, strict=True)
        ]
        for own, before in zip(found, alone, strict=True):
            near, far = (np.abs(each.weights - whole.weights).max() for each in (own, before))
            assert near < far / 3
            assert own.gain > before.gain
        apart = np.ptp([own.weights for own in found], axis=0).max()
        assert apart < 0.05 / 10**times + 1e-5  # as each fits again
    # A shard with too few devices takes the weights of the others.
    few = learn(tables, devices_of(sample, np.arange(3)), others_of(*found), now=False)
    assert np.allclose(few.weights, found[0].weights, atol=1e-3)
    assert (few.devices, few.ndcg, few.fit.any()) == (3, None, False)


def others_of(*found: Learned, shards: int = 3) -> Others:
    """Return shards that found this for the next visit."""
    fits = sum(each.fit for each in found)
    return Others(shards, np.stack([fits, np.zeros_like(fits)]))


def test_shards_serve_what_all_their_devices_like_better():
    tables, sample = tabled(noise(1, 120))
    good, bad = learned_of(followed(1, 300)), learn(tables, sample, now=False)
    assert len(learn(tables, sample, others_of(good), now=False).weights)
    assert not len(learn(tables, sample, others_of(bad), now=False).weights)
    forged = replace(good, fit=-good.fit)
    assert np.isfinite(learn(tables, sample, others_of(forged), now=False).fit).all()
    singular = Fit(-RIDGE * np.stack([np.eye(2 * COUNT)] * 2), *Fit.from_sums(good.fit)[1:]).sums
    few, forged = devices_of(sample, np.arange(3)), replace(good, fit=singular)
    assert np.isfinite(learn(tables, few, others_of(forged), now=False).weights).all()


def test_shards_fit_as_many_devices_as_one_worker():
    """The newest of each; the others measure the lists."""
    tables, sample = tabled(followed(1, 150))
    alone = learn(tables, sample, now=False)
    nothing = others_of(replace(alone, fit=np.zeros_like(alone.fit)), shards=20)
    found = learn(tables, sample, nothing, now=False)
    newest = learn(tables, devices_of(sample, np.arange(50)), now=False)
    assert np.allclose(found.weights, newest.weights, atol=1e-5)
    assert (found.devices, newest.devices) == (150, 50)
    assert found.ndcg_error < newest.ndcg_error


def devices_of(sample: VisitSample, which: NDArray[np.int64]) -> VisitSample:
    """Return some devices of a sample."""
    spans = [np.arange(sample.starts[d], sample.starts[d + 1]) for d in which]
    entries = np.concatenate(spans)
    starts = np.cumsum([0, *map(len, spans)])
    lists, visits = (column[entries] for column in sample[1:4]), (own[which] for own in sample[4:])
    return VisitSample(starts, *lists, *visits)


def test_the_same_sample_gives_the_same_weights():
    one, other = (learned_of(followed(3, 150)) for _ in range(2))
    assert len(one.weights)
    assert one.weights.tobytes() == other.weights.tobytes()
    assert (one.gain, one.ndcg) == (other.gain, other.ndcg)


@pytest.mark.parametrize("mechanism", ["rr:5:1/2", "rr:5:2"])
def test_noised_likes_some_negative_leave_finite_weights(mechanism):
    tables, sample = tabled(followed(4, 200), mechanism)
    assert min(event.likes.min() for event in events_of(sample, now=False)) < 0
    found = learn(tables, sample, now=False)
    assert np.isfinite([found.gain, found.gain_error, found.ndcg, found.ndcg_popular]).all()
    assert np.isfinite(found.weights).all()


def test_where_no_target_is_liked_there_is_no_figure():
    world = noise(2, 60)
    found = learned_of(world._replace(levels=np.zeros_like(world.levels)))
    assert found.weights.size == 0
    assert found.ndcg is None


def test_the_figure_of_exact_likes_is_that_of_an_evaluation():
    tables, sample = tabled(noise(5, 80))
    found = learn(tables, sample, now=False)
    assert found.weights.size == 0
    lists, relevant = [], []
    for event in events_of(sample, now=False)[::2]:
        table = np.stack(Components(*tables.components(event)))
        scores = at_length(DEFAULT, len(event.history.slots)) @ table
        allowed = ~np.isin(np.arange(len(tables)), event.hidden)
        lists.append(top_slots(scores, K, allowed))
        relevant.append(event.targets[event.likes > 0])
    assert any(len(own) == 0 for own in relevant)
    assert found.ndcg == pytest.approx(list_quality.ndcg(np.array(lists), relevant), abs=1e-6)
