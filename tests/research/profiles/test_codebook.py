"""The public codebooks: the same numbers in any language, spread evenly, of length 1."""

from __future__ import annotations

import numpy as np
import pytest

from research.profiles.codebook import BLIP_SALT, JLT_SALT, addresses, positions, signs
from stream_app.privacy.ratings.item_sampling import words

M64 = 2**64 - 1
PINNED_ADDRESSES = [3238, 2997, 1220, 4998, 1630, 953, 4906, 1809]
PINNED_SIGNS = "+-+--+---++-++--+--+-+++------+++-+---+-"
KEYS = np.array([0, 1, 1193, 2**63 - 1, 2**64 - 1], np.uint64)


def mix(x: int) -> int:
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & M64
    return x ^ x >> 31


def word(item: int, i: int, salt: int) -> int:
    """The definition, in integers of any size."""
    return mix((mix((item + salt) & M64) + i * 0x9E3779B97F4A7C15) & M64)


def test_words_are_those_of_the_definition() -> None:
    found = words(KEYS, 20, BLIP_SALT)
    for row, item in enumerate(KEYS.tolist()):
        assert found[row].tolist() == [word(item, i, BLIP_SALT) for i in range(1, 21)]


def test_the_codebook_does_not_change_from_version_to_version() -> None:
    assert (BLIP_SALT, JLT_SALT) == (0x424C4950, 0x4A4C54)
    assert addresses(KEYS[2:3], 8, 5000)[0].tolist() == PINNED_ADDRESSES
    assert "".join("-+"[int(sign > 0)] for sign in signs(KEYS[2:3], 40)[0]) == PINNED_SIGNS


def test_addresses_are_within_the_filter_and_positions_are_the_distinct_ones() -> None:
    items = np.arange(500, dtype=np.uint64)
    every = addresses(items, 20, 97)  # short: every item has collisions
    assert every.min() >= 0
    assert every.max() < 97
    found, starts = positions(items, 20, 97)
    for item in range(500):
        assert found[starts[item] : starts[item + 1]].tolist() == sorted(set(every[item].tolist()))


def test_signs_are_the_bits_of_the_words() -> None:
    found = signs(KEYS, 100)
    assert found.dtype == np.int8
    for row, item in enumerate(KEYS.tolist()):
        bits = [word(item, 1 + at // 64, JLT_SALT) >> at % 64 & 1 for at in range(100)]
        assert found[row].tolist() == [1 if bit else -1 for bit in bits]


def test_an_empty_profile_has_no_words() -> None:
    assert words(KEYS[:0], 20, 1).shape == (0, 20)
    assert signs(KEYS[:0], 100).shape == (0, 100)
    assert positions(KEYS[:0], 20, 100)[1].tolist() == [0]


@pytest.mark.statistical
def test_bits_are_spread_evenly_and_codewords_are_nearly_orthogonal() -> None:
    """Fixed inputs, so no false alarm; power: a constant shift of one address is 5 deviations."""
    items = np.arange(2000, dtype=np.uint64)
    counts = np.bincount(addresses(items, 20, 500).ravel(), minlength=500)
    square = float(((counts - 80) ** 2 / 80).sum())
    assert abs(square - 499) < 5 * np.sqrt(2 * 499)
    book = signs(items[:300], 1000).astype(np.float64) / np.sqrt(1000)
    across = (book @ book.T)[np.triu_indices(300, 1)]
    assert abs(across.std() * np.sqrt(1000) - 1) < 0.03
    assert abs(across.mean() * np.sqrt(1000 * len(across))) < 5
