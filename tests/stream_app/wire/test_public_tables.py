"""The records of the item side: a reader takes whole versions only, whatever was written."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.wire import Reason, WireError
from stream_app.wire.limits import MAX_TABLE_BYTES, TABLE_PAGE_BYTES
from stream_app.wire.public_tables import (
    MAX_TABLE_PAGES,
    NEWEST_RECORDS,
    TableManifest,
    TablePage,
    TableReader,
    TableVersion,
    decode_table_record,
    encode_table_record,
    table_records,
)

Record = tuple[bytes, bytes]


def table(version: int, pages: int) -> bytes:
    """Return bytes of `pages` pages that differ from version to version."""
    size = (pages - 1) * TABLE_PAGE_BYTES + 1 + version % 100
    return np.random.default_rng(version).bytes(size)


def written(version: int, pages: int, slot: int) -> list[Record]:
    return [
        (record.key, encode_table_record(record))
        for record in table_records(table(version, pages), version, slot)
    ]


def read(records: list[Record]) -> TableReader:
    reader = TableReader()
    for key, value in records:
        reader.learn(key, value)
    return reader


@pytest.mark.parametrize("size", [1, TABLE_PAGE_BYTES, TABLE_PAGE_BYTES + 1, MAX_TABLE_BYTES])
def test_a_version_comes_back_as_it_was_written(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    records = [(each.key, encode_table_record(each)) for each in table_records(data, 7, 1)]
    assert read(records).newest() == TableVersion(1, 7, data)
    assert 2 * len(records) <= NEWEST_RECORDS
    assert max(len(value) for _, value in records) < 1_000_000  # Kafka's limit of a message


@pytest.mark.parametrize("size", [0, MAX_TABLE_BYTES + 1])
def test_a_size_that_no_reader_would_take_is_not_written(size: int) -> None:
    with pytest.raises(ValueError, match="bytes: 1 to"):
        list(table_records(bytes(size), 1, 0))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.integers(0, 40),
    st.booleans(),
)
def test_after_any_record_the_last_whole_version_is_read(
    pages: list[int], stop: int, compact: bool
) -> None:
    log, whole = [], None
    for version, count in enumerate(pages, 1):
        for record in written(version, count, version % 2):
            if len(log) == stop:
                break
            log.append(record)
        else:
            whole = version
    if compact:
        newest = {key: place for place, (key, _) in enumerate(log)}
        log = [record for place, record in enumerate(log) if newest[record[0]] == place]
    found = read(log).newest()
    if whole is None:
        assert found is None
    else:
        assert found == TableVersion(whole % 2, whole, table(whole, pages[whole - 1]))


@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_two_writers_in_one_slot_are_never_mixed(first: int, second: int, data: st.DataObject):
    older, newer = written(1, first, 0), written(2, second, 0)
    log, left, right = [], list(older), list(newer)
    while left or right:
        take_left = left and (not right or data.draw(st.booleans()))
        log.append((left if take_left else right).pop(0))
    found = read(log).newest()
    assert found is None or found in (
        TableVersion(0, 1, table(1, first)),
        TableVersion(0, 2, table(2, second)),
    )


@given(st.data())
def test_a_version_with_a_changed_byte_is_not_used(data: st.DataObject) -> None:
    records = written(1, 2, 1) + written(2, 2, 0)
    place = data.draw(st.integers(3, 5))
    key, value = records[place]
    at = data.draw(st.integers(0, len(value) - 1))
    changed = value[:at] + bytes([value[at] ^ data.draw(st.integers(1, 255))]) + value[at + 1 :]
    records[place] = key, changed
    found = read(records).newest()
    assert found == TableVersion(1, 1, table(1, 2))


@pytest.mark.parametrize(
    ("cut", "lost"), [(1, 0), (1, 1), (2, 2)], ids=["first page", "last page", "manifest"]
)
def test_a_version_that_lacks_a_record_is_not_used(cut: int, lost: int) -> None:
    records = written(cut, 2, 0)
    del records[lost]
    reader = read(records)
    assert reader.newest() is None
    assert reader.manifests == (lost != 2)


def test_the_manifest_written_last_counts_and_not_the_largest_cut() -> None:
    # A deployment that was created again starts with small cuts.
    found = read(written(900, 2, 0) + written(3, 1, 1)).newest()
    assert found is not None
    assert found.cut == 3


def manifest(**changed: object) -> bytes:
    fields = {"kind": "m", "slot": 0, "cut": 1, "pages": 1, "size": 1, "digest": bytes(16), "v": 1}
    return msgspec.msgpack.encode(fields | changed)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"0/manifest", b"", Reason.EMPTY),
        (b"0/manifest", None, Reason.EMPTY),
        (b"0/manifest", bytes(TABLE_PAGE_BYTES + 2000), Reason.TOO_LARGE),
        (b"0/manifest", b"{}", Reason.MALFORMED),
        (b"0/manifest", b"\xc1", Reason.MALFORMED),
        (b"0/manifest", manifest(v=2), Reason.UNKNOWN_VERSION),
        (b"0/manifest", manifest(v=2, more=1), Reason.UNKNOWN_VERSION),
        (b"0/manifest", manifest(slot=2), Reason.MALFORMED),
        (b"0/manifest", manifest(pages=MAX_TABLE_PAGES + 1), Reason.MALFORMED),
        (b"0/manifest", manifest(size=MAX_TABLE_BYTES + 1), Reason.MALFORMED),
        (b"0/manifest", manifest(digest=bytes(15)), Reason.MALFORMED),
        (b"0/manifest", manifest(cut=-1), Reason.MALFORMED),
        (b"1/manifest", manifest(), Reason.KEY_MISMATCH),
        (None, manifest(), Reason.KEY_MISMATCH),
        (b"0/1", encode_table_record(TablePage(0, 0, 1, b"x")), Reason.KEY_MISMATCH),
    ],
)
def test_a_record_that_breaks_the_contract_is_refused(
    key: bytes | None, value: bytes | None, reason: Reason
) -> None:
    with pytest.raises(WireError) as caught:
        decode_table_record(key, value)
    assert caught.value.reason is reason
    reader = read(written(1, 2, 0))
    reader.learn(key, value)
    assert reader.newest() == TableVersion(0, 1, table(1, 2))
    assert (reader.refused, reader.foreign) == (
        (0, 1) if reason is Reason.UNKNOWN_VERSION else (1, 0)
    )


def test_a_valid_record_is_decoded() -> None:
    assert decode_table_record(b"0/manifest", manifest()) == TableManifest(0, 1, 1, 1, bytes(16))
