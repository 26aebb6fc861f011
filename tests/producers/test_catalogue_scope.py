"""A catalogue that a device reports on is the list that it took first, also after a restart."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from producers.device.pinned_scope import CatalogueScope, digest_of, pin
from producers.journal import Journal
from stream_app.errors import ScopeChanged, Unwritable

FIRST, SECOND = np.arange(100, dtype=np.uint64), np.arange(50, 150, dtype=np.uint64)


def test_the_first_list_stays_that_of_the_device(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j") as journal:
        scope = CatalogueScope(journal)
        assert scope.stored() is None
        assert scope.take(FIRST)
        assert not scope.take(FIRST)
        assert journal.scope.hex() == digest_of(FIRST)
        with pytest.raises(ScopeChanged, match=f"give --accept-scope {digest_of(SECOND)}"):
            scope.take(SECOND)
        assert stat.S_IMODE(scope.path.stat().st_mode) == 0o600
    with Journal.open(tmp_path / "j") as journal:
        found = CatalogueScope(journal).stored()
        assert found is not None
        assert found.tolist() == FIRST.tolist()


def test_another_list_is_taken_where_its_digest_is_accepted(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j") as journal:
        CatalogueScope(journal).take(FIRST)
        scope = CatalogueScope(journal, digest_of(SECOND))
        assert scope.take(SECOND)
        found = scope.stored()
        assert found is not None
        assert found.tolist() == SECOND.tolist()


@pytest.mark.parametrize("damage", [None, b"", b"12345678", SECOND.tobytes()])
def test_a_stored_list_that_was_lost_or_changed_is_read_again_and_must_be_the_same(
    damage: bytes | None, tmp_path: Path
) -> None:
    with Journal.open(tmp_path / "j") as journal:
        scope = CatalogueScope(journal)
        scope.take(FIRST)
        scope.path.unlink()
        if damage is not None:
            scope.path.write_bytes(damage)
        assert scope.stored() is None
        with pytest.raises(ScopeChanged):
            scope.take(SECOND)
        assert not scope.take(FIRST)
        assert scope.stored() is not None


def test_a_catalogue_does_not_take_the_place_of_a_pinned_file(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j") as journal:
        pin(journal, tmp_path / "scope.txt", bytes(32))
        with pytest.raises(ScopeChanged, match="the server's catalogue: has the SHA-256"):
            CatalogueScope(journal).take(FIRST)


def test_a_list_that_cannot_be_stored_is_not_pinned(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j") as journal:
        scope = CatalogueScope(journal)
        scope.path.mkdir()
        with pytest.raises(Unwritable, match=r"j\.catalogue: cannot be written"):
            scope.take(FIRST)
        assert not journal.scope
