"""What chosen keys do to the hashes that are part of the state, with a seed that is known and with
one that is not: the numbers that the security page states."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.kernels.machine.scalars import GOLDEN, hash64
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.models.seeds import ITEMS, USERS, derive_seed
from stream_app.models.sketches import AmsSketch, SeenFilter
from stream_app.privacy.ratings.identity import Identity
from stream_app.state.known_items import KnownItems

KNOWN, SECRET = 1, 0x1B5C7_0F3A9_2E61
VICTIM, FORGER, ITEM = np.uint64(2**63 + 5), np.uint64(77), np.uint64(12345)


def one(key: np.uint64):
    return np.array([key], np.uint64)


def pair_of_the_same_bits() -> np.uint64:
    """Return the item that, rated by FORGER, sets the bits of ITEM rated by VICTIM under KNOWN."""
    salt = KNOWN * int(GOLDEN)
    ours, theirs = (hash64(np.uint64((int(user) + salt) % 2**64)) for user in (FORGER, VICTIM))
    return np.uint64((int(theirs) + int(ITEM) - int(ours)) % 2**64)


@pytest.mark.parametrize(("seed", "hidden"), [(KNOWN, True), (SECRET, False)])
def test_one_rating_hides_an_item_from_one_user_where_the_seed_is_known(seed, hidden):
    seen = SeenFilter(1 << 20, seed)
    seen.add_many(one(FORGER), one(pair_of_the_same_bits()))
    assert bool(seen.test_many(one(VICTIM), one(ITEM))[0]) == hidden


@pytest.mark.parametrize(("seed", "moved"), [(KNOWN, True), (SECRET, False)])
def test_an_item_moves_the_vector_of_one_user_where_the_seed_is_known(seed, moved):
    spec = LearnerSpec(factors=8, sketch_bytes=1 << 16, scalars_bytes=1 << 14, seed=seed)
    learner = HybridLearner(Channels.from_mechanisms((Identity(5),)), spec)
    learn = np.ones(1, np.bool_)
    clean = np.zeros(1, np.uint8), np.zeros(1, np.uint16), learn
    learner.learn_many(one(VICTIM), one(ITEM), *clean)
    before = learner.users(one(VICTIM))[0].copy()
    forged = int(VICTIM) + int(derive_seed(KNOWN, USERS)) - int(derive_seed(KNOWN, ITEMS))
    for user in range(20):
        learner.learn_many(one(np.uint64(user)), one(np.uint64(forged % 2**64)), *clean)
    assert bool((learner.users(one(VICTIM))[0] != before).any()) == moved


def test_a_flood_is_hidden_from_the_second_moment_by_keys_of_the_other_sign():
    """Two keys of one cell and opposite signs in three of five rows take 10^8 tries to find; in
    rows of eight cells, here, some hundreds."""
    shown = AmsSketch(depth=1, width=8, seed=KNOWN)
    shown.add_many(one(ITEM), np.array([1000]))
    for key in range(1000):
        pair = AmsSketch(depth=1, width=8, seed=KNOWN)
        pair.add_many(np.array([ITEM, key], np.uint64), np.array([1000, 1000]))
        if pair.estimate() == 0:
            break
    assert shown.estimate() == 1000**2
    assert pair.estimate() == 0
    other = AmsSketch(depth=1, width=8, seed=SECRET)
    other.add_many(np.array([ITEM, key], np.uint64), np.array([1000, 1000]))
    assert other.estimate() > 0


def test_a_full_catalogue_takes_eight_reports_for_each_row_and_no_other_way_is_cheaper():
    """65,536 reports of other items halve what an item has; a key that shares all cells with
    another gains no more than reports of the other would."""
    known = KnownItems(1024)
    known.enter(np.arange(1024, dtype=np.uint64))
    known.end_round(np.empty(0, np.int16))
    random = np.random.default_rng(3)
    for _ in range(8):
        known.enter(random.integers(2**32, 2**64, 1 << 16, dtype=np.uint64))
    assert len(known.end_round(np.empty(0, np.int16))) == 0
    known.enter(np.repeat(one(ITEM), 7))
    known.enter(random.integers(2**32, 2**64, 1 << 17, dtype=np.uint64))
    known.enter(one(ITEM))
    known.end_round(np.empty(0, np.int16))
    assert known.rows(one(ITEM))[0] < 0
    known.enter(np.repeat(one(ITEM), 8))
    known.end_round(np.empty(0, np.int16))
    assert known.rows(one(ITEM))[0] >= 0
