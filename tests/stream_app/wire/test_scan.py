"""The scanner of JSON events accepts nothing that the parser refuses, and writes the same columns.

`decode` of each record alone, which knows no scanner, is the reference.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_app import wire
from stream_app.kernels.stream.event_text import scan_events
from stream_app.wire import Event, Intake, RecordRun, WireError
from stream_app.wire import batch_decoding as batches
from stream_app.wire.ids import partition_of
from stream_app.wire.signatures import Signatures, SigningKey
from tests.stream_app.wire.test_contract import (
    DEVICE,
    EVENT,
    GOLDEN_JSON,
    GOLDEN_PACKED,
    INTAKE,
    NOT_EVENTS,
    PARTITION,
    json_event,
)

SINGLE = json_event(items=[1193], reports=[4])
CANONICAL = [
    GOLDEN_JSON,
    SINGLE,
    json_event(mechanism="none:5:inf", items=[0], reports=[0], epoch=0, seq=1),
    json_event(items=[2**63 - 1], reports=[4], epoch=2**32 - 1, seq=2**62),
    json_event(items=[2**63 - 1] * 4096, reports=[3] * 4096),
]


def scanned(run: RecordRun, intake: Intake = INTAKE) -> bool:
    found = batches._scanned(run, batches._sizes(run.values), intake, scan_events)
    return found is not None


def run_of(values: list[bytes | None], key: bytes | None = EVENT.key) -> RecordRun:
    return RecordRun(PARTITION, range(len(values)), [key] * len(values), values)


def alone(
    key: bytes | None, value: bytes | None, partition: int, intake: Intake
) -> tuple[Event | None, wire.Reason]:
    """Decode one record without the scanner, or return the reason for its rejection."""
    try:
        return wire.decode(key, value, partition, intake), wire.Reason.ACCEPTED
    except WireError as error:
        return None, error.reason


def agrees(run: RecordRun, intake: Intake = INTAKE) -> None:
    """Fail unless a run decodes with the scanner as its records do one by one."""
    batch = wire.decode_many(run, intake, scan_events)
    expected: list[Event] = []
    for i, (key, value) in enumerate(zip(run.keys, run.values, strict=True)):
        event, reason = alone(key, value, run.partition, intake)
        assert wire.REASONS[batch.reasons[i]] is reason
        if event is None:
            continue
        assert (batch.devices[i].astype("<u8").tobytes(), batch.seqs[i]) == (
            event.device,
            event.seq,
        )
        assert list(intake.mechanisms)[batch.mechanisms[i]] == event.mechanism
        assert (batch.epochs[i], batch.counts[i]) == (event.epoch, len(event.items))
        expected.append(event)
    assert batch.items.tolist() == [k for event in expected for k in event.items.tolist()]
    assert batch.reports.tolist() == [r for event in expected for r in event.reports.tolist()]
    parsed = wire.decode_many(run, intake)
    for field in fields(batch):
        ours, theirs = getattr(batch, field.name), getattr(parsed, field.name)
        if isinstance(ours, np.ndarray):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("value", CANONICAL, ids=range(len(CANONICAL)))
def test_what_our_encoder_writes_is_scanned(value: bytes) -> None:
    for count in (1, 3):
        assert scanned(run_of([value] * count))
        agrees(run_of([value] * count))
    assert scanned(run_of(list(CANONICAL)))
    agrees(run_of(list(CANONICAL)))


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 2**62),
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 4)), min_size=1, max_size=30),
    st.sampled_from(sorted(INTAKE.mechanisms)),
)
def test_every_event_of_integers_is_scanned(
    seq: int, epoch: int, ratings: list[tuple[int, int]], mechanism: str
) -> None:
    items, reports = zip(*ratings, strict=True)
    event = Event(
        DEVICE, seq, mechanism, epoch, np.array(items, np.uint64), np.array(reports, np.uint8)
    )
    run = run_of([wire.encode_json(event), SINGLE])
    assert scanned(run)
    agrees(run)


OTHERS = [
    *(value for _, value, _ in NOT_EVENTS),
    GOLDEN_PACKED,
    json_event(items=["a", 2]),
    json_event(x={"more": 1}),
    json_event(test=False),
    SINGLE.replace(b'"seq":7', b'"seq":07'),
    SINGLE.replace(b'"seq":7', b'"seq":+7'),
    SINGLE.replace(b'"seq":7', b'"seq":7.0'),
    SINGLE.replace(b'"seq":7', b'"seq":7e0'),
    SINGLE.replace(b'"seq":7', b'"seq":-0'),
    SINGLE.replace(b'"seq":7', b'"seq":'),
    SINGLE.replace(b'"seq":7', b'"seq":7,"seq":7'),
    SINGLE.replace(b'"seq":7', b'"seq": 7'),
    SINGLE.replace(b'"seq":7', b'"seq":"7"'),
    SINGLE.replace(b"20000", b"-0"),
    SINGLE.replace(b"20000", b"4294967296"),
    SINGLE.replace(b'"seq":7', b'"seq":4611686018427387905'),
    SINGLE.replace(b"1193", b"-0"),
    SINGLE.replace(b"1193", b"-1"),
    SINGLE.replace(b"1193", b"00"),
    SINGLE.replace(b"1193", b"9223372036854775808"),
    SINGLE.replace(b"1193", b"18446744073709551616"),
    SINGLE.replace(b"1193", b"18446744073709552809"),  # 1193 modulo 2^64
    SINGLE.replace(b"1193", b"100000000000000000001193"),
    SINGLE.replace(b"1193", b"1193,"),
    SINGLE.replace(b"1193", b",1193"),
    SINGLE.replace(b"1193", b"1193,5"),
    SINGLE.replace(b"[4]", b"[5]"),
    SINGLE.replace(b"[4]", b"[256]"),
    SINGLE.replace(b"[4]", b"[260]"),
    SINGLE.replace(b"[4]", b"[-0]"),
    SINGLE.replace(b"[4]", b"[4,]"),
    SINGLE.replace(b"[4]", b"[]"),
    SINGLE.replace(b"rr:5:2", b"rr:5:"),
    SINGLE.replace(b"rr:5:2", b"rr:5:22"),
    SINGLE.replace(b"rr:5:2", b""),
    SINGLE.replace(b"rr:5:2", b"rr:5\\u003a2"),
    SINGLE.replace(b"rr:5:2", b"rr:5:2\x00"),
    SINGLE.replace(b"000102", b"00\\u0030102"),
    SINGLE.replace(b'"v":1', b'"v":1.0'),
    SINGLE.replace(b'"v":1', b'"v":2'),
    SINGLE.replace(b'"v":1', b'"v":1,"v":1'),
    SINGLE.replace(b'"v"', b'"\\u0076"'),
    *(SINGLE + tail for tail in (b" ", b"\x00", b"\n", b"}", b",", SINGLE)),
    *(head + SINGLE for head in (b" ", b"\x00", b"\xef\xbb\xbf", b"\xc1")),
    *(SINGLE[:cut] for cut in range(0, len(SINGLE), 7)),
]


@pytest.mark.parametrize("value", OTHERS, ids=range(len(OTHERS)))
def test_every_other_record_has_the_verdict_of_the_parser(value: bytes | None) -> None:
    for values in ([value], [SINGLE, value], [value, SINGLE], [GOLDEN_JSON, value, SINGLE]):
        assert not scanned(run_of(values))
        agrees(run_of(values))


@pytest.mark.thorough
@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(CANONICAL[:4]), st.data())
@example(SINGLE, None)
def test_bytes_changed_added_or_left_out_have_the_verdict_of_the_parser(
    value: bytes, data: st.DataObject | None
) -> None:
    changed = bytearray(value)
    bytes_likely = st.sampled_from(b'0123456789abcdefAF",:[]{}-+.eE \\\x00\t\x80\xff')
    for _ in range(0 if data is None else data.draw(st.integers(1, 4))):
        assert data is not None
        place = data.draw(st.integers(0, len(changed) - 1))
        new = data.draw(st.one_of(bytes_likely, st.integers(0, 255)))
        how = data.draw(st.sampled_from(["change", "add", "leave out"]))
        if how == "change":
            changed[place] = new
        elif how == "add":
            changed.insert(place, new)
        else:
            del changed[place]
    agrees(run_of([SINGLE, bytes(changed), GOLDEN_JSON]))
    agrees(run_of([bytes(changed)]))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*CANONICAL[:4], *OTHERS[45:]]), max_size=6))
def test_runs_of_both_have_the_verdicts_of_their_records(values: list[bytes | None]) -> None:
    agrees(run_of(values))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(SINGLE) - 1), st.integers(-2, 2))
def test_a_record_that_is_cut_elsewhere_is_refused(place: int, moved: int) -> None:
    """The bytes of two records joined are those of two events, and the records are not."""
    both = SINGLE + SINGLE
    at = max(1, len(SINGLE) + (moved or place))
    run = run_of([both[:at], both[at:]])
    assert not scanned(run) or both[:at] == SINGLE
    agrees(run)


def test_a_key_that_is_not_the_device_is_refused() -> None:
    for key in (None, b"", EVENT.key.upper(), EVENT.key[:-1], b"0" * 32, DEVICE):
        assert not scanned(run_of([SINGLE], key))
        agrees(run_of([SINGLE], key))
    shifted = RecordRun(PARTITION, [0, 1], [EVENT.key[:-1], EVENT.key + b"f"], [SINGLE] * 2)
    agrees(shifted)
    capitals = SINGLE.replace(EVENT.key, EVENT.key.upper())
    assert not scanned(run_of([capitals], EVENT.key.upper()))
    agrees(run_of([capitals], EVENT.key.upper()))


def test_partitions_are_those_of_kafka() -> None:
    rng = np.random.default_rng(3)
    for partitions in (1, 4, 12):
        intake = replace(INTAKE, partitions=partitions)
        for _ in range(30):
            event = replace(EVENT, device=rng.bytes(16))
            home = partition_of(event.key, partitions)
            for partition in range(partitions):
                run = RecordRun(partition, [0], [event.key], [wire.encode_json(event)])
                assert scanned(run, intake) == (partition == home)
                agrees(run, intake)


def test_mechanisms_with_masks_or_unusual_names_are_left_to_the_parser() -> None:
    masked = Intake({"rr:5:2": 5, "none:5:inf": 5}, masked={"rr:5:2": 5})
    assert not scanned(run_of([SINGLE]), masked)
    agrees(run_of([SINGLE]), masked)
    only = Intake({"rr:5:2": 5}, masked={"rr:5:2": 5})
    assert not scanned(run_of([SINGLE]), only)
    for name in ('a"b', "a\\b", "ä", "x" * 65, "tab\t", ""):
        intake = Intake({name: 5, "none:5:inf": 5})
        run = run_of([json_event(mechanism=name)])
        assert not scanned(run, intake)
        agrees(run, intake)
        raw = run_of([SINGLE.replace(b"rr:5:2", name.encode())])
        assert not scanned(raw, intake)
        agrees(raw, intake)
        assert scanned(run_of([json_event(mechanism="none:5:inf")]), intake)


def test_an_unsigned_event_is_refused_where_signatures_are_required() -> None:
    required = replace(INTAKE, signatures=Signatures("t", required=True))
    agrees(run_of([SINGLE, GOLDEN_JSON]), required)
    batch = wire.decode_many(run_of([SINGLE]), required, scan_events)
    assert wire.REASONS[batch.reasons[0]] is wire.Reason.BAD_SIGNATURE


def test_signed_events_are_scanned_without_their_envelopes() -> None:
    pair = SigningKey.from_seed(bytes(32))
    event = replace(EVENT, device=pair.pseudonym)
    intake = replace(INTAKE, signatures=Signatures("t", required=True), partitions=1)
    sealed = pair.seal("t", wire.encode_json(event))
    keys, values = [event.key] * 3, [sealed, sealed[:-1], sealed]
    agrees(RecordRun(0, range(3), keys, values), intake)
    agrees(RecordRun(0, range(2), keys[:2], [sealed] * 2), intake)
