"""Private lists: the scores, what one neighbour changes of them, and what a list can hold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.privacy import registry
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.together import private_lists
from stream_app.state.replica import Replica
from stream_app.wire import CatalogueEntry, encode_message
from tests.fixtures.replicas import SMALL, applied
from tests.naive import private_lists as naive
from tests.stream_app.state.test_co_ratings import event

SPEC = replace(
    SMALL,
    mechanisms=(registry.parse("none:5:inf"),),
    co_ratings=True,
    list_scope=tuple(range(64)),
    head_items=64,
    recent_items=32,
    held_out=0.0,
)
LENGTH = 17  # of 32 entries, 17 are always held


def replica_of(lists: dict[int, list[int]], spec=SPEC) -> Replica:  # type: ignore[no-untyped-def]
    replica = Replica(spec)
    for device, items in lists.items():
        for seq, item in enumerate(items, 1):
            applied(replica, event(device, [item], [item % 5], seq))
    replica.end_round(1, [0] * spec.partitions)
    return replica


def random_lists(rng: np.random.Generator, devices: int, items: int, most: int):  # type: ignore[no-untyped-def]
    return {
        device: rng.permutation(items)[: int(rng.integers(0, most + 1))].tolist()
        for device in range(1, devices + 1)
    }


def scores(replica: Replica, asker: int, among: NDArray[np.uint64], *constants: float):  # type: ignore[no-untyped-def]
    known = private_lists.counts(replica, asker.to_bytes(16, "little"))
    return private_lists.scores(known, among, *constants)


@pytest.mark.parametrize("damping", [0.5, 3.0, 300.0])
def test_the_scores_are_those_of_the_lists(rng: np.random.Generator, damping: float) -> None:
    lists = random_lists(rng, 20, 30, 28)
    replica, among = replica_of(lists), np.arange(35, dtype=np.uint64)
    for asker, cap in ((1, 0.01), (2, 0.2), (3, 1.0), (99, 0.2)):
        found = scores(replica, asker, among, damping, cap)
        wanted = naive.scores(lists, asker, range(35), LENGTH, damping, cap)
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert (found == 0).all()


def test_scores_of_a_full_list_are_of_its_newest_items(rng: np.random.Generator) -> None:
    """After 33 items a list holds 17: 16 leave at once, and none of them counted before."""
    items, among = rng.permutation(60).tolist(), np.arange(60, dtype=np.uint64)
    others = {d: rng.permutation(60)[:10].tolist() for d in range(2, 12)}
    for count in (31, 32, 33, 34):
        replica = replica_of({1: items[:count]} | others)
        held = items[:count] if count <= 32 else items[16:count]
        assert len(replica.rated_values((1).to_bytes(16, "little")).slots) == len(held)
        found = scores(replica, 1, among, 2.0, 0.3)
        wanted = naive.scores({1: held} | others, 1, range(60), LENGTH, 2.0, 0.3)
        np.testing.assert_allclose(found, wanted, atol=1e-12)


CONSTANTS = pytest.mark.parametrize(("damping", "cap"), [(1.0, 1.0), (4.0, 0.3), (16.0, 0.1)])


@CONSTANTS
def test_no_other_device_moves_a_score_by_more_than_the_bound(damping: float, cap: float) -> None:
    """Lists of one device replaced by any other lists, searched at random and where it is worst:
    an asker whose items few others have rated."""
    rng, change, worst = np.random.default_rng(1), 1 / ((damping + 1) * cap), 0.0
    for step in range(600):
        items, length = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        lists = random_lists(rng, int(rng.integers(1, 6)), items, items)
        if step % 4 == 0:
            lists = {1: list(range(items - 1))}
        before = naive.scores(lists, 1, range(items), length, damping, cap)
        other = int(rng.integers(2, 8))
        changed = lists | {
            other: rng.permutation(items)[: int(rng.integers(0, items + 1))].tolist()
        }
        after = naive.scores(changed, 1, range(items), length, damping, cap)
        moved = max(abs(a - b) for a, b in zip(after, before, strict=True))
        worst = max(worst, moved / (length * min(1.0, change)))
        assert moved <= private_lists.sensitivity(length + 15, damping, cap) + 1e-12
    assert worst <= 1 + 1e-12
    assert worst > 0.7


@CONSTANTS
def test_no_own_report_moves_a_score_by_more_than_the_bound(damping: float, cap: float) -> None:
    """One item more somewhere in the asker's list, or one in place of another; old ones may leave
    that are in no score. Where it is worst, a crowd has rated what enters with what is scored, and
    what stays is known of the asker alone."""
    rng, worst = np.random.default_rng(2), [0.0, 0.0]
    for step in range(600):
        items, length = int(rng.integers(3, 7)), int(rng.integers(1, 4))
        lists = random_lists(rng, int(rng.integers(1, 6)), items, items)
        if step % 3 == 0:
            own = list(range(2, 2 + int(rng.integers(0, items - 1))))
            lists = {1: own} | {100 + n: [0, 1] for n in range(int(rng.integers(0, 60)))}
        own = lists[1]
        missing = sorted(set(range(items)) - set(own))
        if not missing:
            continue
        place = int(rng.integers(0, len(own) + 1))
        longer = [*own[:place], int(rng.choice(missing)), *own[place + step % 2 :]]
        longer = longer[int(rng.integers(0, max(len(longer) - length, 0) + 1)) :]
        before = naive.scores(lists, 1, range(items), length, damping, cap)
        after = naive.scores(lists | {1: longer}, 1, range(items), length, damping, cap)
        bound = private_lists.sensitivity(length + 15, damping, cap)
        moved = max(abs(a - b) for a, b in zip(after, before, strict=True)) / bound
        worst[length > 1] = max(worst[length > 1], moved)
    assert max(worst) <= 1 + 1e-12
    assert min(worst) > 0.6, worst


def test_no_list_tells_neighbours_apart_by_more_than_epsilon() -> None:
    """The whole way, from lists of devices to the chance of every set of 2 of 6 items."""
    rng, spec, epsilon = np.random.default_rng(3), replace(SPEC, recent_items=16), Fraction(60)
    among, sets = np.arange(6, dtype=np.uint64), list(combinations(range(6), 2))
    subset = private_lists.mechanism(spec.recent_items, 2, epsilon)
    worst = 0.0
    for _ in range(12):
        lists = random_lists(rng, 6, 6, 6)
        neighbours = (
            lists | {2: rng.permutation(6)[:3].tolist()},
            lists | {1: [*lists[1], *sorted(set(range(6)) - set(lists[1]))[:1]]},
        )
        before = subset.log_likelihood(sets, scores(replica_of(lists, spec), 1, among))
        for neighbour in neighbours:
            after = subset.log_likelihood(sets, scores(replica_of(neighbour, spec), 1, among))
            worst = max(worst, float(np.abs(after - before).max()))
    assert 0 < worst <= epsilon


def test_candidates_are_the_scope_without_what_is_withdrawn() -> None:
    catalogue = Catalogue()
    for entry in (
        CatalogueEntry(9),
        CatalogueEntry(70),
        CatalogueEntry(5, withdrawn=True),
    ):
        catalogue.learn(str(entry.item).encode(), encode_message(entry))
    among = private_lists.candidates((3, 5, 9), catalogue)
    assert among.tolist() == [3, 9]
    # A rated item of the scope stays a candidate, one outside is none.
    replica = replica_of({1: [3, 7], 2: [3, 7, 9]})
    assert scores(replica, 1, among).shape == (2,)


def test_items_without_co_ratings_all_score_nothing() -> None:
    off = replica_of({1: [1, 2]}, replace(SPEC, co_ratings=False, list_scope=()))
    among = np.arange(4, dtype=np.uint64)
    assert (scores(off, 1, among) == 0).all()
    assert (scores(Replica(SPEC), 0, among) == 0).all()
    assert len(scores(replica_of({1: [1, 2]}), 0, among[:0])) == 0


def test_items_outside_the_scope_change_nothing(rng: np.random.Generator) -> None:
    """Made-up items, more than the head and the rows hold, in the lists of everybody: what is known
    of the scope is what it is without them, the asker's newest items included."""
    spec = replace(SPEC, list_scope=(1, 3, 5, 7, 9, 40), head_items=8, items_most=16)
    lists = {
        device: [*rng.choice(spec.list_scope, 4, replace=False).tolist(), *range(1000, 1050)]
        for device in range(1, 9)
    }
    flooded = {device: rng.permutation(items).tolist() for device, items in lists.items()}
    plain = {d: [item for item in items if item < 1000] for d, items in flooded.items()}
    found, wanted = (
        replica_of(flooded | {99: list(range(2000, 2200))}, spec),
        replica_of(plain, spec),
    )
    assert not private_lists.elected(found)
    assert len(found.items) == spec.items_most
    for device in lists:
        pairs = zip(*(private_lists.counts(each, device.to_bytes(16, "little"))
                      for each in (found, wanted)), strict=True)  # fmt: skip
        for one, other in pairs:
            np.testing.assert_array_equal(one, other)
    assert private_lists.counts(found, (1).to_bytes(16, "little")).slots.shape == (4,)
    assert found.co_rating_snapshot() is not None
    for name in ("co_rated_lists.blocks", "co_rated_sums.cells", "co_rated_sums.moments"):
        np.testing.assert_array_equal(found.model_arrays()[name], wanted.model_arrays()[name])


def test_a_state_without_a_scope_or_with_too_many_devices_is_known() -> None:
    found = private_lists.elected(Replica(replace(SPEC, list_scope=())))
    assert "depends on who rated; set list_scope to a file of the public items" in found
    assert len(found) <= 240 - len("private lists are not served: ")
    full = replica_of({1: [1], 2: [2]})
    full.pairs.co_ratings.most_devices = 1
    assert "2 devices are known and co-ratings hold lists of 1" in private_lists.elected(full)


def test_no_list_is_drawn_while_devices_are_evicted() -> None:
    replica = replica_of({1: [1, 2], 2: [1, 2]})
    replica.marks.accept((5, 9))
    assert "are being evicted" in private_lists.elected(replica)
    replica.end_round(2, [0] * SPEC.partitions)
    assert not private_lists.elected(replica)


def test_the_guarantee_is_what_the_reply_states() -> None:
    found = private_lists.guarantee(Fraction(1, 2))
    assert (found.epsilon, found.method) == ("1/2", "exact-k-subset")
    assert "one report of the asker" in found.adjacency
    assert private_lists.sensitivity(128) == pytest.approx(1 + 112 / (3_001 * 0.08))
