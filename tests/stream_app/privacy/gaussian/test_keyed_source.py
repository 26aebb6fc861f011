"""Words of a key: the published keystream, whatever the calls, and never twice."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.privacy.gaussian.keyed_source import KeyedSource
from tests.naive import chacha20

# RFC 8439, appendix A.1, test vector 2: key 0, nonce 0, block counter 1.
PUBLISHED = (
    "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
    "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
)


def as_bytes(words: np.ndarray) -> bytes:
    return words.astype("<u8").tobytes()


def test_the_words_are_the_published_keystream() -> None:
    assert as_bytes(KeyedSource(bytes(32)).words(8)).hex() == PUBLISHED
    assert chacha20.block(bytes(32), 1, bytes(12)).hex() == PUBLISHED


def test_every_nonce_gives_65536_bytes_of_the_cipher() -> None:
    key = bytes(range(32))
    stream = as_bytes(KeyedSource(key).words(3 * 8192))
    for nonce, at in ((0, 0), (0, 1023), (1, 0), (1, 500), (2, 1023)):
        start = 65_536 * nonce + 64 * at
        expected = chacha20.block(key, 1 + at, nonce.to_bytes(12, "little"))
        assert stream[start : start + 64] == expected


def test_the_words_do_not_depend_on_how_they_are_asked_for() -> None:
    whole = KeyedSource(b"k" * 32).words(30_000)
    source = KeyedSource(b"k" * 32)
    parts = [source.words(count) for count in (0, 1, 8191, 8192, 1, 0, 13_000, 615)]
    assert (np.concatenate(parts) == whole).all()
    assert len(np.unique(whole)) == 30_000
    assert (KeyedSource(b"l" * 32).words(30_000) != whole).all()


def test_a_key_of_another_length_is_refused_and_no_key_is_shown() -> None:
    with pytest.raises(ValueError, match="key of 31 bytes: must be 32"):
        KeyedSource(bytes(31))
    assert "k" * 8 not in repr(KeyedSource(b"k" * 32))
    assert not KeyedSource(bytes(32)).unsafe
