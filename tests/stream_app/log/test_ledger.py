"""The ledger counts every record from the start of the log, and can be loaded from arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.log.ledger import RATINGS, Ledger
from stream_app.state.erasures import ErasedDevices, words_of
from stream_app.wire import REASON_CODE, REASONS, Batch, Reason
from stream_app.wire.state_records import StateOrigin, ledger_root

NOTHING = dict.fromkeys(RATINGS, 0)
RUNS = st.lists(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=8), max_size=6)


def entered(ledger: Ledger, partition: int, outcomes: list[int]) -> None:
    codes = np.array(outcomes, np.uint8)
    reasons = np.where(codes > 1, REASON_CODE[Reason.BAD_ITEM], 0).astype(np.uint8)
    ledger.add(partition, codes, reasons, NOTHING | {"learned": 2}, 1, 2**64 - 1, len(outcomes))


@given(runs=RUNS, start=st.integers(0, 2**62), holes=st.integers(0, 5))
def test_every_offset_from_the_start_on_is_a_record_or_absent(
    runs: list[list[int]], start: int, holes: int
) -> None:
    ledger = Ledger(2, (start, 3))
    for outcomes in runs:
        entered(ledger, 0, outcomes)
    records = sum(map(len, runs))
    ledger.end_round((start + records + holes, 3))
    assert ledger.absent.tolist() == [holes, 0]
    covered = ledger.records.sum(axis=1) + ledger.absent
    assert covered.tolist() == (ledger.ends - ledger.starts).tolist()
    malformed = sum(outcome > 1 for outcomes in runs for outcome in outcomes)
    assert ledger.reasons.sum() == malformed
    assert ledger.rejected() == ({"bad_item": malformed} if malformed else {})
    assert ledger.counts()["rejected"] == malformed


def test_a_fresh_ledger_has_nothing_absent() -> None:
    assert Ledger(2, (7, 9)).counts()["absent"] == 0
    assert Ledger(2, (7, 9)).ends.tolist() == [7, 9]


def test_a_ledger_needs_one_start_per_partition_or_none() -> None:
    with pytest.raises(ValueError, match="1 starts for 2 partitions"):
        Ledger(2, (7,))


def used() -> Ledger:
    ledger = Ledger(2, (7, 9))
    entered(ledger, 1, [0, 1, 2, 3, 3])
    ledger.forget(words_of(bytes(range(16))))
    ledger.end_round((8, 20))
    return ledger


def test_a_ledger_loaded_from_arrays_has_the_same_digest_and_continues_alike() -> None:
    original, loaded = used(), Ledger(2)
    loaded.load({name: array.copy() for name, array in original.arrays().items()})
    for ledger in (original, loaded):
        entered(ledger, 0, [0, 3])
        ledger.forget(words_of(bytes(16)))
        ledger.end_round((12, 21))
    assert ledger_root("d", original.small_arrays()) == ledger_root("d", loaded.small_arrays())
    assert ledger_root("d", original.small_arrays()) != ledger_root("d", used().small_arrays())


def test_a_ledger_copies_the_loaded_arrays() -> None:
    original, loaded = used(), Ledger(2)
    loaded.load(original.arrays())
    entered(original, 0, [0])
    assert loaded.records[0].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("records", np.zeros((3, 4), np.int64)),
        ("records", np.zeros((2, 4), np.float64)),
        ("reasons", np.zeros((2, len(REASONS) - 1), np.int64)),
        ("forgotten", np.zeros((4, 3), np.uint64)),
        ("forgotten", np.zeros(4, np.uint64)),
        ("forgotten", np.uint64(4)),
        ("more", np.zeros(1)),
    ],
)
def test_a_ledger_of_another_form_is_refused(name: str, array: np.ndarray) -> None:
    ledger = used()
    before = ledger_root("", ledger.small_arrays())
    with pytest.raises(ValueError, match=f"array.*{name}"):
        ledger.load(ledger.arrays() | {name: np.asarray(array)})
    assert ledger_root("", ledger.small_arrays()) == before


# --- whose records are refused -----------------------------------------------------------------

WORD = st.integers(0, 3) | st.just(2**64 - 1)
DEVICES = st.lists(st.tuples(WORD, WORD), max_size=20)


def batch_of(devices: list[tuple[int, int]], malformed: list[bool]) -> Batch:
    n, none = len(devices), np.empty(0, np.uint8)
    words = np.array(devices, np.uint64).reshape(n, 2)
    reasons = np.array(malformed[:n] + [False] * (n - len(malformed)), np.uint8)
    zeros = np.zeros(n, np.int64)
    return Batch(
        0, zeros, zeros, words, zeros, zeros.astype(np.uint8), zeros, reasons, zeros,
        none.astype(np.uint64), none, none.astype(np.uint16),
    )  # fmt: skip


@given(
    from_ledger=DEVICES,
    excluded=DEVICES,
    later=DEVICES,
    sent=DEVICES,
    malformed=st.lists(st.booleans()),
)
def test_exactly_the_forgotten_devices_are_rejected(
    from_ledger: list[tuple[int, int]],
    excluded: list[tuple[int, int]],
    later: list[tuple[int, int]],
    sent: list[tuple[int, int]],
    malformed: list[bool],
) -> None:
    """Forgotten devices come from a ledger, from the origin, or one by one; the result is equal."""
    ledger = Ledger(1)
    for pair in set(from_ledger):
        ledger.forget(np.array(pair, np.uint64))
    hexes = [np.array(pair, "<u8").tobytes().hex() for pair in excluded]
    forgotten = ErasedDevices(StateOrigin(0, (0,), excluded=tuple(sorted(set(hexes)))), ledger)
    known = set(from_ledger) | set(excluded)
    for pair in later:
        assert forgotten.add(np.array(pair, np.uint64)) == (pair not in known)
        known.add(pair)
    batch = batch_of(sent, malformed)
    wanted = [
        int(reason) or (REASON_CODE[Reason.FORGOTTEN] if pair in known else 0)
        for pair, reason in zip(sent, batch.reasons, strict=True)
    ]
    before = batch.reasons.copy()
    assert forgotten.reasons(batch).tolist() == wanted
    assert batch.reasons.tolist() == before.tolist()
    listed = [tuple(pair) for pair in ledger.forgotten.tolist()]
    assert len(listed) == len(set(listed))
    assert set(listed) == known - (set(excluded) - set(from_ledger))


def test_without_forgotten_devices_nothing_is_looked_up_or_copied() -> None:
    batch = batch_of([(1, 2)], [])
    assert ErasedDevices(StateOrigin(0, (0,)), Ledger(1)).reasons(batch) is batch.reasons
