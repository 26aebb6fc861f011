"""After a user is forgotten its predictions are those of an unknown user, and other entities are
unchanged except for collisions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.models.seeds import USERS, derive_seed
from tests.naive import learning as naive
from tests.stream_app.models.learners import (
    CHANNELS,
    CLEAN,
    HIDDEN,
    MECHANISMS,
    SIZES,
    every_served_learner,
    small,
    stream,
)

USER = np.array([7], np.uint64)


def roomy(model: str) -> Learner:
    sizes = {"factors": 8, "depth": 4, "sketch_bytes": 1 << 20, "scalars_bytes": 1 << 18}
    return build(model, CHANNELS, LearnerSpec(seed=5, **sizes))


def taught(model: str, make=roomy, users: int = 300) -> Learner:
    made = make(model)
    u, i, z, c, learn, g = stream(6000, 21, users=users, items=200)
    u[::10] = USER[0]
    made.learn_many(u, i, z, c, learn, g)
    return made


@every_served_learner
def test_a_forgotten_user_reads_as_an_unknown_one(model: str) -> None:
    made, fresh = taught(model), roomy(model)
    known, wanted = made.users(USER), fresh.users(USER)
    assert np.abs(known[0] - wanted[0]).max() > 0.02
    assert known[1][0] != 0
    made.forget(USER[0])
    vector, bias = made.users(USER)
    assert vector == pytest.approx(wanted[0], abs=1e-6)
    assert bias[0] == 0


@every_served_learner
def test_a_forgotten_user_learns_again_like_an_unknown_user(model: str) -> None:
    """The variances are those of the beginning, so the first step is as long as the first."""
    made, fresh = taught(model), roomy(model)
    columns = USER, np.array([10**6], np.uint64), np.array([4], np.uint8)
    channel, learn = np.array([CLEAN], np.uint16), np.ones(1, np.bool_)
    made.forget(USER[0])
    made._overall[:] = fresh._overall  # type: ignore[attr-defined]
    for learner in (made, fresh):
        learner.learn_many(*columns, channel, learn)
    assert made.users(USER)[1] == pytest.approx(fresh.users(USER)[1], rel=1e-4)


def test_other_entities_move_only_by_what_they_share_with_the_user() -> None:
    """Of 300 users and 200 items in tables with room, most share nothing and few move;
    those that do, move by a share of what the user had learned (1/k of it for a shared cell)."""
    made = taught("sketch")
    others = np.setdiff1d(np.arange(300, dtype=np.uint64), USER)
    items = np.arange(200, dtype=np.uint64)
    before = [made.users(others), made.items(items)]
    moved_user = np.abs(made.users(USER)[0] - roomy("sketch").users(USER)[0]).max()
    mean = made.mean
    made.forget(USER[0])
    for old, new in zip(before, [made.users(others), made.items(items)], strict=True):
        moved = np.abs(new[0] - old[0])
        assert moved.max() <= moved_user * 1.01
        assert (moved.max(axis=1) > 1e-7).mean() < 0.05
        assert new[1].tolist() == old[1].tolist()
    assert made.mean == mean


@pytest.mark.thorough
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), user=st.sampled_from([0, 1, 2**63, 2**64 - 1]))
def test_even_in_a_crowded_sketch_the_user_reads_as_an_unknown_one(seed: int, user: int) -> None:
    """Seven blocks for forty users, components that share cells: the noise is others', the read-out
    is not."""
    made, fresh, key = small("sketch"), small("sketch"), np.array([user], np.uint64)
    u, i, z, c, learn, g = stream(300, seed)
    made.learn_many(np.where(u < 10, key[0], u), i, z, c, learn, g)
    made.forget(key[0])
    assert np.abs(made.users(key)[0] - fresh.users(key)[0]).max() <= 2e-6


@pytest.mark.thorough
def test_a_shared_slot_stays_and_an_own_slot_is_cleared() -> None:
    """Eight slots for 80 entities: only those with their tag in the table have one of their own."""
    made = small("sketch")
    u, i, z, c, learn, g = stream(2000, 3, users=40, items=40)
    made.learn_many(u, i, z, c, learn, g)
    arrays, owners = made.arrays(), 0
    for user in range(40):
        tag = max(naive.mix((user + int(derive_seed(5, USERS))) % 2**64) % 2**32, 1)
        before = arrays["scalars"].copy()
        made.forget(np.uint64(user))
        changed = np.flatnonzero((arrays["scalars"] != before).any(axis=1)).tolist()
        held = np.flatnonzero(arrays["tags"] == tag).tolist()
        assert changed == held
        owners += len(held)
        assert all(arrays["scalars"][s].tolist() == [0, 1, 1] for s in held)
    assert 0 < owners < 8


def hidden(users: np.ndarray, presence: PresenceRates) -> np.ndarray:
    cells = 12
    n = len(users) * cells
    return presence.priors(
        np.full(len(users), cells),
        np.repeat(users, cells),
        np.tile(np.arange(cells, dtype=np.uint64), len(users)),
        (np.arange(n) % 6).astype(np.uint8),
        np.full(n, HIDDEN, np.uint16),
    )


def test_the_activity_of_a_user_is_forgotten_and_the_rates_of_items_are_not() -> None:
    presence = PresenceRates(CHANNELS, 1 << 16)
    hidden(np.arange(20, dtype=np.uint64), presence)
    before = {name: array.copy() for name, array in presence.arrays().items()}
    presence.forget(USER[0])
    after = presence.arrays()
    changed = np.flatnonzero((after["sums"] != before["sums"]).any(axis=1))
    assert len(changed) == 1
    assert not after["sums"][changed[0]].any()
    assert before["sums"][changed[0]].all()
    for name in ("tags", "overall"):
        assert after[name].tobytes() == before[name].tobytes()
    presence.forget(np.uint64(10**9))
    assert (after["sums"] != before["sums"]).any(axis=1).sum() == 1


@pytest.mark.thorough
def test_a_wide_vector_is_forgotten_with_its_repeated_signs() -> None:
    """Above 32 components the signs come from a further hash, and repeat after 64."""
    sizes = SIZES | {"factors": 100, "sketch_bytes": 3 * 50 * 4 * 100}
    made, fresh = (
        build("sketch", Channels.from_mechanisms(MECHANISMS[:1]), LearnerSpec(seed=1, **sizes))
        for _ in range(2)
    )
    u, i, z, _, learn, _ = stream(400, 8)
    made.learn_many(u, i, z % 5, np.zeros(400, np.uint16), learn)
    made.forget(USER[0])
    assert made.users(USER)[0] == pytest.approx(fresh.users(USER)[0], abs=1e-6)
