"""A contribution on the wire: one form, a reason for every other bytes, nothing but a size seen."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.campaigns.sealing import box_bytes
from stream_app.wire import Reason, WireError, partitions_of
from stream_app.wire.campaigns.contribution import (
    Contribution,
    box_context,
    decode_contribution,
    encode_contribution,
)
from stream_app.wire.ids import partition_of
from stream_app.wire.limits import (
    MAX_CONTRIBUTION_BATCH_BYTES,
    MAX_CONTRIBUTION_BYTES,
    MAX_INTEGERS,
)
from tests.stream_app.wire.campaigns.plans import campaign, stage

DEVICE = bytes(range(16))
PLAN = campaign().digest
GOOD = Contribution(PLAN, 1, DEVICE, (bytes(112), bytes(104)))
PARTITION = int(partitions_of(np.frombuffer(GOOD.key, np.uint8).reshape(1, 32), 4)[0])


def reason(value, key=GOOD.key, partition=PARTITION):
    with pytest.raises(WireError) as error:
        decode_contribution(key, value, partition, 4)
    return error.value.reason


def fields(**changes):
    return msgspec.msgpack.encode(msgspec.to_builtins(GOOD, builtin_types=(bytes,)) | changes)


def test_a_contribution_survives_the_wire():
    assert decode_contribution(GOOD.key, encode_contribution(GOOD), PARTITION, 4) == GOOD
    assert decode_contribution(GOOD.key, fields(), PARTITION, 4) == GOOD


BAD = {
    "nothing": (b"", Reason.EMPTY),
    "null": (None, Reason.EMPTY),
    "too large": (bytes(MAX_CONTRIBUTION_BYTES + 1), Reason.TOO_LARGE),
    "one byte short": (encode_contribution(GOOD)[:-1], Reason.MALFORMED),
    "one byte long": (encode_contribution(GOOD) + b"\0", Reason.MALFORMED),
    "a later version": (fields(v=2), Reason.UNKNOWN_VERSION),
    "no boxes": (fields(boxes=()), Reason.MALFORMED),
    "three boxes": (fields(boxes=(bytes(104),) * 3), Reason.MALFORMED),
    "a box without a context": (fields(boxes=(bytes(79),)), Reason.MALFORMED),
    "a short device": (fields(device=bytes(15)), Reason.MALFORMED),
    "a short digest": (fields(plan=bytes(31)), Reason.MALFORMED),
    "a negative stage": (fields(stage=-1), Reason.MALFORMED),
    "a stage that is true": (fields(stage=True), Reason.MALFORMED),
    "another field": (fields(rating=5), Reason.MALFORMED),
    "json": (b'{"v":1}', Reason.MALFORMED),
    "deep": (b"\x91" * 100_000, Reason.MALFORMED),
}


@pytest.mark.parametrize(("value", "expected"), BAD.values(), ids=BAD)
def test_other_bytes_are_rejected_with_a_reason(value, expected):
    assert reason(value) == expected


def test_a_record_of_another_key_or_partition_is_rejected():
    value = encode_contribution(GOOD)
    assert reason(value, key=bytes(16).hex().encode()) == Reason.KEY_MISMATCH
    assert reason(value, key=GOOD.key.upper()) == Reason.KEY_MISMATCH
    assert reason(value, key=None) == Reason.KEY_MISMATCH
    assert reason(value, partition=(PARTITION + 1) % 4) == Reason.WRONG_PARTITION


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_but_a_reason(value):
    assert reason(value) in (
        *(Reason.EMPTY, Reason.MALFORMED, Reason.UNKNOWN_VERSION, Reason.BAD_SIGNATURE),
    )


@given(st.binary(min_size=32, max_size=32), st.integers(1, 64))
def test_a_key_alone_has_the_partition_that_it_has_among_others(key, partitions):
    row = np.frombuffer(key, np.uint8).reshape(1, 32)
    assert partition_of(key, partitions) == partitions_of(row, partitions)[0]


def test_a_largest_contribution_is_below_the_limit_and_fits_in_its_topic():
    plan = campaign(stages=(stage(size=MAX_INTEGERS),))
    largest = Contribution(PLAN, 0, DEVICE, tuple(bytes(box_bytes(plan, 0, p)) for p in (0, 1)))
    assert len(encode_contribution(largest)) <= MAX_CONTRIBUTION_BYTES
    assert MAX_CONTRIBUTION_BYTES <= MAX_CONTRIBUTION_BATCH_BYTES * 3 // 4


def test_a_context_belongs_to_one_plan_stage_device_and_party():
    contexts = {
        box_context(plan, index, device, party)
        for plan in (PLAN, campaign(number=2).digest)
        for index in (0, 1)
        for device in (DEVICE, bytes(16))
        for party in (0, 1)
    }
    assert len(contexts) == 16
