"""Shards that exchange changes: as one worker in every integer, near it in what is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.kernels.machine.dirty_pages import CLEAN as CLEAN_PAGE
from stream_app.kernels.machine.dirty_pages import PAGE_BYTES
from stream_app.models.factorization.joining import Meetings
from stream_app.models.paged_arrays import is_dirty
from stream_app.privacy import registry
from stream_app.ranking.learned_weights import Fit
from stream_app.ranking.scores import COUNT
from stream_app.serving.served_side import Ingredients
from stream_app.state.exchange import own_change
from stream_app.state.replica import Replica
from stream_app.wire.exchange import FITS, Change, decode_change, encode_change
from tests.fixtures.replicas import SMALL
from tests.fixtures.shards import Shards, Stream

USERS, ITEMS = 120, 40
CLEAN = replace(
    SMALL,
    mechanisms=(registry.parse("none:5:inf"),),
    head_items=64,
    recent_items=32,
    scalars_bytes=1 << 16,
)
LIKES = replace(CLEAN, mechanisms=(registry.parse("like:5:3"),))
OFTEN, NEVER = Meetings(first=400), Meetings(first=10**9)


def stream(events: int = 6_000, items: int = ITEMS, seed: int = 5, alphabet: int = 5) -> Stream:
    """Return ratings of people with two tastes, of several days."""
    draw = np.random.default_rng(seed)
    users = draw.integers(USERS, size=events).astype(np.uint64)
    chosen = (items * draw.random(events) ** 2).astype(np.uint64)
    alike = (users % 2 == chosen % 2) * 2.0 - 1
    level = np.clip(np.rint(2 + alike + draw.normal(0, 0.5, events)), 0, 4).astype(np.uint8)
    days = 20_000 + np.arange(events) // 900
    return Stream(users, chosen + np.uint64(100), level if alphabet == 5 else level < 3, days)


def played(shards: int, data: Stream, spec=CLEAN, meetings=OFTEN) -> Shards:
    made = Shards(spec, shards, USERS, meetings)
    for _ in made.learn(data, 300):
        pass
    return made


def exact(replica: Replica) -> dict[str, np.ndarray]:
    """Return all exact sums of a state, by key."""
    order = np.argsort(replica.items.keys)
    found = {"keys": replica.items.keys[order], "reports": replica.items.reports[order]}
    for part in (replica.frequencies, replica.second_moment):
        found |= {f"{type(part).__name__}.{k}": a for k, a in part.arrays().items()}
    for name, (feed, items) in replica.pairs.exchanged(replica.items).items():
        by_key = np.argsort(items.keys)
        head, parts = feed.head.arrays(), feed.parts()
        sums = parts["moments"].arrays()
        base = parts["base_sums"].arrays() if "base_sums" in parts else {}
        slots = feed.head.slots[: len(by_key)][by_key].astype(int)
        by_key, slots = by_key[slots >= 0], slots[slots >= 0]  # others are held out alone
        found |= {f"{name}.of": items.keys[by_key], f"{name}.counts": head["counts"][by_key]}
        found |= {f"{name}.total": head["totals"][:1], f"{name}.numbers": sums["numbers"]}
        found[f"{name}.moments"] = sums["moments"][slots]
        for table in ("pairs", "between", "within"):
            if table in sums:
                both = np.zeros(sums[table].shape, np.int64)
                for each in filter(None, (sums, base)):
                    both += each[table] + (each[f"{table}_high"].astype(np.int64) << 16)
                found[f"{name}.{table}"] = both[np.ix_(slots, slots)]
    return found


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert array.shape == found[name].shape, name
        assert (array == found[name]).all(), name


def bases(replica: Replica) -> tuple[np.ndarray, np.ndarray]:
    """Return the merged beliefs, in no order, and those of the mean."""
    assert replica.shared is not None
    arrays = replica.shared.rows.arrays()
    return np.unique(arrays["base"], axis=0), arrays["overall"]


@pytest.mark.parametrize(("shards", "spec"), [(2, CLEAN), (4, CLEAN), (2, LIKES)])
def test_shards_that_exchanged_all_hold_the_sums_of_one_worker(shards: int, spec) -> None:
    data = stream(alphabet=5 if spec is CLEAN else 2)
    one = exact(played(1, data, spec).replicas[0])
    assert one["reports"].sum() > 1_000
    assert any(array.sum() > 1_000 for name, array in one.items() if name.endswith(".pairs"))
    made = played(shards, data, spec)
    made.exchange_all()
    for replica in made.replicas:
        assert_equal(exact(replica), one)
        assert replica.unshared == 0
        assert replica.shared is not None
        assert replica.shared.ratings == len(data)
        for own, other in zip(bases(replica), bases(made.replicas[0]), strict=True):
            assert (own == other).all()
    vectors = [replica.learner.items(one["keys"])[0] for replica in made.replicas]
    assert all(np.allclose(found, vectors[0], atol=2e-3) for found in vectors)


def test_each_shard_holds_what_the_devices_of_the_others_said_last_of_lists() -> None:
    made = Shards(CLEAN, 4, USERS, NEVER)
    said = [np.full(FITS, shard + 1, np.float32) for shard in range(4)]
    for sums, published in ((said, 4), ([None, said[0], None, None], 1)):
        assert made.publish(fits=sums) == published
        made.merge()
    for replica, others in zip(made.replicas, (8, 8, 6, 5), strict=True):
        assert replica.shared is not None
        assert (replica.shared.others_fits() == others).all()
    assert made.publish(fits=[said[0], *said[:1], *said[2:]]) == 0  # merged already
    assert len({replica.shared.arrays()["fits"].tobytes() for replica in made.replicas}) == 1


def test_pages_of_what_a_shard_said_of_lists_are_written_to_the_next_checkpoint() -> None:
    shared = Replica(replace(CLEAN, partitions=64, shards=64)).shared
    assert shared is not None
    bits = shared.dirty_pages()["fits"]
    assert len(bits) > 4
    for shard in range(64):
        bits[:] = CLEAN_PAGE
        before = shared.arrays()["fits"].copy().reshape(-1)
        shared.adopt_fits(shard, np.ones(FITS, np.float32))
        changed = np.flatnonzero(shared.arrays()["fits"].reshape(-1) != before)
        assert is_dirty(bits)[changed * 4 // PAGE_BYTES].all(), shard
        assert is_dirty(bits).sum() <= 2 + FITS[0] * FITS[1] * 4 // PAGE_BYTES


def test_lists_of_a_shard_with_few_devices_take_the_weights_of_the_others() -> None:
    """One shard's devices have a clear taste; those of the others say nothing."""
    made = played(4, stream())
    made.exchange_all()
    pull, judged = np.zeros((2, 2 * COUNT)), np.array([[100.0, 100.0, 101.0]] * 2)
    said = np.stack([Fit(np.zeros((2,) + (2 * COUNT,) * 2), pull, judged).sums] * 2)
    assert made.publish(fits=[None, None, None, said]) == 1
    made.merge()
    sides = [Ingredients.taken_from(replica) for replica in made.replicas]
    lengths = [len(side.derived().side.next_weights) for side in sides if side is not None]
    assert lengths == [2 * COUNT] * 3 + [0]


def test_order_and_delay_of_merges_change_no_sum() -> None:
    data = stream()
    made = Shards(CLEAN, 2, USERS, NEVER)
    first, second = made.replicas
    late: list[Change] = []
    for n, start in enumerate(range(0, len(data), 600)):
        for _ in made.learn(data.part(start, start + 600), 300):
            pass
        made.publish(pairs=n % 3 == 0)
        first.merge(made.waiting)
        late += [change for change in made.waiting if change.shard == 0]
        second.merge([change for change in made.waiting if change.shard == 1])
        made.waiting = []
        if n % 4 == 3:
            second.merge(late)
            late = []
    second.merge(late)
    made.exchange_all()
    assert_equal(exact(first), exact(second))
    assert_equal(exact(first), exact(played(1, data).replicas[0]))
    for own, other in zip(bases(first), bases(second), strict=True):
        assert (own == other).all()


def loaded(replica: Replica) -> Replica:
    """Return a replica that was read from the arrays of another one."""
    other = Replica(replica.spec, replica.origin)
    arrays = {name: array.copy() for name, array in replica.model_arrays().items()}
    ledger = {name: array.copy() for name, array in replica.ledger.arrays().items()}
    other.load(arrays, ledger, replica.cut, replica.end_offsets, replica.origin)
    return other


def test_a_restart_between_merges_changes_nothing() -> None:
    data = stream(3_000)
    made = Shards(CLEAN, 2, USERS, OFTEN)
    beside = None
    for start in range(0, len(data), 300):
        for _ in made.learn(data.part(start, start + 300), 300):
            pass
        if made.waiting:
            beside = loaded(made.replicas[0])
            before = beside.model_digest()
            assert before == made.replicas[0].model_digest()
            beside.merge(made.waiting)
            made.merge()
            assert beside.model_digest() == made.replicas[0].model_digest() != before
    assert beside is not None


def test_a_change_is_read_from_the_state_and_a_lost_one_is_published_later() -> None:
    data = stream(2_000)
    made = played(2, data, meetings=NEVER)
    before = [replica.model_digest() for replica in made.replicas]
    assert made.publish(pairs=True) == 2
    made.waiting = []  # none is in the log
    assert [replica.model_digest() for replica in made.replicas] == before
    made.exchange_all()
    one = exact(played(1, data).replicas[0])
    for replica in made.replicas:
        assert_equal(exact(replica), one)
    assert made.replicas[0].change(99) is None


def test_tables_that_do_not_fit_in_one_change_are_in_the_next_ones() -> None:
    made = played(2, stream(2_000), meetings=NEVER)
    feed = made.replicas[0].pairs.rated
    assert feed is not None
    (everything,) = (feed.cells(1 << 20),)
    assert not feed.waits
    found = [feed.cells(1_000)]
    while feed.waits:
        found.append(feed.cells(1_000))
    assert len(found) > 3
    for table, lists in everything.items():
        parts = [part[table] for part in found if table in part]
        for field in ("rows", "sizes", "gaps", "values", "large"):
            joined = np.concatenate([getattr(part, field) for part in parts])
            assert (joined == getattr(lists, field)).all()


def test_a_change_of_many_items_without_a_row_is_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cells of sketches that do not fit go with the next changes, and no count is lost."""
    monkeypatch.setattr(own_change, "_MOST_CELLS", 100)
    spec, data = replace(CLEAN, items_most=48, head_items=16, held_out=0.0), stream(2_000, 1_500)
    made = Shards(spec, 2, USERS, NEVER)
    for _ in made.learn(data, 500):
        pass
    made.exchange_all()
    first, second = made.replicas
    cells = [len(change.columns["frequency_cells"]) for change in map(decode_change, made.records)]
    assert len(cells) > 10
    assert max(cells) == 100
    for part in ("frequencies", "second_moment"):
        for name, found in getattr(first, part).arrays().items():
            assert np.array_equal(found, getattr(second, part).arrays()[name]), name


def test_shards_learn_as_well_as_one_and_apart_they_do_not() -> None:
    data = stream(12_000)

    def error(shards: int, meetings: Meetings) -> float:
        made, predicted = Shards(CLEAN, shards, USERS, meetings), np.zeros(len(data))
        for places, outcome in made.learn(data, 300):
            predicted[places] = outcome.update.predicted
        return float(np.sqrt(np.mean((predicted - data.reports - 1.0)[6_000:] ** 2)))

    alone = error(1, OFTEN)
    assert error(4, OFTEN) < alone + 0.01
    assert error(4, NEVER) > alone + 0.012


def test_items_without_room_and_heads_that_change_leave_sound_states() -> None:
    spec = replace(CLEAN, items_most=48, head_items=16, held_out=0.0)
    data = stream(12_000, items=400)
    moved = replace_items(data)
    made = played(2, moved, spec)
    made.exchange_all()
    for replica in made.replicas:
        assert len(replica.items) <= 48
        assert loaded(replica).model_digest() == replica.model_digest()
        assert replica.shared is not None
        assert (replica.items.reports >= 0).all()
        assert np.isfinite(replica.learner.items(replica.items.keys)[0]).all()
        assert replica.frequencies.total == len(moved)
    assert made.replicas[0].pairs.changes > 0


def replace_items(data: Stream) -> Stream:
    """Return a stream whose items give way to others, a few at a time."""
    age = np.arange(len(data)) // 1_500
    return replace(data, items=data.items + (100 * age).astype(np.uint64))


def test_changes_that_are_not_the_next_ones_are_refused_and_change_nothing() -> None:
    made = played(2, stream(1_000), meetings=NEVER)
    made.publish()
    first, second = made.waiting
    replica = made.replicas[0]
    before = replica.model_digest()
    for refused, sentence in (
        (replace(first, number=2), "change 2 of shard 0: the next one is 1"),
        (replace(first, shard=2), "change of shard 2: there are 2 shards"),
        (replace(first, factors=9), "change of 9 factors: the learner has 8"),
    ):
        with pytest.raises(ValueError, match=sentence):
            replica.merge([second, refused])
        assert replica.model_digest() == before
    replica.merge([second, first])
    assert replica.shared is not None
    assert replica.shared.numbers == (1, 1)
    with pytest.raises(ValueError, match="next one is 2"):
        replica.merge([first])


def test_a_worker_alone_shares_nothing() -> None:
    alone = Replica(CLEAN)
    assert alone.shared is None
    assert alone.change(1) is None
    assert alone.unshared == 0
    assert not [name for name in alone.parts() if "shared" in name or "base" in name]
    with pytest.raises(ValueError, match="there is one shard"):
        alone.merge([])


def test_a_record_holds_the_change() -> None:
    made = played(2, stream(1_000), meetings=NEVER)
    made.publish(pairs=True)
    for change in made.waiting:
        again = decode_change(encode_change(change))
        assert (again.shard, again.number, again.ratings) == (change.shard, 1, change.ratings)
        for name, column in change.columns.items():
            assert (again.columns[name] == column).all(), name
