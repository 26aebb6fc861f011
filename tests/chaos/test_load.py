"""The load is its own oracle: the outcome it predicts for a record is the actual outcome."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from stream_app.privacy import registry
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import decode_many
from tests.chaos.load import Population
from tests.fixtures.streams import MECHANISMS, log, run_of

pytestmark = pytest.mark.nightly


def test_the_outcome_of_every_record_is_known_when_it_is_made(
    rng: np.random.Generator,
) -> None:
    population = Population(rng, devices=40)
    made = [population.next() for _ in range(4000)]
    spec = StateSpec(
        tuple(registry.parse(name) for name in MECHANISMS),
        factors=4,
        sketch_bytes=1 << 16,
        scalars_bytes=1 << 13,
        seen_bytes=1 << 12,
    )
    replica = Replica(spec)
    for partition, part in enumerate(log([record for record, _ in made])):
        replica.apply(decode_many(run_of(part, 0, len(part), partition), spec.intake))
    expected = Counter(becomes for _, becomes in made)
    counts = replica.ledger.counts()
    assert {name: counts[name] for name in expected} == expected
    assert min(expected.values()) > 20
    assert len(replica.ledger.rejected()) >= 7
