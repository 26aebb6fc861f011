"""Signed events: the same verdict of both decoders, on every library that may decide it."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app import wire
from stream_app.wire import Intake, Reason, RecordRun, WireError
from stream_app.wire import batch_decoding as batches
from stream_app.wire.signatures import HEAD_BYTES, Signatures, SigningKey, vectors
from stream_app.wire.signatures.envelope import verify_each
from tests.fixtures.crafted_signatures import crafted_signatures
from tests.fixtures.signed_devices import TOPIC, signed, signing_key
from tests.fixtures.streams import Published, publish
from tests.naive import ed25519
from tests.stream_app.wire.test_contract import EVENT

KEY, OTHER = signing_key(1), signing_key(2)
MECHANISMS = {"rr:5:2": 5, "none:5:inf": 5}
SIGNED = Intake(MECHANISMS, signatures=Signatures(TOPIC, required=True))
OPEN = Intake(MECHANISMS, signatures=Signatures(TOPIC))
GOOD = signed(EVENT, KEY)
EPOCH = (GOOD.value or b"").index(b"epoch") + 7  # a byte of it
BARE = publish(replace(EVENT, device=KEY.pseudonym))


def of(value: bytes | None) -> Published:
    return replace(GOOD, value=value)


def flipped(place: int) -> Published:
    changed = bytearray(GOOD.value or b"")
    changed[place] ^= 1
    return of(bytes(changed))


# What a server that requires signatures says, and what an open one says.
RECORDS = {
    "packed": (GOOD, None, None),
    "json": (signed(EVENT, KEY, json=True), None, None),
    "bare": (BARE, Reason.BAD_SIGNATURE, None),
    "of another topic": (signed(EVENT, KEY, topic="x"), Reason.BAD_SIGNATURE, None),
    "by another device": (signed(EVENT, OTHER, victim=KEY), *[Reason.BAD_SIGNATURE] * 2),
    "a bit of the key": (flipped(1), *[Reason.BAD_SIGNATURE] * 2),
    "a bit of the signature": (flipped(40), Reason.BAD_SIGNATURE, None),
    "a bit of the event": (
        flipped((GOOD.value or b"").index(b"epoch") + 7),
        Reason.BAD_SIGNATURE,
        None,
    ),
    "cut short": (of((GOOD.value or b"")[: HEAD_BYTES - 1]), *[Reason.BAD_SIGNATURE] * 2),
    "one byte": (of(b"\xc1"), *[Reason.BAD_SIGNATURE] * 2),
    "another record key": (replace(GOOD, key=b"0" * 32), *[Reason.BAD_SIGNATURE] * 2),
    "no record key": (replace(GOOD, key=None), *[Reason.BAD_SIGNATURE] * 2),
    "without an event": (of(KEY.seal(TOPIC, b"")), *[Reason.EMPTY] * 2),
    "two envelopes": (of(KEY.seal(TOPIC, GOOD.value or b"")), *[Reason.MALFORMED] * 2),
    "another device inside": (
        of(KEY.seal(TOPIC, wire.encode(replace(EVENT, device=OTHER.pseudonym)))),
        *[Reason.KEY_MISMATCH] * 2,
    ),
    "nothing": (of(None), *[Reason.EMPTY] * 2),
    "too large": (of(b"\xc1" + bytes(wire.MAX_EVENT_BYTES)), *[Reason.TOO_LARGE] * 2),
}


def verdict(record: Published, intake: Intake) -> Reason | None:
    try:
        wire.decode(record.key, record.value, GOOD.partition, intake)
    except WireError as error:
        return error.reason
    return None


@pytest.mark.parametrize(("record", "required", "open_"), RECORDS.values(), ids=RECORDS)
def test_a_record_is_taken_or_rejected(
    record: Published, required: Reason | None, open_: Reason | None
) -> None:
    assert verdict(record, SIGNED) is required
    assert verdict(record, OPEN) is open_


@settings(deadline=None, max_examples=150)
@given(names=st.lists(st.sampled_from(sorted(RECORDS)), max_size=8), required=st.booleans())
def test_a_batch_decodes_like_its_records_one_by_one(names: list[str], required: bool) -> None:
    intake = SIGNED if required else OPEN
    records = [RECORDS[name][0] for name in names]
    batch = wire.decode_many(
        RecordRun(
            GOOD.partition,
            range(7, 7 + len(records)),
            [record.key for record in records],
            [record.value for record in records],
        ),
        intake,
    )
    expected = [verdict(record, intake) or Reason.ACCEPTED for record in records]
    assert [wire.REASONS[code] for code in batch.reasons] == expected
    accepted = [reason is Reason.ACCEPTED for reason in expected]
    assert batch.counts.tolist() == [2 * taken for taken in accepted]
    assert batch.items.tolist() == EVENT.items.tolist() * sum(accepted)
    assert batch.seqs.tolist() == [EVENT.seq * taken for taken in accepted]
    assert batch.sizes.tolist() == [len(record.value or b"") for record in records]
    assert batch.offsets.tolist() == list(range(7, 7 + len(records)))


def test_one_bad_signature_does_not_slow_the_rest_of_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(*_: object) -> None:
        raise AssertionError("record by record")

    monkeypatch.setattr(batches, "_decode_each", slow)
    run = RecordRun(
        GOOD.partition, [0, 1, 2], [GOOD.key] * 3, [GOOD.value, flipped(40).value, GOOD.value]
    )
    assert wire.decode_many(run, SIGNED).counts.tolist() == [2, 0, 2]


# --- the library ----------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_vectors_are_those_of_whole_numbers_and_the_library_agrees() -> None:
    made = [
        (what, key.hex(), signature.hex(), taken)
        for what, key, signature, taken in crafted_signatures()
    ]
    assert made == list(vectors.VECTORS)
    assert vectors.library_agrees()


@pytest.mark.parametrize("place", range(len(vectors.VECTORS)))
def test_a_library_with_other_rules_is_noticed(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(claims: list[tuple[bytes, bytes, bytes]]) -> np.ndarray:
        found = verify_each(claims)
        found[place] = ~found[place]
        return found

    monkeypatch.setattr(vectors, "verify_each", lenient)
    assert not vectors.library_agrees()


def test_a_key_pair_its_signature_and_its_pseudonym_are_those_of_the_standard() -> None:
    seed, message = b"s" * 32, b"murmurec event 1\0t\0event"
    public, signature = ed25519.crafted(seed, message)
    key = SigningKey.from_seed(seed)
    assert key.seal("t", b"event") == b"\xc1" + public + signature + b"event"
    assert key.pseudonym == sha256(public).digest()[:16]
    assert "secret" not in repr(key)


def test_the_reference_shows_what_this_code_makes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference.md").read_text(encoding="utf-8")
    key = SigningKey.from_seed(bytes(32))
    value = key.seal("murmurec.ratings.v1", b"{}")
    assert f"`{key.pseudonym.hex()}`" in page
    assert f"`{value[33:HEAD_BYTES].hex()}`" in page


def test_a_seed_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="seed of 31 bytes"):
        SigningKey.from_seed(bytes(31))
