"""Changes of shards on the wire: what is damaged or forged is refused before it is merged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.models.sketches import AmsSketch, CountMinSketch
from stream_app.ranking.learned_weights import FIT_NUMBERS
from stream_app.wire.authenticity.seal import Seal
from stream_app.wire.exchange import (
    FITS,
    FREQUENCY_SHAPE,
    MAX_CHANGE_BYTES,
    MOMENT_SHAPE,
    Change,
    decode_change,
    encode_change,
)
from stream_app.wire.reasons import Reason, WireError

FACTORS = 4
COLUMNS = {
    "keys": np.array([3, 5, 9], np.uint64),
    "reports": np.array([1, 0, 7], np.uint32),
    "learned": np.array([0, 2], np.uint32),
    "beliefs": np.ones((2, 3 + FACTORS), np.float16),
    "overall": np.array([[2.0, 6.5]]),
    "fits": np.arange(FITS[0] * FITS[1], dtype=np.float32)[None],
    "frequency_cells": np.array([0, 2**18 - 1], np.uint32),
    "frequency_counts": np.array([4, -4], np.int32),
    "frequency_total": np.array([12], np.int64),
    "moment_cells": np.array([1279], np.uint32),
    "moment_counts": np.array([-1], np.int32),
    "rated_keys": np.array([3, 9], np.uint64),
    "rated_counts": np.array([1, 6], np.uint32),
    "rated_moments": np.array([[1, 15, 225], [6, -3, 2]], np.int32),
    "rated_numbers": np.array([[1, 2, 3]], np.int64),
    "rated_head": np.array([9, 3, 5], np.uint64),
    "rated_pairs_rows": np.array([0, 2], np.uint16),
    "rated_pairs_sizes": np.array([2, 1], np.uint16),
    "rated_pairs_gaps": np.array([1, 0, 2], np.uint8),
    "rated_pairs_values": np.array([225, 65535, 1], np.uint16),
    "rated_pairs_large": np.array([70_000], np.uint32),
}
CHANGE = Change(1, 7, 40, 12, FACTORS, COLUMNS)
SEAL = Seal("s" * 32, "p")


def changed(name: str, column: list) -> Change:
    return replace(CHANGE, columns=COLUMNS | {name: np.array(column, COLUMNS[name].dtype)})


@pytest.mark.parametrize("seal", [Seal(), SEAL])
def test_a_change_is_read_as_it_was_written(seal: Seal) -> None:
    found = decode_change(encode_change(CHANGE, seal), seal)
    assert (found.shard, found.number, found.cut, found.ratings) == (1, 7, 40, 12)
    for name, column in COLUMNS.items():
        assert (found.columns[name] == column).all()
    assert found.columns["reported_keys"].shape == (0,)
    assert found.columns["reported_moments"].shape == (0, 3)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("reports", [1, 2]),
        ("keys", [3, 3, 9]),
        ("learned", [0, 3]),
        ("learned", [2, 0]),
        ("beliefs", [[1.0] * 7]),
        ("beliefs", [[1.0] * 6] * 2),
        ("beliefs", [[np.nan] * 7] * 2),
        ("beliefs", [[np.inf] * 7] * 2),
        ("overall", [[np.nan, 1.0]]),
        ("overall", [[1e300, 1.0]]),
        ("overall", [[1.0, 1.0]] * 2),
        ("fits", [[0.0] * (FITS[0] * FITS[1] - 1)]),
        ("fits", [[0.0] * FITS[0] * FITS[1]] * 2),
        ("fits", [[np.nan] * FITS[0] * FITS[1]]),
        ("fits", [[1e30] * FITS[0] * FITS[1]]),
        ("frequency_cells", [0, 2**18]),
        ("frequency_total", [2**40]),
        ("moment_cells", [1280]),
        ("moment_counts", [1, 2]),
        ("rated_counts", [1]),
        ("rated_numbers", [[2**62, 0, 0]]),
        ("rated_head", [9, 3]),
        ("rated_head", [9, 9, 5]),
        ("rated_head", list(range(4097))),
        ("rated_pairs_rows", [0, 3]),
        ("rated_pairs_rows", [0, 0]),
        ("rated_pairs_sizes", [2, 2]),
        ("rated_pairs_sizes", [1, 2]),
        ("rated_pairs_gaps", [1, 1, 2]),
        ("rated_pairs_gaps", [1, 0, 3]),
        ("rated_pairs_values", [225, 65534, 1]),
        ("rated_pairs_large", [1, 2]),
    ],
)
def test_columns_that_do_not_fit_are_refused(name: str, column: list) -> None:
    with pytest.raises(WireError) as refused:
        decode_change(encode_change(changed(name, column), SEAL), SEAL)
    assert refused.value.reason is Reason.MALFORMED


@pytest.mark.parametrize(
    "odd", [{"number": 0}, {"shard": -1}, {"shard": 1024}, {"ratings": -1}, {"factors": 0}]
)
def test_numbers_out_of_bounds_are_refused(odd: dict) -> None:
    value = encode_change(replace(CHANGE, **odd, columns={}))
    with pytest.raises(WireError):
        decode_change(value)


def test_a_damaged_byte_is_refused_under_a_seal_and_never_crashes_without() -> None:
    draw = np.random.default_rng(3)
    sealed, bare = encode_change(CHANGE, SEAL), encode_change(CHANGE)
    for value, seal in ((sealed, SEAL), (bare, Seal())):
        for at in range(len(value)):
            damaged = bytearray(value)
            damaged[at] ^= int(draw.integers(1, 256))
            try:
                decode_change(bytes(damaged), seal)
            except WireError:
                continue
            assert not seal.keyed
    with pytest.raises(WireError):
        decode_change(sealed, Seal("t" * 32, "p"))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, Reason.EMPTY),
        (b"", Reason.EMPTY),
        (bytes(MAX_CHANGE_BYTES + 1), Reason.TOO_LARGE),
        (b"\x02" + encode_change(CHANGE)[1:], Reason.UNKNOWN_VERSION),
        (b"\x01" + bytes(16), Reason.MALFORMED),
        (encode_change(CHANGE)[:-1], Reason.MALFORMED),
        (b"\x01" + bytes(16) + b"\xc1" * 99, Reason.MALFORMED),
    ],
)
def test_other_values_are_refused(value: bytes | None, reason: Reason) -> None:
    with pytest.raises(WireError) as refused:
        decode_change(value)
    assert refused.value.reason is reason


def test_random_columns_never_raise_another_error() -> None:
    draw, refused = np.random.default_rng(9), 0
    for _ in range(300):
        name = str(draw.choice(list(COLUMNS)))
        size = int(draw.integers(0, 40))
        odd = np.frombuffer(draw.bytes(size * COLUMNS[name].dtype.itemsize), COLUMNS[name].dtype)
        try:
            decode_change(encode_change(replace(CHANGE, columns=COLUMNS | {name: odd})))
        except WireError:
            refused += 1
    assert refused > 100


def test_a_change_beyond_the_limit_is_not_written() -> None:
    keys = np.arange(600_000, dtype=np.uint64)
    with pytest.raises(ValueError, match=f"at most {MAX_CHANGE_BYTES}"):
        encode_change(Change(0, 1, 0, 0, 4, {"keys": keys}))


def test_sketches_and_fits_have_the_size_that_the_wire_allows() -> None:
    assert (2, FIT_NUMBERS) == FITS
    assert CountMinSketch().arrays()["cells"].shape == FREQUENCY_SHAPE
    assert AmsSketch().arrays()["cells"].shape == MOMENT_SHAPE
