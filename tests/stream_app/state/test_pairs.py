"""What a replica knows of items that go together: which ratings count, in which feed, for whom."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from stream_app.models.cooccurrence.like_weights import (
    like_bits,
    like_level,
    like_rates,
    like_weights,
)
from stream_app.models.factorization.channels import Channels
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Event, decode_many
from tests.fixtures.replicas import ALL, SAYING, SCOPE, SMALL, applied, played
from tests.fixtures.streams import EVERY_FAMILY, events, publish, run_of

ROOMY = replace(SMALL, head_items=64, recent_items=128, held_out=0.0)


def only(*mechanisms: str, spec: StateSpec = ROOMY) -> StateSpec:
    return replace(spec, mechanisms=tuple(registry.parse(name) for name in mechanisms))


def test_pairs_are_those_of_the_log(rng: np.random.Generator) -> None:
    """Clear likes, few items a device: S is the sum over devices of the products of weights."""
    made = events(rng, 150, mechanism="none:5:inf", items=60, devices=60, most=4)
    replica = played([publish(e) for e in made], rng, only("none:5:inf"))
    ratings: dict[bytes, dict[int, float]] = defaultdict(dict)
    twice = set()
    for event in made:
        for item, report in zip(event.items.tolist(), event.reports.tolist(), strict=True):
            if item in ratings[event.device]:
                twice.add(event.device)
            ratings[event.device][item] = 1.0 if report >= 3 else 3 / 15
    assert len(twice) < 50
    counts = replica.pair_snapshot().counts()
    assert counts is not None
    assert sorted(counts.keys.tolist()) == sorted({i for r in ratings.values() for i in r})
    slots = {key: slot for slot, key in enumerate(counts.keys.tolist())}
    pairs = np.zeros((len(slots), len(slots)))
    for device, own in ratings.items():
        # A rating that is repeated does not change the pairs which its item has.
        if device not in twice:
            for i, x in own.items():
                for j, y in own.items():
                    pairs[slots[i], slots[j]] += x * y
    assert (counts.pairs + 1e-4 >= pairs).all()
    clean = sum(len(own) ** 2 for device, own in ratings.items() if device not in twice)
    assert clean > 100
    assert counts.pairs == pytest.approx(counts.pairs.T)
    assert np.diag(counts.pairs) == pytest.approx(counts.squares)
    wanted = {slots[i]: sum(own.get(i, 0) for own in ratings.values()) for i in slots}
    assert counts.sums == pytest.approx([wanted[s] for s in range(len(slots))], abs=1e-4)
    assert set(counts.exposures.tolist()) == {len(ratings)}
    for device, own in ratings.items():
        keys, weights, *_ = replica.history(device)
        assert dict(zip(keys.tolist(), weights.tolist(), strict=True)) == pytest.approx(own)


def rated(*messages: tuple[int, list[int]]) -> Replica:
    """Return a replica after messages of (day, items) of one device, each with the level 4."""
    replica = Replica(only("none:5:inf"))
    for seq, (day, items) in enumerate(messages, 1):
        reports = np.full(len(items), 4, np.uint8)
        event = Event(bytes(16), seq, "none:5:inf", day, np.array(items, np.uint64), reports)
        applied(replica, event)
    return replica


def test_single_ratings_of_a_day_are_counted_by_distance_and_packed_ones_not() -> None:
    counts = rated((5, [1]), (5, [2]), (5, [3])).pair_snapshot().counts()
    assert counts is not None
    assert counts.within is not None
    assert counts.between is None
    assert counts.keys.tolist() == [1, 2, 3]
    near, far = round(64 * np.exp(-1 / 20)) / 64, round(64 * np.exp(-2 / 20)) / 64
    assert counts.within.tolist() == [[0, 0, 0], [near, 0, 0], [far, near, 0]]
    assert counts.pairs.tolist() == np.ones((3, 3)).tolist()
    packed = rated((5, [1, 2, 3])).pair_snapshot().counts()
    assert packed is not None
    assert packed.within is None
    assert packed.pairs.tolist() == np.ones((3, 3)).tolist()


def test_what_a_later_day_brings_is_paired_with_the_day_before() -> None:
    """A late message, of day 5, belongs to the visit of day 7."""
    replica = rated((5, [1, 2]), (7, [3]), (5, [4]), (9, [5]))
    counts = replica.pair_snapshot().counts()
    assert counts is not None
    assert counts.between is not None
    assert counts.keys.tolist() == [1, 2, 3, 4, 5]
    pairs = {(i + 1, j + 1): float(counts.between[i, j]) for i, j in np.argwhere(counts.between)}
    assert pairs == dict.fromkeys([(3, 1), (3, 2), (4, 1), (4, 2), (5, 3), (5, 4)], 1.0)
    assert counts.within is not None
    assert [(i + 1, j + 1) for i, j in np.argwhere(counts.within)] == [(4, 3)]
    history = replica.history(bytes(16))
    assert history.visits_ago.tolist() == [2, 2, 1, 1, 0]
    assert history.ages.tolist() == [2, 2, 2, 2, 0]
    assert counts.recent.tolist() == [1] * 5
    assert (counts.recent_total, counts.devices) == (5, 1)


def test_held_out_ratings_are_neither_counted_nor_listed() -> None:
    replica = Replica(only("rr:5:2", spec=replace(ROOMY, held_out=0.3, head_items=4096)))
    items = np.arange(2000, dtype=np.uint64)
    outcome = applied(
        replica, Event(bytes(16), 1, "rr:5:2", 0, items, (items % 5).astype(np.uint8))
    )
    assert 500 < outcome.held_out.sum() < 700
    counts = replica.pair_snapshot().counts()
    assert counts is not None
    learned = set(items[~outcome.held_out].tolist())
    assert set(counts.keys.tolist()) == learned
    assert set(replica.history(bytes(16))[0].tolist()) <= learned
    assert int(replica.model_arrays()["rated_head.totals"][0]) == len(learned)


@pytest.mark.parametrize("mechanism", ["like:5:2", "cell:5:3", "ternary:5:2:1/2"])
def test_pairs_of_protected_cells_are_unbiased_after_the_channel(
    mechanism: str, rng: np.random.Generator
) -> None:
    """6,000 devices, 10 items, half of the pairs planted; 5 standard errors of the mean of 45.

    A seventh of the cells is held out, and each device reports in two messages.
    """
    chosen = registry.parse(mechanism)
    spec = only(mechanism, spec=replace(ROOMY, held_out=1 / 7, head_items=16, partitions=1))
    taste = rng.random(6000) < 0.5
    rated = rng.random((6000, 10)) < np.where(taste[:, None], 0.7, 0.1)
    inputs = np.where(rated, chosen.levels - 1, chosen.levels).astype(np.uint8)
    reports = chosen.release(inputs.reshape(-1), SeededSource(int(rng.integers(2**32))))
    reports = reports.reshape(6000, 10)
    replica, records = Replica(spec), []
    for d in range(6000):
        for seq, part in ((1, slice(0, 4)), (2, slice(4, 10))):
            items = np.arange(10, dtype=np.uint64)[part]
            event = Event(d.to_bytes(16, "little"), seq, mechanism, 0, items, reports[d, part])
            records.append(publish(event, partitions=1))
    replica.apply(decode_many(run_of(records, 0, len(records), 0), spec.intake))
    counts = replica.pair_snapshot().counts()
    assert counts is not None
    assert counts.channel is not None
    positive, false = counts.channel
    span = positive - false
    exposures = counts.exposures
    assert 0.8 * 6000 < exposures.mean() < 0.9 * 6000
    rates = (counts.sums / exposures - false) / span
    order = counts.keys.astype(np.int64)
    assert rates == pytest.approx(rated.mean(0)[order], abs=6 / span / np.sqrt(6000))
    raw = counts.pairs / np.minimum(exposures[:, None], exposures)
    seen = counts.sums / exposures
    estimate = (raw - np.outer(seen, seen)) / span**2
    truth = np.cov(rated[:, order].T, bias=True)
    pairs = ~np.eye(10, dtype=bool)
    error = (estimate - truth)[pairs]
    assert abs(error.mean()) < 5 * 0.5 / span**2 / np.sqrt(6000 * 45) + 0.004
    assert truth[pairs].mean() > 0.08


def test_only_the_first_protecting_mechanism_is_counted(rng: np.random.Generator) -> None:
    made = events(rng, 200, families=EVERY_FAMILY, devices=20)
    replica = played([publish(e) for e in made], rng, replace(ALL, held_out=0.0))
    cells = sum(len(e.items) for e in made if e.mechanism == "cell:5:2")
    public = sum(len(e.items) for e in made if e.mechanism in {"rr:5:2", "none:5:inf"})
    public += sum(len(e.items) for e in made if e.mechanism.startswith("partition"))
    arrays = replica.model_arrays()
    assert int(arrays["reported_head.totals"][0]) == cells > 0
    assert int(arrays["rated_head.totals"][0]) == public > 0
    assert set(arrays["reported_items.keys"].tolist()) == {
        int(i) for e in made if e.mechanism == "cell:5:2" for i in e.items
    }


def test_the_feed_with_more_devices_makes_the_lists() -> None:
    """One public rating must not replace what a hundred devices have reported."""
    replica = Replica(only("rr:5:2", "cell:5:2"))
    items = np.arange(6, dtype=np.uint64)

    def from_ratings(device: int, mechanism: str) -> bool:
        event = Event(device.to_bytes(16, "little"), 1, mechanism, 0, items, np.zeros(6, np.uint8))
        applied(replica, event)
        counts = replica.pair_snapshot().counts()
        assert counts is not None
        return counts.channel is None

    assert not any(from_ratings(device, "cell:5:2") for device in range(3))
    assert [from_ratings(device, "rr:5:2") for device in range(3, 7)] == [False, False, True, True]
    assert replica.pairs.reports == 7 * 6


def test_reports_that_protect_presence_are_no_likes() -> None:
    replica = Replica(replace(ALL, held_out=0.0))
    both, hidden = bytes(16), bytes(range(16))
    rated, levels = np.array([3], np.uint64), np.array([4], np.uint8)
    applied(replica, Event(both, 1, "none:5:inf", 0, rated, levels))
    applied(replica, replace(SCOPE, device=both, seq=2))
    applied(replica, replace(SCOPE, device=hidden))
    assert replica.history(both)[0].tolist() == [3]
    assert replica.history(hidden)[0].tolist() == []
    for device in (both, hidden):
        keys, weights, *_ = replica.history(device, reported=True)
        assert len(keys) > 10
        assert set(keys.tolist()) <= set(SAYING.tolist())
        assert set(weights.tolist()) == {1.0}


def test_a_head_of_no_items_keeps_nothing(rng: np.random.Generator) -> None:
    made = events(rng, 50, families=EVERY_FAMILY)
    replica = played([publish(e) for e in made], rng, replace(ALL, head_items=0))
    assert not [n for n in replica.model_arrays() if n.startswith(("rated", "reported"))]
    assert replica.pair_snapshot() is None
    assert len(replica.history(made[0].device)[0]) == 0
    assert len(replica.history(made[0].device, reported=True)[0]) == 0
    assert replica.memory()["pairs"] == 0
    assert Replica(only("rr:5:2")).memory()["pairs"] >= 8 * 64**2


def test_an_untrained_state_and_an_unknown_device_have_nothing() -> None:
    replica = Replica(ALL)
    assert replica.pair_snapshot() is None
    keys, weights, *_ = replica.history(bytes(16))
    assert len(keys) == len(weights) == 0


def test_a_forgotten_device_has_no_list_and_its_pairs_remain(rng: np.random.Generator) -> None:
    made = events(rng, 100, mechanism="rr:5:2", items=20, devices=5)
    replica = played([publish(e) for e in made], rng, ROOMY)
    before = replica.pair_snapshot().counts()
    device = made[0].device
    assert len(replica.history(device)[0])
    assert replica.forget(device)
    assert len(replica.history(device)[0]) == 0
    after = replica.pair_snapshot().counts()
    assert before is not None
    assert after is not None
    assert (after.pairs == before.pairs).all()


def test_a_loaded_replica_continues_with_the_same_pairs(rng: np.random.Generator) -> None:
    """Through elections: 200 items, 24 slots."""
    made = [publish(e) for e in events(rng, 400, families=EVERY_FAMILY, items=200)]
    half = {p: [r for r in made if r.partition == p] for p in range(4)}
    first, second = Replica(ALL), Replica(ALL)
    for number, stop in enumerate((0.2, 0.4, 0.7, 1.0), 1):
        ends = []
        for p, part in half.items():
            at, end = first.end_offsets[p], int(len(part) * stop)
            for replica in (first, second) if number > 2 else (first,):
                replica.apply(decode_many(run_of(part, at, end, p), ALL.intake))
            ends.append(end)
        for replica in (first, second) if number > 2 else (first,):
            replica.end_round(number, ends)
        if number == 2:
            copies = {name: array.copy() for name, array in first.model_arrays().items()}
            ledger = {name: array.copy() for name, array in first.ledger.arrays().items()}
            second.load(copies, ledger, first.cut, first.end_offsets, first.origin)
    assert first.model_digest() == second.model_digest()
    assert first.model_arrays()["rated_head.totals"][1] > 0


def test_weights_are_the_probability_of_a_like() -> None:
    """A clear report decides; a noisy one moves the prediction; the posterior is Bayes' rule."""
    mechanisms = [registry.parse(name) for name in ("none:5:inf", "rr:5:1", "partition:5:1")]
    channels = Channels.from_mechanisms(mechanisms)
    weights = like_weights(channels)
    assert (weights[:5].T == [3, 3, 3, 15, 15]).all()
    noisy = weights[channels.starts[1] : channels.starts[1] + 5].astype(int)
    assert (np.diff(noisy, axis=1) >= 0).all()
    assert (noisy[4] >= noisy[0]).all()
    assert (noisy[3] > noisy[2])[6:16].all()
    assert weights.min() >= 3
    assert weights.max() == 15
    # At the prediction 3 the prior is symmetric and its centre is the prediction.
    prior = np.exp(-((np.arange(5) - 2) ** 2) / 2)
    joint = prior * channels.channel(int(channels.first[1]))[4]
    assert noisy[4][10] == np.floor(3 + 12 * joint[3:].sum() / joint.sum() + 0.5)
    assert [like_level(n) for n in (2, 3, 5, 6, 9, 10)] == [1, 2, 3, 4, 6, 7]


def test_the_bit_of_a_report_says_whether_a_like_is_likelier() -> None:
    """Under rr: 1[z >= 4], and (bit - 2q) / (p - q) is unbiased at every level."""
    names = ("none:5:inf", "rr:5:2", "partition:5:1", "rr:10:1/2", "rr:3:1")
    channels = Channels.from_mechanisms([registry.parse(name) for name in names])
    bits, rates = like_bits(channels), like_rates(channels)
    for name, first in zip(names, channels.first.tolist(), strict=True):
        start, levels = channels.starts[first], int(channels.levels[first])
        if not name.startswith("partition"):
            own = bits[start : start + levels]
            assert own.tolist() == [int(z >= like_level(levels)) for z in range(levels)]
            positive, false = rates[first]
            estimate = (channels.channel(first).T @ own - false) / (positive - false)
            assert estimate == pytest.approx(
                [float(v >= like_level(levels)) for v in range(levels)]
            )
    assert rates[0].tolist() == [1, 0]
    p, q = channels.channel(1)[0, 0], channels.channel(1)[0, 1]
    assert rates[1] == pytest.approx([p + q, 2 * q])
    assert np.isnan(rates[channels.alphabets == 0]).all()
    known = rates[channels.alphabets > 0]
    assert (known[:, 0] >= known[:, 1]).all()


def test_a_report_that_is_as_likely_under_both_says_nothing() -> None:
    """A partition in which each part holds levels of both kinds alike: bits are 0."""
    channels = Channels.from_mechanisms([registry.parse("partition:5:1")])
    bits, rates = like_bits(channels), like_rates(channels)
    for number in np.flatnonzero(channels.alphabets).tolist():
        channel, like = channels.channel(number), like_level(5)
        rows = slice(channels.starts[number], channels.starts[number] + len(channel))
        margin = channel[:, like:].mean(1) - channel[:, :like].mean(1)
        assert bits[rows].tolist() == (margin > 1e-6).tolist()
        assert rates[number, 0] - rates[number, 1] == pytest.approx(margin[margin > 1e-6].sum())


def test_a_new_day_of_the_cut_gives_a_popular_new_item_its_slot() -> None:
    """A head of two items is full; 30 devices rate a third one."""
    replica = Replica(only("none:5:inf", spec=replace(ROOMY, head_items=2)))

    def rate(first: int, devices: int, items: list[int]) -> None:
        for device in range(first, first + devices):
            keys, levels = np.array(items, np.uint64), np.full(len(items), 4, np.uint8)
            applied(replica, Event(device.to_bytes(16, "big"), 1, "none:5:inf", 90, keys, levels))

    def head_after(days: tuple[int, int]) -> list[int]:
        replica.end_round(replica.cut + 1, replica.end_offsets, days)
        head = replica.pairs.rated.head
        return replica.items.keys[head.rows[: head.used]].tolist()

    rate(0, 2, [1, 2])
    rate(5, 1, [3])
    assert head_after((80, 100)) == [1, 2]
    rate(10, 30, [3])
    assert head_after((80, 100)) == [1, 2], "the same day, and fewer than 512 reports"
    assert head_after((81, 101)) == [1, 3]
