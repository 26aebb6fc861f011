"""Records of the state topic: golden bytes, and hostile bytes raise only `WireError`."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.wire import Tail
from stream_app.wire.reasons import Reason, WireError
from stream_app.wire.state_records import (
    CHECKPOINT_FORMAT,
    PAGE_BYTES,
    ArrayPages,
    Claim,
    ClaimKey,
    Manifest,
    ManifestKey,
    PageKey,
    SmallArray,
    StateKey,
    StateOrigin,
    decode_claim,
    decode_manifest,
    decode_page,
    decode_state_key,
    encode_claim,
    encode_manifest,
    encode_page,
    ledger_root,
    model_root,
)

MANIFEST = Manifest(
    generation=0x0123,
    number=2,
    design="d" * 32,
    topic_id="topic",
    cut=5,
    end_offsets=(3, 4),
    cut_offset=10,
    origin=StateOrigin(0, (0, 0), excluded=("ab" * 16,)),
    model="0" * 32,
    ledger="1" * 32,
    arrays=(ArrayPages("learner.counts", "<f4", (2, 2), bytes([1]), bytes(range(16))),),
    ledger_arrays=(SmallArray("ends", "<i8", (2,), bytes(16)),),
    tails=(None, Tail(3, "0123456789abcdef"), Tail(9, "fedcba9876543210")),
)

GOLDEN_KEYS: tuple[tuple[StateKey, str], ...] = (
    (PageKey(array=1, page=2, slot=1, generation=0x0123), "50000100000002010000000000000123"),
    (ManifestKey(slot=0, generation=0x0123), "4d000000000000000123"),
    (ClaimKey(bytes(range(16))), "43000102030405060708090a0b0c0d0e0f"),
)

GOLDEN_MANIFEST = (
    "02e7c25be37e699c06065ae88c9c501ef5000000000000000000000000000000008daa67656e65726174696f6ecd"
    "0123a66e756d62657202a664657369676ed920646464646464646464646464646464646464646464646464646464"
    "6464646464a8746f7069635f6964a5746f706963a363757405a4656e6473920304aa6375745f6f66667365740aa4"
    "6261736586a363757400a4656e6473920000a66f726967696ea0a3676170c2a7776974686f757491d92061626162"
    "61626162616261626162616261626162616261626162616261626162a8636f6e747261637401a56d6f64656cd920"
    "3030303030303030303030303030303030303030303030303030303030303030a66c6564676572d9203131313131"
    "313131313131313131313131313131313131313131313131313131a66172726179739185a46e616d65ae6c656172"
    "6e65722e636f756e7473a56474797065a33c6634a57368617065920202a5736c6f7473c40101a764696765737473"
    "c410000102030405060708090a0b0c0d0e0fad6c65646765725f6172726179739184a46e616d65a4656e6473a564"
    "74797065a33c6938a573686170659102a464617461c41000000000000000000000000000000000a57461696c7393"
    "c082a66f666673657403ab66696e6765727072696e74b03031323334353637383961626364656682a66f66667365"
    "7409ab66696e6765727072696e74b066656463626139383736353433323130"
)


@pytest.mark.parametrize(("key", "golden"), GOLDEN_KEYS, ids=lambda each: type(each).__name__)
def test_a_key_has_these_bytes(key: StateKey, golden: str) -> None:
    assert key.encode().hex() == golden
    assert decode_state_key(bytes.fromhex(golden)) == key


def test_a_page_has_these_bytes() -> None:
    assert encode_page(2, b"\x00\x01\xff").hex() == "0200000000000000020001ff"
    assert decode_page(bytes.fromhex("0200000000000000020001ff")) == (2, b"\x00\x01\xff")


def test_a_manifest_has_these_bytes() -> None:
    assert encode_manifest(MANIFEST).hex() == GOLDEN_MANIFEST
    assert decode_manifest(bytes.fromhex(GOLDEN_MANIFEST)) == MANIFEST


def test_a_claim_has_these_bytes() -> None:
    key = ClaimKey(bytes(16))
    value = encode_claim(key, Claim("worker-1"))
    assert value.hex() == "02" + 16 * "00" + "81a6776f726b6572a8776f726b65722d31"
    assert decode_claim(key, value) == Claim("worker-1")


def test_an_origin_has_this_digest() -> None:
    assert MANIFEST.origin.digest == "d32cd795bc70ea83b0891667277bd15f"


def test_the_roots_follow_their_definition() -> None:
    text = b"d" * 32 + b"learner.counts:<f4:(2, 2);" + bytes(range(16))
    assert model_root("d" * 32, MANIFEST.arrays) == blake2b(text, digest_size=16).hexdigest()
    text = b"d" * 32 + b"ends:<i8:(2,);" + bytes(16)
    assert (
        ledger_root("d" * 32, MANIFEST.ledger_arrays) == blake2b(text, digest_size=16).hexdigest()
    )


def test_a_root_does_not_depend_on_the_order_of_the_arrays() -> None:
    other = SmallArray("absent", "<i8", (2,), bytes(range(16)))
    arrays = (*MANIFEST.ledger_arrays, other)
    assert ledger_root("d", arrays) == ledger_root("d", arrays[::-1])
    assert ledger_root("d", arrays) != ledger_root("d", MANIFEST.ledger_arrays)


def test_every_flipped_bit_of_a_manifest_is_detected() -> None:
    for bit in range(8 * len(GOLDEN_MANIFEST) // 2):
        value = bytearray.fromhex(GOLDEN_MANIFEST)
        value[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError) as raised:
            decode_manifest(bytes(value))
        assert raised.value.reason is Reason.MALFORMED, f"bit {bit}"


def test_a_manifest_cut_short_anywhere_is_malformed() -> None:
    value = bytes.fromhex(GOLDEN_MANIFEST)
    for length in range(len(value)):
        with pytest.raises(WireError):
            decode_manifest(value[:length])


def test_a_newer_manifest_is_distinguished_from_a_damaged_one() -> None:
    with pytest.raises(WireError) as raised:
        decode_manifest(newer(b"something else"))
    assert raised.value.reason is Reason.UNKNOWN_VERSION


def test_a_manifest_after_designs_in_the_log_has_a_format_that_earlier_releases_refuse() -> None:
    """They ask for the newer release then; before, both read what the other writes."""
    manifest = decode_manifest(bytes.fromhex(GOLDEN_MANIFEST))
    for contract, number in ((2, 2), (3, 3)):
        held = SmallArray("contract", "<i8", (1,), contract.to_bytes(8, "little"))
        value = encode_manifest(msgspec.structs.replace(manifest, ledger_arrays=(held,)))
        assert (value[0], decode_manifest(value).contract) == (number, contract)


def newer(body: bytes) -> bytes:
    version = bytes([CHECKPOINT_FORMAT + 1])
    return version + blake2b(version + body, digest_size=16).digest() + body


HOSTILE_KEYS = (
    None, b"", b"P", b"X" + bytes(15), b"M\2" + bytes(8), b"P" + bytes(6) + b"\2" + bytes(8),
    PageKey(0, 0, 0, 0).encode() + b"\0", ManifestKey(0, 0).encode()[:-1], b"C" + bytes(15),
)  # fmt: skip


@pytest.mark.parametrize("key", HOSTILE_KEYS, ids=repr)
def test_an_invalid_key_is_rejected(key: bytes | None) -> None:
    with pytest.raises(WireError):
        decode_state_key(key)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", Reason.MALFORMED),
        (b"\2" + bytes(7), Reason.MALFORMED),
        (b"\2" + bytes(8) + bytes(PAGE_BYTES + 1), Reason.MALFORMED),
        (b"\3" + bytes(9), Reason.UNKNOWN_VERSION),
    ],
    ids=["empty", "short", "long", "newer"],
)
def test_an_invalid_page_is_rejected(value: bytes, reason: Reason) -> None:
    with pytest.raises(WireError) as raised:
        decode_page(value)
    assert raised.value.reason is reason


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_random_bytes_raise_only_wire_errors(key: bytes, value: bytes) -> None:
    for decode, data in ((decode_state_key, key), (decode_page, value), (decode_manifest, value)):
        try:
            decode(data)
        except WireError:
            continue
