"""What a replica knows of ratings of two items by one device: whose, of what, and for how long."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.similarity.rated_table import from_ratings
from stream_app.models.cooccurrence.report_values import ReportValues
from stream_app.models.factorization.channels import Channels
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.ranking.similarity.table import CoRatingTable
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Event, decode_many
from tests.fixtures.replicas import ALL, SCOPE, SMALL, applied, played
from tests.fixtures.streams import EVERY_FAMILY, events, log, publish, run_of

CO = replace(SMALL, co_ratings=True)
ROOMY = replace(CO, head_items=64, recent_items=128, held_out=0.0)


def only(*mechanisms: str, spec: StateSpec = ROOMY) -> StateSpec:
    return replace(spec, mechanisms=tuple(registry.parse(name) for name in mechanisms))


def table_of(replica: Replica) -> CoRatingTable:
    table = replica.co_rating_snapshot().table()
    assert table is not None
    return table


def arrays(replica: Replica) -> dict[str, bytes]:
    return {n: a.tobytes() for n, a in replica.model_arrays().items() if n.startswith("co_rated")}


def event(device: int, items: list[int], levels: list[int], seq: int = 1) -> Event:
    reports = np.array(levels, np.uint8)
    return Event(
        device.to_bytes(16, "little"), seq, "none:5:inf", 0, np.array(items, np.uint64), reports
    )


def test_the_tables_are_those_of_the_newest_ratings(rng: np.random.Generator) -> None:
    made = events(rng, 150, mechanism="none:5:inf", items=60, devices=60, most=4)
    replica = played([publish(e) for e in made], rng, only("none:5:inf"))
    newest = {
        (each.device, item): level + 1
        for each in sorted(made, key=lambda e: e.seq)
        for item, level in zip(each.items.tolist(), each.reports.tolist(), strict=True)
    }
    table = table_of(replica)
    users = [int.from_bytes(device, "little") % 2**63 for device, _ in newest]
    wanted = from_ratings(users, [item for _, item in newest], list(newest.values()), table.keys)
    for name in ("counts", "differences", "products", "sums", "variance"):
        assert (getattr(table, name) == getattr(wanted, name)).all(), name
    assert table.version == replica.cut
    assert (table.counts - np.diag(table.raters)).max() >= 2
    device = made[0].device
    found = replica.rated_values(device)
    assert (table.keys[found.slots] == found.keys).all()
    own = {item: stars for (d, item), stars in newest.items() if d == device}
    assert dict(zip(found.keys.tolist(), found.stars.tolist(), strict=True)) == own


def test_without_the_setting_nothing_is_kept_and_the_digest_is_that_of_before(
    rng: np.random.Generator,
) -> None:
    made = [publish(e) for e in events(rng, 100, families=EVERY_FAMILY)]
    off, on = (played(made, rng, spec) for spec in (ALL, replace(ALL, co_ratings=True)))
    assert off.co_rating_snapshot() is None
    assert not arrays(off)
    assert off.memory()["co_ratings"] == 0
    assert len(off.rated_values(made[0].key[:16]).keys) == 0
    assert "co_ratings" not in ALL.settings
    assert on.spec.settings["co_ratings"] == "True"
    assert on.spec.digest != off.spec.digest
    assert on.memory()["co_ratings"] >= 8 * ALL.head_items * (ALL.head_items - 1)
    both = on.model_arrays()
    for name, array in off.model_arrays().items():
        assert np.array_equal(array, both[name]), name


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32), most=st.sampled_from([1, 2, 7, 30]))
def test_the_state_is_the_same_for_any_batches(seed: int, most: int) -> None:
    """Through elections and full lists: 200 items, 24 slots, lists of 16."""
    rng = np.random.default_rng(seed)
    spec = replace(ALL, co_ratings=True)
    made = [publish(e) for e in events(rng, 250, families=EVERY_FAMILY, items=200, devices=9)]
    whole = played(made, rng, spec, rounds=5)
    assert played(made, rng, spec, most=most, rounds=5).model_digest() == whole.model_digest()
    assert whole.model_arrays()["rated_head.totals"][1] > 0


def test_the_tables_are_those_of_the_lists_after_elections(rng: np.random.Generator) -> None:
    """An item that takes a slot has nothing of the item that lost it."""
    spec = only("none:5:inf", spec=replace(CO, held_out=0.0))
    made = events(rng, 600, mechanism="none:5:inf", items=300, devices=30)
    replica = played([publish(e) for e in made], rng, spec, rounds=8)
    assert replica.model_arrays()["rated_head.totals"][1] > 0
    assert sorted(replica.model_arrays()["rated_head.rows"].tolist()) != list(range(24))
    rated: dict[bytes, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for each in made:
        for item, level in zip(each.items.tolist(), each.reports.tolist(), strict=True):
            rated[each.device][item].add(level + 1)
    lists = [(n, replica.rated_values(device)) for n, device in enumerate(rated)]
    for n, device in enumerate(rated):
        for item, value in zip(lists[n][1].keys.tolist(), lists[n][1].stars.tolist(), strict=True):
            assert value in rated[device][item], "an entry is not of the item that had its slot"
    users = [n for n, found in lists for _ in found.keys]
    items = np.concatenate([found.keys for _, found in lists])
    stars = np.concatenate([found.stars for _, found in lists])
    table = table_of(replica)
    wanted = from_ratings(users, items, stars, table.keys)
    for name in ("counts", "differences", "products", "sums"):
        assert (getattr(table, name) == getattr(wanted, name)).all(), name


def test_held_out_and_clipped_ratings_are_not_counted() -> None:
    spec = only("none:5:inf", spec=replace(ROOMY, held_out=0.3, head_items=4096, clip=2.0))
    replica, items = Replica(spec), np.arange(400, dtype=np.uint64)
    rated = Event(bytes(16), 1, "none:5:inf", 0, items, (items % 5).astype(np.uint8))
    outcome = applied(replica, rated)
    counted = items[~outcome.held_out & ~outcome.update.clipped]
    assert 50 < len(counted) < items[~outcome.held_out].size
    assert outcome.held_out.sum() > 50
    found = replica.rated_values(bytes(16)).keys
    assert found.tolist() == counted[-len(found) :].tolist()
    table = table_of(replica)
    assert set(table.keys[table.raters > 0].tolist()) == set(found.tolist())


def test_a_forgotten_device_leaves_the_tables_of_a_log_without_it(
    rng: np.random.Generator,
) -> None:
    spec = replace(only("rr:5:2", "none:5:inf"), recent_items=16)
    made = list(events(rng, 150, mechanism="rr:5:2", items=50, devices=6))
    gone = made[0].device
    # Every item has its slot and row before, so that both logs give equal ones.
    first = event(10**20, list(range(50)), [0] * 50)
    whole, without = Replica(spec), Replica(spec)
    for replica in (whole, without):
        applied(replica, first)
    for each in made:
        applied(whole, each)
        if each.device != gone:
            applied(without, each)
    assert table_of(whole).counts.sum() > table_of(without).counts.sum()
    assert whole.forget(gone)
    for name in ("co_rated_sums.cells", "co_rated_sums.moments"):
        assert arrays(whole)[name] == arrays(without)[name], name
    assert len(whole.rated_values(gone).keys) == 0


def test_a_loaded_replica_continues_with_the_same_co_ratings(rng: np.random.Generator) -> None:
    spec = replace(ALL, co_ratings=True)
    made = [publish(e) for e in events(rng, 400, families=EVERY_FAMILY, items=200)]
    parts = log(made, spec.partitions)
    first, second = Replica(spec), Replica(spec)
    for number, stop in enumerate((0.3, 0.6, 1.0), 1):
        ends = []
        for p, part in enumerate(parts):
            at, end = first.end_offsets[p], int(len(part) * stop)
            for replica in (first, second) if number > 1 else (first,):
                replica.apply(decode_many(run_of(part, at, end, p), spec.intake))
            ends.append(end)
        for replica in (first, second) if number > 1 else (first,):
            replica.end_round(number, ends)
        if number == 1:
            copies = {name: array.copy() for name, array in first.model_arrays().items()}
            ledger = {name: array.copy() for name, array in first.ledger.arrays().items()}
            second.load(copies, ledger, first.cut, first.end_offsets, first.origin)
    assert first.model_digest() == second.model_digest()
    assert table_of(first).counts.any()
    applied(first, replace(SCOPE, device=b"hides its items "))
    assert len(first.model_arrays()["co_rated_lists.ends"]) == len(first.marks)


def test_co_ratings_of_noisy_reports_are_unbiased(rng: np.random.Generator) -> None:
    """4,000 devices, 6 items, rr:5:1: sums of differences, products and squares against the true
    ratings, each within 5 standard errors; and the variance of the noise within 5%."""
    mechanism, devices = registry.parse("rr:5:1"), 4000
    levels = np.clip(rng.integers(0, 5, (devices, 1)) + rng.integers(-1, 2, (devices, 6)), 0, 4)
    reports = mechanism.release(
        levels.astype(np.uint8).reshape(-1), SeededSource(int(rng.integers(2**32)))
    ).reshape(devices, 6)
    replica = Replica(only("rr:5:1", spec=replace(ROOMY, partitions=1)))
    items = np.arange(6, dtype=np.uint64)
    records = [
        publish(Event(d.to_bytes(16, "little"), 1, "rr:5:1", 0, items, reports[d]), partitions=1)
        for d in range(devices)
    ]
    replica.apply(decode_many(run_of(records, 0, devices, 0), replica.spec.intake))
    table, stars = table_of(replica), levels + 1.0
    assert (table.counts == devices).all()
    noise = mechanism.variance().mean()
    values = 1 + mechanism.value(np.arange(5))
    most = np.abs(values).max() ** 2
    truth = stars.T @ stars
    error = 5 * np.sqrt(devices)
    assert np.abs(table.products - truth)[~np.eye(6, dtype=bool)].max() < error * most
    assert np.abs(np.diag(table.products - truth)).max() < error * 5 * most
    assert np.abs(table.sums - stars.sum(0)).max() < error * np.sqrt(noise)
    wanted = stars.sum(0)[:, None] - stars.sum(0)
    assert np.abs(table.differences - wanted).max() < error * np.sqrt(2 * noise)
    raw = (values[reports] ** 2).sum(0)
    assert (raw - np.diag(truth) > 2 * devices).all(), "without a correction the diagonal is noise"
    assert table.variance == pytest.approx(np.full(6, noise), rel=0.2)


def test_values_of_reports_are_those_of_their_channels() -> None:
    names = ["rr:5:1", "none:5:inf", "partition:5:1", "cell:5:2"]
    channels = Channels.from_mechanisms([registry.parse(name) for name in names])
    values = ReportValues.from_channels(channels)
    for number in (0, 1):
        rows = slice(channels.starts[number], channels.starts[number] + 5)
        of_level = values.fixed[rows].T @ channels.channel(number)
        units = [values.unit, values.unit**2]
        stars = np.arange(1.0, 6)
        assert of_level[0] * units[0] == pytest.approx(stars, abs=values.unit)
        assert of_level[1] * units[1] == pytest.approx(stars**2, abs=values.unit)
        spread = (values.fixed[rows, 0] ** 2) @ channels.channel(number) * units[1] - stars**2
        assert of_level[2] * units[1] == pytest.approx(spread, abs=20 * values.unit)
    # Two groups under mask 1: the level 1 alone, and the levels 2 .. 5.
    number = int(channels.first[2]) + 1
    row, channel = int(channels.starts[number]), channels.channel(number)
    for report in (0, 1):
        weights = channel[report] / channel[report].sum()
        mean, square = weights @ np.arange(1.0, 6), weights @ np.arange(1.0, 6) ** 2
        wanted = [mean, square, square - mean**2]
        units = [values.unit, values.unit**2, values.unit**2]
        assert values.fixed[row + report] * units == pytest.approx(wanted, abs=values.unit)
    assert not values.fixed[channels.starts[int(channels.first[3])] :].any(), "presence is hidden"


@pytest.mark.parametrize("epsilon", ["64", "2", "1/10", "1/100", "1/1000"])
def test_values_stay_within_the_bounds_of_the_sums(epsilon: str) -> None:
    channels = Channels.from_mechanisms([registry.parse(f"rr:5:{epsilon}")])
    values = ReportValues.from_channels(channels)
    value, square, variance = np.abs(values.fixed).max(0).tolist()
    assert value <= 2**15
    assert square <= 2**30
    assert variance <= 2**31
    assert 2 * value > 2**15 or 4 * square > 2**30 or values.shift == 12, "the finest that fits"
    assert values.fixed[:5, 0] * values.unit == pytest.approx(channels.value, abs=values.unit)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (replace(ALL, head_items=0), "co_ratings with head_items 0: .* give it 1 to 4096 items"),
        (
            replace(ALL, mechanisms=(registry.parse("cell:5:2"),)),
            "co_ratings: each mechanism of the allow-list hides which items are rated",
        ),
    ],
    ids=["no head", "no public presence"],
)
def test_co_ratings_that_cannot_be_counted_are_refused(spec: StateSpec, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(spec, co_ratings=True)


def test_reports_of_nearly_no_information_are_refused() -> None:
    with pytest.raises(ValueError, match=r"counts as .* stars .* at most 32,768 can be summed"):
        Replica(only("rr:5:1/1000000"))


def test_items_outside_the_head_and_devices_of_one_rating_are_co_rated_with_nothing() -> None:
    replica = Replica(only("none:5:inf", spec=replace(ROOMY, head_items=2)))
    applied(replica, event(1, [1], [4]))
    applied(replica, event(2, [2, 3, 4], [4, 1, 0]))
    table = table_of(replica)
    assert table.keys.tolist() == [1, 2]
    assert table.counts.tolist() == [[1, 0], [0, 1]]
    assert replica.rated_values((2).to_bytes(16, "little")).keys.tolist() == [2]
    assert len(replica.rated_values(b"unknown device..").keys) == 0
