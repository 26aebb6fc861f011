"""Every learner at a small size, channels to learn through, and hostile batches."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import strategies as st

from stream_app.models.baselines.learners import LEARNERS
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import LEARNERS as SERVED
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary
from tests.stream_app.models.example_learner import ItemMeans

CLEAN, NOISY, FINE, COIN, HIDDEN, BIT = range(6)
MECHANISMS = (
    Identity(5),
    RandomizedResponse(5, Fraction(2)),
    RandomizedResponse(9, Fraction(1)),
    RandomizedResponse(2, Fraction(1, 10)),
    RandomizedResponseWithMissing(5, Fraction(2)),
    Ternary(5, Fraction(1), Fraction(1, 2)),
    PartitionResponse(4, Fraction(1)),
)
CHANNELS = Channels.from_mechanisms(MECHANISMS)
UNUSED_CHANNEL = 6  # the partition under mask 0, which is not a mask
KNOWN = tuple(np.flatnonzero(CHANNELS.alphabets).tolist())
SIZES = {"factors": 4, "depth": 3, "sketch_bytes": 3 * 7 * 4 * 4, "scalars_bytes": 8 * 16}

FACTORIZATIONS = ("hybrid", "sketch", "literal", "hashing", "dense")  # what tests/naive knows


# A row of a table is under the contract without a line here.
EVERY_LEARNER = LEARNERS | {ItemMeans.name: ItemMeans}
every_learner = pytest.mark.parametrize("model", EVERY_LEARNER)

Batch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def small(model: str, parameters: Parameters | None = None, **sizes: int) -> Learner:
    return EVERY_LEARNER[model](
        CHANNELS,
        LearnerSpec(parameters=parameters or Parameters(), seed=5, **(SIZES | sizes)),
    )


def batch_of(
    rows: list[tuple[int, int, int, int, bool]], priors: list[float] | None = None
) -> Batch:
    """Return columns users, items, reports, channels, learn, priors."""
    u, i, z, c, learn = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return (
        np.array(u, np.uint64),
        np.array(i, np.uint64),
        np.array(z, np.uint8),
        np.array(c, np.uint16),
        np.array(learn, np.bool_),
        np.ones(len(rows), np.float32) if priors is None else np.array(priors, np.float32),
    )


# The same few entities again and again, the ends of the id space, users and items with equal keys.
KEYS = st.sampled_from([0, 1, 2, 3, 2**63 - 1, 2**63, 2**64 - 1])
PRIORS = st.sampled_from([0.0, 1e-3, 0.1, 0.5, 0.95, 1.0])


@st.composite
def batches(draw: st.DrawFn, most: int = 30, known: bool = False) -> Batch:
    rows, priors = [], []
    for _ in range(draw(st.integers(1, most))):
        c = draw(
            st.sampled_from((*KNOWN, *(() if known else (UNUSED_CHANNEL, len(CHANNELS), 65_535))))
        )
        size = int(CHANNELS.alphabets[c]) if c < len(CHANNELS) else 0
        inside = size and (known or draw(st.booleans()))
        z = draw(st.integers(0, size - 1) if inside else st.integers(0, 255))
        rows.append((draw(KEYS), draw(KEYS), z, c, draw(st.booleans())))
        priors.append(draw(PRIORS))
    return batch_of(rows, priors)


def stream(events: int, seed: int, users: int = 40, items: int = 30) -> Batch:
    random = np.random.default_rng(seed)
    c = random.choice(KNOWN, events)
    return (
        random.integers(0, users, events).astype(np.uint64),
        random.integers(0, items, events).astype(np.uint64),
        random.integers(0, CHANNELS.alphabets[c]).astype(np.uint8),
        c.astype(np.uint16),
        random.random(events) < 0.9,
        random.random(events).astype(np.float32),
    )


def digest(learner: Learner) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in learner.arrays().items()}


every_served_learner = pytest.mark.parametrize("model", SERVED)
