"""What the tests of the device ask for: a journal of their own and a small data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from producers.datasets.load import Dataset
from producers.journal import Journal
from producers.scale import Scale
from tests.producers.journals import TOPIC, at

__all__ = ["TOPIC", "dataset"]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with at(tmp_path / "device.journal") as opened:
        yield opened


def dataset(
    users: list[int | str],
    items: list[int | str],
    ratings: list[float],
    times: list[int] | None = None,
) -> Dataset:
    scale = Scale(1, 5, 1)
    levels, on_scale = scale.classify(np.array(ratings))
    assert on_scale.all()
    stamps = None if times is None else np.array(times)
    return Dataset(
        np.array(users), np.array(items), np.array(ratings), levels, stamps, None, scale, "small"
    )


@pytest.fixture
def small(rng: np.random.Generator) -> Dataset:
    """500 ratings of 20 users, every cell at most once, in the order of the file."""
    cells = rng.choice(20 * 60, 500, replace=False)
    return dataset(
        (cells // 60).tolist(),
        (cells % 60).tolist(),
        rng.integers(1, 6, 500).astype(float).tolist(),
        rng.integers(0, 300, 500).tolist(),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "device.journal"
