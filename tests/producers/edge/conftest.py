"""A store of its own for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from producers.edge.store.database import Database


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "edge.db"


@pytest.fixture
def database(store_path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{store_path}") as opened:
        yield opened
