"""Masks: required beside every report over a partition, refused for other mechanisms."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app import wire
from stream_app.wire import Event, Intake, Reason, RecordRun, WireError
from stream_app.wire import batch_decoding as batches

INTAKE = Intake({"rr:5:2": 5, "partition:5:2": 5}, masked={"partition:5:2": 5})
DEVICE = bytes(range(16))
ITEMS = np.array([1193, 661, 7], np.uint64)
EVENT = Event(
    DEVICE, 7, "partition:5:2", 20_000, ITEMS,
    np.array([1, 0, 4], np.uint8), masks=np.array([0b0100, 0b0001, 0b1111], np.uint16),
)  # fmt: skip
PLAIN = Event(DEVICE, 8, "rr:5:2", 20_000, ITEMS, np.array([1, 0, 4], np.uint8))
PARTITION = int(wire.partitions_of(np.frombuffer(EVENT.key, np.uint8).reshape(1, 32), 4)[0])
GOLDEN_JSON = (
    b'{"v":1,"device":"000102030405060708090a0b0c0d0e0f","seq":7,"mechanism":"partition:5:2",'
    b'"epoch":20000,"items":[1193,661,7],"reports":[1,0,4],"masks":[4,1,15]}'
)


def changed(packed: bool, event: Event = EVENT, **fields: object) -> bytes:
    codec = msgspec.msgpack if packed else msgspec.json
    value = codec.decode(wire.encode(event) if packed else wire.encode_json(event))
    value.update(fields)
    return codec.encode({name: field for name, field in value.items() if field is not ...})


def decode(value: bytes) -> Event:
    return wire.decode(EVENT.key, value, PARTITION, INTAKE)


def words(*masks: int) -> bytes:
    return np.array(masks, "<u2").tobytes()


def test_masks_round_trip_in_both_encodings() -> None:
    assert wire.encode_json(EVENT) == GOLDEN_JSON
    for value in (GOLDEN_JSON, wire.encode(EVENT)):
        event = decode(value)
        assert event.masks is not None
        assert event.masks.tolist() == [4, 1, 15]
        assert event.reports.tolist() == [1, 0, 4]
    assert decode(wire.encode(PLAIN)).masks is None


NOT_EVENTS = [
    (changed(False, masks=...), Reason.BAD_MASK),
    (changed(True, masks=...), Reason.BAD_MASK),
    (changed(False, masks=[4, 1]), Reason.LENGTH_MISMATCH),
    (changed(True, masks=words(4, 1)), Reason.LENGTH_MISMATCH),
    (changed(False, masks=[]), Reason.LENGTH_MISMATCH),
    (changed(True, masks=b""), Reason.LENGTH_MISMATCH),
    (changed(False, masks=[4, 1, 16]), Reason.BAD_MASK),
    (changed(True, masks=words(4, 1, 16)), Reason.BAD_MASK),
    (changed(True, masks=words(4, 0, 15)), Reason.BAD_MASK),
    (changed(True, masks=words(4, 1, 15)[:-1]), Reason.BAD_MASK),
    (changed(False, masks=[4, 0, 15]), Reason.MALFORMED),
    (changed(False, masks=[4, -1, 15]), Reason.MALFORMED),
    (changed(False, masks=[4, "1", 15]), Reason.MALFORMED),
    (changed(False, masks=[4, 1, 65536]), Reason.MALFORMED),
    (changed(False, masks=None), Reason.MALFORMED),
    (changed(False, reports=[2, 0, 4]), Reason.REPORT_OUTSIDE_ALPHABET),
    (changed(True, reports=bytes([1, 2, 4])), Reason.REPORT_OUTSIDE_ALPHABET),
    (changed(True, reports=bytes([1, 0, 5])), Reason.REPORT_OUTSIDE_ALPHABET),
    (changed(False, PLAIN, masks=[4, 1, 15]), Reason.BAD_MASK),
    (changed(True, PLAIN, masks=words(4, 1, 15)), Reason.BAD_MASK),
    (changed(True, PLAIN, masks=words(0, 0, 0)), Reason.BAD_MASK),
    (changed(False, PLAIN, masks=[]), Reason.BAD_MASK),
    (changed(True, PLAIN, masks=b""), Reason.BAD_MASK),
]


@pytest.mark.parametrize(("value", "reason"), NOT_EVENTS)
def test_an_event_with_an_invalid_mask_is_rejected(value: bytes, reason: Reason) -> None:
    with pytest.raises(WireError) as caught:
        decode(value)
    assert caught.value.reason is reason


def one(value: bytes) -> tuple[Event | None, Reason]:
    """Decode one record, or return the reason for its rejection."""
    try:
        return decode(value), Reason.ACCEPTED
    except WireError as error:
        return None, error.reason


GOOD = [wire.encode(EVENT), GOLDEN_JSON, wire.encode(PLAIN), wire.encode_json(PLAIN)]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*GOOD, *GOOD, *(value for value, _ in NOT_EVENTS)]), max_size=6))
def test_a_batch_decodes_like_its_records_one_by_one(values: list[bytes]) -> None:
    run = RecordRun(PARTITION, range(len(values)), [EVENT.key] * len(values), values)
    batch = wire.decode_many(run, INTAKE)
    at = 0
    for i, value in enumerate(values):
        event, reason = one(value)
        assert wire.REASONS[batch.reasons[i]] is reason
        if event is None:
            assert batch.counts[i] == 0
            continue
        end = at + int(batch.counts[i])
        masks = [0] * len(event.items) if event.masks is None else event.masks.tolist()
        assert batch.masks[at:end].tolist() == masks
        assert batch.reports[at:end].tolist() == event.reports.tolist()
        at = end
    assert at == len(batch.masks) == batch.ratings


@pytest.mark.parametrize("values", [GOOD[:1], GOOD[1:2], [GOOD[0], GOOD[2]], [GOOD[1], GOOD[3]]])
def test_valid_masks_are_decoded_in_columns(
    values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> None:
        raise AssertionError("record by record")

    monkeypatch.setattr(batches, "_decode_each", slow)
    run = RecordRun(PARTITION, range(len(values)), [EVENT.key] * len(values), values)
    assert wire.decode_many(run, INTAKE).ratings == 3 * len(values)


def test_invalid_levels_of_masks_are_refused() -> None:
    with pytest.raises(ValueError, match="masks are for"):
        Intake({"rr:5:2": 5}, masked={"partition:5:2": 5})
    with pytest.raises(ValueError, match="2 to 17 levels, not 18"):
        Intake({"partition:18:2": 18}, masked={"partition:18:2": 18})
    with pytest.raises(ValueError, match="one mask per item"):
        Event(DEVICE, 1, "partition:5:2", 1, ITEMS, np.zeros(3, np.uint8), masks=np.ones(2, "u2"))
