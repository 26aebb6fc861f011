"""A replica whose devices report likes: both bits are learned, and only likes are counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import LEARNERS, build
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy import registry
from stream_app.privacy.ratings.like import LIKED, NOT_LIKED
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.state.replica import Replica
from stream_app.wire import Event
from tests.fixtures.replicas import ITEMS, LIKES, applied, played
from tests.fixtures.streams import events, publish

ANN = bytes(range(16))
SCOPE = Event(ANN, 1, "like:5:3", 0, ITEMS, (ITEMS % 3 > 0).astype(np.uint8))
LIKED_ITEMS = ITEMS[ITEMS % 3 == 0]


def test_every_cell_is_learned_and_only_likes_are_counted_and_none_is_seen() -> None:
    replica = Replica(replace(LIKES, held_out=0.0))
    outcome = applied(replica, SCOPE)
    assert outcome.items.tolist() == replica.items.keys.tolist() == ITEMS.tolist()
    assert replica.ledger.counts()["ratings_learned"] == len(ITEMS)
    assert replica.frequencies.total == len(LIKED_ITEMS)
    assert (replica.frequencies.estimate_many(LIKED_ITEMS) >= 1).all()
    assert not replica.seen.arrays()["blocks"].any()
    assert len(outcome.missing.rows) == 0
    assert (outcome.priors == 1).all()
    errors = outcome.update.error
    assert (errors[outcome.reports == LIKED] > 0).all()
    assert (errors[outcome.reports == NOT_LIKED] < 0).all()


@pytest.mark.parametrize("model", LEARNERS)
def test_a_like_is_learned_as_randomized_response_over_two_levels(model: str) -> None:
    """`rr:2:3` with "liked" as its upper level: the same predictions, errors and probabilities."""
    replica = Replica(replace(LIKES, model=model, held_out=0.0))
    pair = Channels.from_mechanisms([RandomizedResponse(2, registry.parse("rr:2:3").epsilon)])
    spec = replica.spec
    sizes = LearnerSpec(
        factors=spec.factors, depth=spec.depth, sketch_bytes=spec.sketch_bytes,
        scalars_bytes=spec.scalars_bytes, seed=spec.seed,
    )  # fmt: skip
    learner, every = build(model, pair, sizes), np.ones(len(ITEMS), np.bool_)
    for seq in (1, 2):
        outcome = applied(replica, replace(SCOPE, seq=seq, reports=np.roll(SCOPE.reports, seq)))
        update = learner.learn_many(
            outcome.users, outcome.items, 1 - outcome.reports, np.zeros(len(ITEMS), np.uint16),
            every,
        )  # fmt: skip
        for column, wanted in zip(outcome.update, update, strict=True):
            np.testing.assert_allclose(column, wanted, rtol=1e-12)


def test_a_log_of_likes_may_be_cut_anywhere(rng: np.random.Generator) -> None:
    records = [publish(e) for e in events(rng, 200, families=("like:5:1", "like:5:3"))]
    whole = played(records, rng, LIKES)
    for most in (1, 7):
        parts = played(records, rng, LIKES, most)
        assert parts.model_digest() == whole.model_digest()
        assert parts.ledger_digest() == whole.ledger_digest()


def test_an_item_that_is_often_liked_is_predicted_higher() -> None:
    replica = Replica(replace(LIKES, held_out=0.0))
    for n in range(300):
        applied(replica, replace(SCOPE, device=n.to_bytes(16, "little")))
    ann = np.full(len(ITEMS), 5, np.uint64)
    predicted = replica.learner.predict_many(ann, ITEMS)
    assert predicted[::3].min() > predicted[ITEMS % 3 > 0].max() + 1


def test_stars_and_likes_are_not_learned_by_one_model() -> None:
    with pytest.raises(ValueError, match="like:5:2 reports likes and rr:5:2 stars"):
        replace(LIKES, mechanisms=(registry.parse("rr:5:2"), registry.parse("like:5:2")))


def test_likes_of_one_device_are_pairs_and_other_bits_are_not() -> None:
    """The pairs are those of the first mechanism, with its own channel to debias them."""
    replica = Replica(replace(LIKES, held_out=0.0, head_items=256))
    applied(replica, replace(SCOPE, mechanism="like:5:1"))
    replica.end_round(1, (0,) * replica.spec.partitions)
    counts = replica.pair_snapshot().counts()
    assert counts is not None
    p, q = replica.spec.mechanisms[0].likelihood()[0, [-2, -1]]
    assert counts.channel == pytest.approx((p, q))
    liked = np.isin(counts.keys, LIKED_ITEMS)
    assert len(counts.keys) == len(ITEMS)
    wanted = np.outer(liked, liked).astype(float)
    np.testing.assert_array_equal(
        counts.pairs - np.diag(np.diag(counts.pairs)), wanted - np.diag(np.diag(wanted))
    )
    np.testing.assert_array_equal(counts.sums, liked)
    np.testing.assert_array_equal(counts.exposures, 1)
