"""The version of the event format: a function of the cut log, wherever a reader starts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.log.canonical_order import Rounds, Start
from stream_app.log.cut_clock import Clock
from stream_app.wire import Contract, Cut, Entry
from stream_app.wire.limits import CONTRACT

ZERO = (0, (0, 0))


@st.composite
def cut_logs(draw: st.DrawFn) -> list[Entry]:
    """Return cuts of one partition, each one record further, with contracts anywhere between."""
    contracts = st.lists(st.integers(1, 5).map(Contract), max_size=2)
    entries: list[Entry] = []
    for number in range(1, draw(st.integers(2, 7))):
        entries += [*draw(contracts), Cut(number, (number,), 0)]
    return entries + draw(contracts)


def versions(log: list[Entry], start: Start) -> dict[int, int]:
    """Return the version by which each record after the start is decoded."""
    rounds, found = Rounds(1, start), {}
    for place, entry in enumerate(log):
        if place >= start.cut_offset:
            rounds.take(entry, place)
    for offset in range(start.end_offsets[0], len(log)):
        rounds.deliver(0, offset, b"k", b"v")
    while (step := rounds.step()) is not None:
        if step.run is not None:
            found.update(dict.fromkeys(step.run.offsets, rounds.contract))
    return found


@settings(max_examples=200, deadline=None)
@given(cut_logs(), st.data())
def test_a_record_is_decoded_by_one_version_wherever_a_reader_starts(
    log: list[Entry], draw: st.DataObject
) -> None:
    expected, newest, before = {}, 1, Start(0, (0,))
    starts = [before]
    for place, entry in enumerate(log):
        if isinstance(entry, Contract):
            newest = max(newest, entry.version)
        elif isinstance(entry, Cut):
            expected[entry.number - 1] = newest
            starts += [
                Start(entry.number, entry.end_offsets, place + 1, newest),
                Start(entry.number, entry.end_offsets, 0, newest),
                Start(entry.number, entry.end_offsets),
            ]
    start = draw.draw(st.sampled_from(starts))
    assert versions(log, start) == {o: v for o, v in expected.items() if o >= start.cut}


def test_a_version_of_no_effect_is_no_step() -> None:
    rounds = Rounds(1)
    for entry in (Contract(2), Contract(1), Contract(2), Cut(1, (1,), 0)):
        rounds.take(entry, rounds._next_offset)
    assert rounds.newest_contract == 2
    rounds.deliver(0, 0, b"k", b"v")
    steps = [rounds.step() for _ in range(3)]
    assert [step.entry for step in steps if step and step.entry] == [Contract(2)]
    assert rounds.step() is None


def test_the_clock_of_a_new_log_writes_the_newest_version_before_its_first_cut() -> None:
    clock = Clock(patience_seconds=5.0)
    clock.acquire()
    clock.at_end_of_cuts()
    assert clock.due(1.0, ZERO, (0, 0), 0, contract=1) is None
    assert clock.due(1.0, ZERO, (1, 0), 0, contract=1) == Contract(CONTRACT)
    assert clock.due(2.0, ZERO, (1, 0), 0, contract=1) is None
    assert clock.due(6.5, ZERO, (1, 0), 0, contract=1) == Contract(CONTRACT)
    assert clock.due(6.6, ZERO, (1, 0), 0, contract=CONTRACT) == Cut(1, (1, 0), 0)


def test_the_clock_of_a_log_with_cuts_leaves_the_version_alone() -> None:
    clock = Clock()
    clock.acquire()
    clock.at_end_of_cuts()
    assert isinstance(clock.due(1.0, (1, (1, 0)), (2, 0), 0, contract=1), Cut)


def test_a_version_waits_for_the_next_cut_as_the_state_at_a_cut_holds_it() -> None:
    rounds = Rounds(1)
    rounds.take(Contract(2), 0)
    assert rounds.step() is None
    assert (rounds.contract, rounds.newest_contract) == (1, 2)
    rounds.take(Cut(1, (1,), 0), 1)
    step = rounds.step()
    assert step is not None
    assert step.entry == Contract(2)
