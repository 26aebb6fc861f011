"""Pseudonyms: the standard's HMAC, stable, unlinkable without the key, and for proper ids only."""

from __future__ import annotations

import hashlib

import pytest

from producers.pseudonyms import pseudonym

KEY = bytes(range(32))


def test_a_pseudonym_is_the_first_half_of_hmac_sha256() -> None:
    # RFC 2104 spelled out.
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in KEY.ljust(64, b"\0")) + b"ann").digest()
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in KEY.ljust(64, b"\0")) + inner).digest()
    assert pseudonym(KEY, "ann") == outer[:16]


def test_a_pseudonym_depends_on_every_bit_of_key_and_user() -> None:
    other = bytes([KEY[0] ^ 1]) + KEY[1:]
    users = ["ann", "ann e", "Ann", "bob", "1", "2", "ä", "a" * 1024]
    all_of_them = [pseudonym(key, user) for key in (KEY, other) for user in users]
    assert len(set(all_of_them)) == len(all_of_them)
    assert {len(p) for p in all_of_them} == {16}


def test_a_number_is_its_decimal_text() -> None:
    assert pseudonym(KEY, 42) == pseudonym(KEY, "42")


@pytest.mark.parametrize(
    "user",
    ["", "a" * 1025, "ü" * 513, "a" * 2**20, "a\0b", "\ud800", True, None, 1.5, b"ann"],
    ids=lambda user: repr(user)[:12],
)
def test_an_id_that_cannot_be_one_is_refused_without_repeating_it(user: object) -> None:
    with pytest.raises(ValueError, match="user") as caught:
        pseudonym(KEY, user)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 100


def test_a_short_key_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="key of 16 bytes: must be 32"):
        pseudonym(KEY[:16], "ann")
