"""The ring buffer holds the newest values, however they came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.monitoring.prequential_error import RingBuffer


@given(
    capacity=st.integers(1, 7),
    batches=st.lists(st.lists(st.integers(0, 99), max_size=20), max_size=8),
)
def test_a_ring_holds_the_newest_values_whatever_the_batches(
    capacity: int, batches: list[list[int]]
) -> None:
    ring = RingBuffer(capacity, np.int64)
    for batch in batches:
        ring.add(np.array(batch, np.int64))
    newest = [value for batch in batches for value in batch][-capacity:]
    assert sorted(ring.values().tolist()) == sorted(newest)
    assert len(ring) == len(newest)


def test_a_ring_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity 0"):
        RingBuffer(0, np.float64)
