"""Every learner at a small size, channels to learn through, and hostile batches."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from stream_app.models.channels import Channels
from stream_app.models.learner import MODELS, Learner, build
from stream_app.models.parameters import Parameters
from stream_app.privacy.identity import Identity
from stream_app.privacy.randomized_response import RandomizedResponse

CLEAN, NOISY, FINE, COIN = range(4)
MECHANISMS = (
    Identity(5),
    RandomizedResponse(5, Fraction(2)),
    RandomizedResponse(9, Fraction(1)),
    RandomizedResponse(2, Fraction(1, 10)),
)
ALPHABETS = (5, 5, 9, 2)
CHANNELS = Channels.of(MECHANISMS)
SIZES = {"factors": 4, "depth": 3, "sketch_bytes": 3 * 7 * 4 * 4, "scalars_bytes": 8 * 16}
EVERY_MODEL = MODELS

Batch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def small(model: str, parameters: Parameters | None = None, **sizes: int) -> Learner:
    return build(model, CHANNELS, parameters=parameters, seed=5, **(SIZES | sizes))


def batch_of(rows: list[tuple[int, int, int, int, bool]]) -> Batch:
    u, i, z, c, learn = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return (
        np.array(u, np.uint64),
        np.array(i, np.uint64),
        np.array(z, np.uint8),
        np.array(c, np.uint8),
        np.array(learn, np.bool_),
    )


# The same few entities again and again, the ends of the id space, users and items with equal keys.
KEYS = st.sampled_from([0, 1, 2, 3, 2**63 - 1, 2**63, 2**64 - 1])


@st.composite
def batches(draw: st.DrawFn, most: int = 30, known: bool = False) -> Batch:
    rows = []
    for _ in range(draw(st.integers(1, most))):
        c = draw(st.integers(0, 3 if known else 4))
        z = (
            draw(st.integers(0, ALPHABETS[c] - 1))
            if c < 4 and (known or draw(st.booleans()))
            else draw(st.integers(0, 255))
            if not known
            else 0
        )
        rows.append((draw(KEYS), draw(KEYS), z, c, draw(st.booleans())))
    return batch_of(rows)


def stream(events: int, seed: int, users: int = 40, items: int = 30) -> Batch:
    random = np.random.default_rng(seed)
    c = random.integers(0, 4, events)
    return (
        random.integers(0, users, events).astype(np.uint64),
        random.integers(0, items, events).astype(np.uint64),
        random.integers(0, np.array(ALPHABETS)[c]).astype(np.uint8),
        c.astype(np.uint8),
        random.random(events) < 0.9,
    )


def digest(learner: Learner) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in learner.arrays().items()}
