"""Every page that changes is marked, over every learner and every table; and loading is exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_app.kernels.machine.dirty_pages import PAGE_BYTES
from stream_app.models.cooccurrence.item_head import ItemHead
from stream_app.models.cooccurrence.item_pairs import ItemPairs, RecordColumns
from stream_app.models.cooccurrence.like_weights import like_weights
from stream_app.models.cooccurrence.recent_items import RecentItems
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.models.paged_arrays import StatePart, check_arrays, check_rows, mark_dirty
from stream_app.models.sketches import AmsSketch, CountMinSketch, SeenFilter
from stream_app.state.campaigns.part import CampaignPart
from stream_app.state.high_water_marks import HighWaterMarks
from stream_app.state.known_items import Admission, KnownItems
from tests.fixtures.campaigns import plan, planned, released
from tests.stream_app.models.learners import CHANNELS, CLEAN, SERVED, every_served_learner, stream

# A vector of 13 floats lies across the border of two pages, one of 32 does not.
LEARNERS = [(model, 13) for model in SERVED] + [("sketch", 32), ("hybrid", 32)]
BIG = {"depth": 3, "sketch_bytes": 900_000, "scalars_bytes": 400_000}


def learner(model: str, factors: int):
    made = SERVED[model](CHANNELS, LearnerSpec(factors=factors, seed=5, **BIG))

    def feed(seed: int, events: int) -> None:
        made.learn_many(*stream(events, seed, users=4000, items=4000))
        if seed % 3 == 0:
            made.forget(np.uint64(seed % 4000))

    return made, feed


def presence():
    made = PresenceRates(CHANNELS, 600_000)
    hiding = int(np.flatnonzero(CHANNELS.presence)[0])

    def feed(seed: int, events: int) -> None:
        random = np.random.default_rng(seed)
        users = np.repeat(random.integers(0, 5000, events).astype(np.uint64), 2)
        items = random.integers(0, 5000, 2 * events).astype(np.uint64)
        reports = random.integers(0, 2, 2 * events).astype(np.uint8)
        made.priors(
            np.full(events, 2), users, items, reports, np.full(2 * events, hiding, np.uint16)
        )
        if events:
            made.forget(users[0])

    return made, feed


def of_keys(made):
    def feed(seed: int, events: int) -> None:
        made.add_many(np.random.default_rng(seed).integers(0, 2**64, events, dtype=np.uint64))

    return made, feed


def seen():
    made = SeenFilter(600_000)

    def feed(seed: int, events: int) -> None:
        made.add_many(*np.random.default_rng(seed).integers(0, 2**64, (2, events), np.uint64))

    return made, feed


def marks():
    made = HighWaterMarks(steps=5000)

    def feed(seed: int, events: int) -> None:
        random = np.random.default_rng(seed)
        devices = random.integers(0, 150, (events, 2)).astype(np.uint64)
        seqs = random.integers(1, 200, events)
        days = random.integers(seed, seed + 3, events)
        made.accept((seed - 2, seed + 3))
        contents = random.integers(1, 9, events).astype(np.uint32)
        made.advance(devices, seqs, days, random.random(events) < 0.9, contents)
        if events:
            made.forget(devices[0])
        made.evict()

    return made, feed


def known_items():
    """More items than rows from some feeds on, which lie across a border of pages."""
    made = KnownItems(10_000, 1, Admission(threshold=2, width=1 << 15))

    def feed(seed: int, events: int) -> None:
        random = np.random.default_rng(seed)
        rows = made.enter(random.integers(0, 15_000, events).astype(np.uint64))
        distinct, counts = np.unique(rows[rows >= 0], return_counts=True)
        made.count(distinct, counts)
        made.end_round(np.empty(0, np.int16))

    return made, feed


class Together:
    """Several parts as one, as a replica holds them."""

    def __init__(self, parts: dict[str, StatePart]) -> None:
        self._parts = parts

    @property
    def growing(self) -> frozenset[str]:
        return frozenset(f"{p} {name}" for p, part in self._parts.items() for name in part.growing)

    def arrays(self):
        parts = self._parts.items()
        return {f"{p} {name}": a for p, part in parts for name, a in part.arrays().items()}

    def dirty_pages(self):
        parts = self._parts.items()
        return {f"{p} {name}": a for p, part in parts for name, a in part.dirty_pages().items()}

    def load(self, arrays) -> None:
        check_arrays(arrays, self.arrays(), self.growing)
        for p, part in self._parts.items():
            part.load({name: arrays[f"{p} {name}"] for name in part.arrays()})

    def resize(self, rows) -> None:
        check_rows(rows, self.growing)
        for p, part in self._parts.items():
            part.resize({name: rows[f"{p} {name}"] for name in part.growing})

    def index(self) -> None:
        for part in self._parts.values():
            part.index()


def pairs():
    """A head with fewer slots than items, whose rows lie across borders of pages."""
    made = ItemPairs(CHANNELS, like_weights(CHANNELS), 300, 48, one=15, in_order=True)

    def feed(seed: int, events: int) -> None:
        random = np.random.default_rng(seed)
        sizes = random.integers(1, 4, events)
        ratings = int(sizes.sum())
        items, devices = random.integers(0, 20_000, ratings), random.integers(0, 6000, events)
        made.extend(int(items.max(initial=-1)) + 1, int(devices.max(initial=-1)) + 1)
        made.count(
            RecordColumns(
                devices, sizes, random.integers(0, 3, events),
                items % (20_000 if seed % 2 else 310),
                np.full(ratings, CLEAN, np.uint16), random.integers(0, 5, ratings).astype(np.uint8),
                random.uniform(1, 5, ratings), random.random(ratings) < 0.1,
            )
        )  # fmt: skip
        if events > 2:
            made.elect(np.arange(made.head.length("counts"), dtype=np.uint64))
        if events:
            made.clear(int(devices[0]))
            made.release(np.unique(devices[::7]))

    return Together(made.parts()), feed


def campaigns():
    """Plans whose scope lies in one page or in several, and sums of their first stage."""
    made = CampaignPart(parties=1)

    def feed(seed: int, events: int) -> None:
        for _ in range(min(events, 3)):
            last = made.standing.plan
            scope = tuple(f"{i:0100}" for i in range(8 + seed % 5 * 500))
            following = plan(1 + (last.number if last else 0), scope=scope)
            made.apply(planned(following))
            made.apply(released(following, seed=seed))
            made.apply(released(following, seed=seed))

    return made, feed


PARTS = {
    "campaigns": campaigns,
    "pairs": pairs,
    **{f"{m} {f}": lambda m=m, f=f: learner(m, f) for m, f in LEARNERS},
    "presence": presence,
    "seen": seen,
    "frequencies": lambda: of_keys(CountMinSketch()),
    "second moment": lambda: of_keys(AmsSketch(width=5000)),
    "marks": marks,
    "known items": known_items,
}
# A number of factors that no other test has compiled costs seconds a model; two are served.
_SERVED = ("hybrid 13", "sketch 13")


def _marks(name: str) -> list[pytest.MarkDecorator]:
    if not name.endswith(" 13"):
        return []
    return [pytest.mark.thorough if name in _SERVED else pytest.mark.nightly]


every_part = pytest.mark.parametrize(
    "make", [pytest.param(make, id=name, marks=_marks(name)) for name, make in PARTS.items()]
)


def pages(array: np.ndarray) -> list[bytes]:
    data = array.tobytes()
    return [data[at : at + PAGE_BYTES] for at in range(0, len(data), PAGE_BYTES)]


def changed(before: list[bytes], after: list[bytes]) -> set[int]:
    return {n for n, page in enumerate(after) if n >= len(before) or before[n] != page}


def marked(part: StatePart) -> dict[str, set[int]]:
    return {name: set(np.flatnonzero(bits).tolist()) for name, bits in part.dirty_pages().items()}


def clear(part: StatePart) -> None:
    for bits in part.dirty_pages().values():
        bits[:] = 0


STEPS = st.lists(
    st.tuples(st.integers(0, 2**16), st.sampled_from([0, 1, 2, 30, 9000])), min_size=1, max_size=5
)


GROWING = [(1, 9000), (2, 2), (3, 9000)]  # from one page to several within a step


@every_part
@settings(deadline=None, max_examples=10)
@given(steps=STEPS)
@example(steps=GROWING)
def test_every_page_that_changes_is_marked(make, steps) -> None:
    """For any earlier events and any growth of tables; and one event marks few pages."""
    part, feed = make()
    assert not any(bits.any() for bits in part.dirty_pages().values())
    for seed, events in steps:
        before = {name: pages(array) for name, array in part.arrays().items()}
        clear(part)
        feed(seed, events)
        arrays, found = part.arrays(), marked(part)
        assert arrays.keys() == found.keys()
        for name, array in arrays.items():
            after = pages(array)
            assert len(part.dirty_pages()[name]) == len(after)
            assert changed(before[name], after) <= found[name]
            if events <= 2 and name not in ("moments", "cells"):
                assert len(found[name]) <= 12


@every_served_learner
def test_reading_marks_nothing(model: str) -> None:
    made, feed = learner(model, 13)
    feed(1, 3000)
    clear(made)
    u, i, z, c, _, g = stream(500, 2, users=9000, items=9000)
    made.predict_many(u, i)
    made.residuals(u, i, z, c, g)
    made.users(u)
    made.items(i)
    assert not any(marked(made).values())


def loaded(part: StatePart, arrays) -> None:
    part.load({name: array.copy() for name, array in arrays.items()})


def filled_in_place(part: StatePart, arrays) -> None:
    part.resize({name: len(arrays[name]) for name in part.growing})
    for name, own in part.arrays().items():
        own[:] = arrays[name]
    part.index()


@every_part
@pytest.mark.parametrize("take", [loaded, filled_in_place])
@settings(deadline=None, max_examples=5)
@given(before=STEPS, after=STEPS, other=STEPS)
@example(before=[(1, 30)], after=GROWING, other=[(2, 9000)])
@example(before=[(1, 9000)], after=GROWING, other=[(2, 30)])
def test_a_loaded_state_continues_like_the_one_it_was_copied_from(
    make, take, before, after, other
) -> None:
    """The previous state is replaced; later events have the same effect, in every byte."""
    (first, feed_one), (second, feed_two) = make(), make()
    for seed, events in before:
        feed_one(seed, events)
    for seed, events in other:
        feed_two(seed, events)
    take(second, first.arrays())
    for bits in second.dirty_pages().values():
        assert bits.all()
    clear(second)
    held = {name: pages(array) for name, array in second.arrays().items()}
    for seed, events in after:
        feed_one(seed, events)
        feed_two(seed, events)
    found, arrays = marked(second), second.arrays()
    assert arrays.keys() == first.arrays().keys()
    for name, array in first.arrays().items():
        assert array.tobytes() == arrays[name].tobytes()
        assert array.shape == arrays[name].shape
        assert changed(held[name], pages(array)) <= found[name]


@every_part
def test_rows_beyond_a_shorter_array_are_zero_again(make) -> None:
    part, feed = make()
    feed(1, 9000)
    lengths = {name: len(part.arrays()[name]) for name in part.growing}
    none = dict.fromkeys(part.growing, 0)
    part.resize(none)
    part.resize(lengths)
    assert all(not part.arrays()[name].any() for name in part.growing)
    with pytest.raises(ValueError, match="grow"):
        part.resize(none | {"more": 1})


@every_part
def test_arrays_that_do_not_fit_are_refused_and_the_state_is_unchanged(make) -> None:
    part, feed = make()
    feed(1, 300)
    held = {name: array.copy() for name, array in part.arrays().items()}
    name = sorted(held)[0]
    other = np.float64 if held[name].dtype == np.uint64 else np.uint64
    wrong = [
        {k: v for k, v in held.items() if k != name},
        held | {"more": np.zeros(1)},
        held | {name: held[name].astype(other)},
        held | {name: held[name][..., None]},
    ]
    if name not in part.growing:
        wrong.append(held | {name: held[name].reshape(-1)[:-1]})
    for arrays in wrong:
        with pytest.raises(ValueError, match=f"array.*{name}|more"):
            part.load(arrays)
    assert {k: v.tobytes() for k, v in part.arrays().items()} == {
        k: v.tobytes() for k, v in held.items()
    }


TORN = {
    "marks of other lengths": (marks, {"marks": np.zeros((1, 4), np.int64)}),
}


@pytest.mark.parametrize(("make", "torn"), TORN.values(), ids=TORN)
def test_rows_that_do_not_go_together_are_refused(make, torn) -> None:
    part, feed = make()
    feed(1, 300)
    held = {name: array.copy() for name, array in part.arrays().items()}
    if "user_keys" in torn:
        torn = torn | {"user_vectors": held["user_vectors"][:26]}
        torn |= {"user_scalars": held["user_scalars"][:2]}
    with pytest.raises(ValueError, match=r"twice|use one"):
        part.load(held | torn)
    assert {k: v.tobytes() for k, v in part.arrays().items()} == {
        k: v.tobytes() for k, v in held.items()
    }
    with pytest.raises(ValueError, match=r"twice|use one"):
        filled_in_place(part, held | torn)


@pytest.mark.parametrize(
    "rows", [[5, -1, 6], [0, 0, -1], [4, -1, -1]], ids=["a hole", "an item twice", "unknown item"]
)
def test_a_head_whose_slots_do_not_fit_its_items_is_refused(rows: list[int]) -> None:
    head = ItemHead(3)
    arrays = {"rows": np.array(rows), "totals": np.zeros(7, np.int64), "counts": np.ones(4, int)}
    arrays["recent"] = arrays["counts"]
    with pytest.raises(ValueError, match="each slot holds another one of 4 items"):
        head.load(arrays)
    assert (head.arrays()["rows"] == -1).all()
    with pytest.raises(ValueError, match="each slot holds another one of 4 items"):
        filled_in_place(head, arrays)


@pytest.mark.parametrize(
    ("end", "link", "blocks"), [((2, 1, 1), 0, 2), ((0, 1, 1), 2, 2), ((0, 1, 1), 0, 3)]
)
def test_lists_that_lead_outside_their_blocks_are_refused(end, link: int, blocks: int) -> None:
    lists = RecentItems(2)
    arrays = {
        "ends": np.array([end], np.int32),
        "links": np.array([link, 0], np.int32),
        "blocks": np.zeros((blocks, 16), np.uint16),
        "free": np.zeros(2, np.int32),
    }
    with pytest.raises(ValueError, match="2 blocks: a link leads nowhere"):
        lists.load(arrays)
    assert len(lists.arrays()["ends"]) == 0
    with pytest.raises(ValueError, match="a link leads nowhere"):
        filled_in_place(lists, arrays)


def test_another_order_of_bytes_is_taken_for_the_same_numbers() -> None:
    check_arrays({"a": np.zeros(3, ">u4")}, {"a": np.zeros(3, "<u4")})


@pytest.mark.parametrize(
    ("first", "stop", "wanted"),
    [
        (0, 0, []),
        (PAGE_BYTES, PAGE_BYTES, []),
        (0, 1, [0]),
        (PAGE_BYTES - 1, PAGE_BYTES, [0]),
        (PAGE_BYTES - 1, PAGE_BYTES + 1, [0, 1]),
        (PAGE_BYTES, 3 * PAGE_BYTES, [1, 2]),
    ],
)
def test_a_range_of_bytes_touches_its_pages(first: int, stop: int, wanted: list[int]) -> None:
    bits = np.zeros(4, np.uint8)
    mark_dirty(bits, first, stop)
    assert np.flatnonzero(bits).tolist() == wanted
