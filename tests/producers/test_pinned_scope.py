"""The public scope is the list whose digest the journal holds, and no other without a word."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from producers.device.pinned_scope import CatalogueScope, digest_of, pin, read_ordered, read_scope
from producers.journal import Journal, read_journal
from stream_app import wire
from stream_app.errors import ScopeChanged, Unwritable, UserError


def test_a_scope_that_changed_is_refused_until_its_digest_is_given(tmp_path: Path) -> None:
    path, scope = tmp_path / "j", tmp_path / "scope.txt"
    scope.write_text("1\n2\n")
    with Journal.open(path) as journal:
        items, digest = read_scope(scope)
        assert (items.tolist(), digest) == ([1, 2], hashlib.sha256(b"1\n2\n").digest())
        assert pin(journal, scope, digest)
        assert not pin(journal, scope, digest)
        journal.compact()
    scope.write_text("666\n")
    with Journal.open(path) as journal:
        assert journal.scope == digest
        _, other = read_scope(scope)
        for accepted in (None, digest.hex()):
            with pytest.raises(UserError, match=f"give --accept-scope {other.hex()}"):
                pin(journal, scope, other, accepted)
        with pytest.raises(UserError, match="64 hex digits"):
            pin(journal, scope, other, "yes")
        assert journal.scope == digest
        assert pin(journal, scope, other, other.hex().upper())
    assert read_journal(path).book.scope == other


def test_the_scope_of_campaigns_is_pinned_apart_from_that_of_reports(tmp_path: Path) -> None:
    path, reports, campaigns = tmp_path / "j", tmp_path / "reports.txt", tmp_path / "campaigns.txt"
    reports.write_text("1\n2\n")
    campaigns.write_text("7\n8\n9\n")
    of_reports, of_campaigns = read_scope(reports)[1], read_scope(campaigns)[1]
    with Journal.open(path) as journal:
        assert pin(journal, reports, of_reports)
        assert pin(journal, campaigns, of_campaigns, campaigns=True)
        assert not pin(journal, reports, of_reports)
        journal.compact()
    with Journal.open(path) as journal:
        assert not pin(journal, campaigns, of_campaigns, campaigns=True)
        with pytest.raises(UserError, match="the scope of campaigns of this device has"):
            pin(journal, reports, of_reports, campaigns=True)
        assert (journal.scope, journal.campaign_scope) == (of_reports, of_campaigns)


def test_a_scope_is_read_once_so_that_its_digest_is_that_of_its_items(tmp_path: Path) -> None:
    pipe = tmp_path / "scope.txt"  # what is read from it is gone, as from an exchanged file
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"1\n2\n",), daemon=True)
    writer.start()
    items, digest = read_scope(pipe)
    writer.join()
    assert (items.tolist(), digest) == ([1, 2], hashlib.sha256(b"1\n2\n").digest())


def test_a_scope_with_too_many_items_is_refused(tmp_path: Path) -> None:
    scope = tmp_path / "scope.txt"
    scope.write_text("\n".join(map(str, range(5000))))
    with pytest.raises(
        UserError, match=r"5000 items, and a scope may have 4096.*--most-cells 5000"
    ):
        read_scope(scope)
    assert len(read_scope(scope, 5000)[0]) == 5000


def test_a_campaign_reads_the_items_in_the_order_of_the_file(tmp_path):
    scope = tmp_path / "items.txt"
    scope.write_text("30\n10\n\n20\n10\n")
    items, digest = read_ordered(scope, 3)
    assert items.tolist() == [wire.key(item) for item in (30, 10, 20)]
    rising, same = read_scope(scope)
    assert (rising.tolist(), same) == (sorted(items.tolist()), digest)


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
