"""The project's size stays below its ceilings."""

from __future__ import annotations

import tomllib

import pytest

from tests.ceilings import CEILINGS, COUNTS, ceiling


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_below_its_ceiling(name: str) -> None:
    count, most = COUNTS[name](), ceiling(name)
    assert count <= most, f"{name}: {count}, and {most} at most: remove what it replaces"


def test_every_count_has_a_ceiling_and_there_is_nothing_beside_them() -> None:
    assert {"ceilings": [*COUNTS]} == {
        name: [*table] for name, table in tomllib.loads(CEILINGS.read_text()).items()
    }
