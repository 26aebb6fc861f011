"""The public table of similarities: its bytes, and what is refused of hostile ones."""

from __future__ import annotations

import struct
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.ranking.domains.similarity_table import SimilarityTable
from stream_app.ranking.domains.table_bytes import (
    MOST_BYTES,
    SimilarityTableError,
    decode_table,
    encode_table,
    most_links,
)
from tests.fixtures.similarity_tables import a_table

TABLE = a_table()
ENCODED = encode_table(TABLE)


def same(left: SimilarityTable, right: SimilarityTable) -> bool:
    names = [field.name for field in fields(SimilarityTable)]
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


def test_a_table_round_trips() -> None:
    assert same(decode_table(ENCODED), TABLE)
    assert encode_table(decode_table(ENCODED)) == ENCODED
    nothing = a_table(items=1, links=0)
    assert same(decode_table(encode_table(nothing)), nothing)


def test_the_weakest_links_are_left_out_where_a_table_would_be_too_large() -> None:
    kept = most_links(12, 3, len(ENCODED) - 200)
    assert 0 <= kept < 3
    assert most_links(4096, 16) >= 7
    table = a_table(items=1200, links=400)
    data = encode_table(table)
    found = decode_table(data)
    assert len(data) <= MOST_BYTES
    width = most_links(1200, 3)
    assert found.targets.shape == (3, 1200, width)
    assert np.array_equal(found.targets, table.targets[:, :, :width])


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(ENCODED) - 1), st.integers(1, 255))
def test_changed_bytes_give_a_table_or_one_error(place: int, change: int) -> None:
    data = bytearray(ENCODED)
    data[place] ^= change
    try:
        found = decode_table(bytes(data))
    except SimilarityTableError:
        return
    assert len(found) == len(TABLE)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.integers(0, len(ENCODED) - 1)))
def test_truncated_and_random_bytes_are_refused(given_: bytes | int) -> None:
    data = ENCODED[:given_] if isinstance(given_, int) else given_
    with pytest.raises(SimilarityTableError):
        decode_table(data)
    with pytest.raises(SimilarityTableError):
        decode_table(ENCODED + b"\0")


def test_another_version_is_refused_in_words() -> None:
    data = bytearray(ENCODED)
    data[4] = 2
    with pytest.raises(SimilarityTableError, match="format 2: this version reads format 1"):
        decode_table(bytes(data))


def test_sizes_that_no_table_has_are_refused_before_memory_is_taken() -> None:
    head = struct.Struct("<4sBQIIBHddd")
    for n, domains, k in ((2**32 - 1, 1, 1), (4096, 17, 1), (4096, 16, 65_535), (0, 1, 0)):
        data = head.pack(b"mwst", 1, 0, 1, n, domains, k, 1.0, 0.5, 1.0)
        with pytest.raises(SimilarityTableError):
            decode_table(data.ljust(200, b"\0"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epsilon": 0.0}, "must be above 0"),
        ({"epsilon": float("nan")}, "must be above 0"),
        ({"spent": float("inf")}, "must be above 0"),
        ({"epsilon": 3.0}, "of 2.5 spent"),
        ({"delta": 0.0}, "above 0 and below 1"),
        ({"delta": float("nan")}, "above 0 and below 1"),
        ({"release": 0}, "counted from 1"),
        ({"domains": ("books", "", "films")}, "rising"),
        ({"domains": ("", "books", "books")}, "rising"),
        ({"domains": ("\x1b[2J", "books", "films")}, "printable"),
        ({"domain": np.full(12, 3, np.uint8)}, "domain 3 of 3"),
        ({"keys": np.full(12, 7, np.uint64)}, "twice"),
        ({"means": np.full(12, 5.5, np.float32)}, "mean rating"),
        ({"means": np.full(12, np.nan, np.float32)}, "mean rating"),
        ({"rates": np.full(12, -0.1, np.float32)}, "rate"),
        ({"similarities": np.full((3, 12, 3), 1.5, np.float32)}, "similarity"),
        ({"similarities": np.zeros((3, 12, 2), np.float32)}, "one table"),
        ({"deviations": np.full((3, 12, 3), 4.5, np.float32)}, "deviation"),
        ({"targets": np.full((3, 12, 3), 12, np.int32)}, "outside of 12 items"),
        ({"targets": np.full((3, 12, 3), 1, np.int32)}, "of another one"),
    ],
    ids=str,
)
def test_what_no_release_gives_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        replace(TABLE, **changes)  # type: ignore[arg-type]


def test_rows_of_links_are_checked() -> None:
    targets = np.full((3, 12, 3), -1, np.int32)
    similarities = np.zeros((3, 12, 3), np.float32)
    targets[1, 0, :2] = 4
    with pytest.raises(ValueError, match="two links"):
        replace(TABLE, targets=targets, similarities=similarities)
    targets[1, 0, :2] = 4, 7
    similarities[1, 0, :2] = 0.1, 0.2
    with pytest.raises(ValueError, match="strongest first"):
        replace(TABLE, targets=targets, similarities=similarities)
    targets[1, 4, 0], similarities[:] = 4, 0
    with pytest.raises(ValueError, match="to itself"):
        replace(TABLE, targets=targets, similarities=similarities)


def test_links_of_two_domains_are_those_of_the_table() -> None:
    links = TABLE.links("books", "films")
    assert links.sources.tolist() == TABLE.keys[TABLE.domain == 1].tolist()
    assert links.targets.tolist() == TABLE.keys[TABLE.domain == 2].tolist()
    for row, item in enumerate(np.flatnonzero(TABLE.domain == 1)):
        named = [TABLE.keys[target] for target in TABLE.targets[2, item] if target >= 0]
        assert [links.targets[place] for place in links.places[row] if place >= 0] == named
    assert TABLE.middles("books", "films").targets.tolist() == TABLE.means[2::3].tolist()
    assert TABLE.is_bridged("books", "films")
    apart = replace(
        TABLE, targets=np.full((3, 12, 3), -1, np.int32), similarities=0 * TABLE.similarities
    )
    assert not apart.is_bridged("books", "films")


def test_an_unknown_domain_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"domain 'filsm' is not in the table; it has \(none\)"):
        TABLE.place_of("filsm")
