"""Arms: the same for ever, evenly shared, and moved by no more than a change of the models."""

from __future__ import annotations

import numpy as np
import pytest

from producers.edge.quality.model_figures import arm_of

KEY, MODELS = bytes(range(32)), ("local", "own", "popular", "server")


def test_the_arm_of_a_user_is_fixed_by_key_and_user_alone() -> None:
    users = [f"cust-{n}" for n in range(200)]
    arms = [arm_of(user, MODELS, KEY) for user in users]
    assert [arm_of(user, MODELS[::-1], KEY) for user in users] == arms
    assert [arm_of(user, MODELS, KEY[::-1]) for user in users] != arms
    assert arm_of("cust-44", MODELS, KEY) == "own"  # in every version
    assert arm_of("anybody", ("own",), KEY) == "own"
    with pytest.raises(ValueError, match="no model"):
        arm_of("ann", (), KEY)


def test_every_arm_has_the_same_share_of_users_whatever_their_ids() -> None:
    """20,000 users of consecutive ids over 4 arms: chi-square of 3 degrees above 32 has a chance
    below 1e-6; the hash is fixed, so that the test is, too."""
    arms = [arm_of(str(n), MODELS, KEY) for n in range(20_000)]
    counts = np.array([arms.count(model) for model in MODELS])
    assert ((counts - 5000) ** 2 / 5000).sum() < 32


def test_a_model_that_joins_or_leaves_moves_only_its_own_users() -> None:
    moved = 0
    for n in range(2000):
        before, after = arm_of(str(n), MODELS[:3], KEY), arm_of(str(n), MODELS, KEY)
        moved += before != after
        assert after in (before, "server")
    assert abs(moved / 2000 - 0.25) < 0.05
