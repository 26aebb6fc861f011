"""The cached table: replaced whole, refused unless whole, one file a deployment."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from producers.ranking.kinds import LINKS
from producers.ranking.published import CachedTable, PublicTable, Source, TableCache
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import CatalogueEntry
from stream_app.wire.public_tables import table_digest
from tests.fixtures.item_sides import item_side

NOWHERE = Connection("127.0.0.1:1")


@pytest.fixture
def cache(tmp_path: Path) -> TableCache:
    return TableCache.for_deployment(tmp_path, NOWHERE.bootstrap, "films")


def cached(items: int = 3) -> CachedTable:
    data = encode_side(item_side(np.random.default_rng(items), items, 1))
    return CachedTable(1000.0, table_digest(data), data, (CatalogueEntry("alien", "Alien"),))


def test_what_was_written_last_is_read(cache: TableCache) -> None:
    assert cache.read() is None
    for items in (3, 4):
        assert cache.write(cached(items))
        assert cache.read() == cached(items)
    assert [path.name for path in cache.path.parent.iterdir()] == [cache.path.name]


def test_every_deployment_has_its_own_file(tmp_path: Path) -> None:
    places = {
        TableCache.for_deployment(tmp_path, bootstrap, prefix).path
        for bootstrap in ("a:1", "b:1")
        for prefix in ("x", "y", "../z")
    }
    assert len(places) == 6
    assert {place.parent for place in places} == {tmp_path / "item-links"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_counts_as_none(cache: TableCache, data: st.DataObject) -> None:
    cache.write(cached())
    whole = cache.path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(changed), whole[:at]):
        cache.path.write_bytes(damaged)
        assert cache.read() is None


def test_a_file_of_another_version_counts_as_none(cache: TableCache) -> None:
    cache.write(msgspec.structs.replace(cached(), v=2))
    assert cache.read() is None


def test_a_folder_that_cannot_be_written_costs_the_cache_only(tmp_path: Path) -> None:
    (tmp_path / "item-links").write_text("a file in its place")
    cache = TableCache.for_deployment(tmp_path, "a:1", "x")
    assert not cache.write(cached())
    assert cache.read() is None


def read(cache: Path, *, offline: bool = False) -> PublicTable[ItemSide]:
    return Source.of_deployment(NOWHERE, "films", cache, offline=offline).read(LINKS)


def test_without_the_broker_the_cached_table_is_used_with_the_reason(
    cache: TableCache, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"127\.0\.0\.1:1"):
        read(tmp_path)
    with pytest.raises(UserError, match="no item side in the cache"):
        read(tmp_path, offline=True)
    cache.write(cached())
    found = read(tmp_path)
    assert (len(found.side), found.fetched) == (3, 1000.0)
    assert "127.0.0.1:1" in found.problem
    assert "--offline" in read(tmp_path, offline=True).problem


def test_a_cached_table_in_another_format_is_refused(cache: TableCache, tmp_path: Path) -> None:
    data = b"mwis\1" + cached().table[5:]
    cache.write(msgspec.structs.replace(cached(), table=data))
    with pytest.raises(UserError, match="the cache holds no item side of this version"):
        read(tmp_path)
