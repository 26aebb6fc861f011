"""A truncated log gives the order of the log without the superseded cuts, for every interleaving,
every start and every moment at which a reader learns of the truncation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.log.canonical_order import Rounds, Start, TailDiffers
from stream_app.log.cut_chain import Chain, Truncations, scan
from stream_app.wire import Aborted, Cut, DigestReport, Entry, Forget, Tail, Truncate, fingerprint
from stream_app.wire.campaigns.round_log import AbortReason

PARTITIONS = 2
ZERO = (0,) * PARTITIONS
DIGEST = "0" * 32
OF_A_CAMPAIGN = Aborted(plan=bytes(32), stage=0, reason=AbortReason.TOO_FEW)
_BEYOND = 100  # above every number in use

Steps = list[tuple[object, int]]


@dataclass
class Log:
    """Ends of the partitions, the cut log, and by offset the entries that are in force."""

    end_offsets: tuple[int, ...]
    entries: list[Entry]
    in_force: dict[int, Entry]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw a cut log with up to three truncations, and cuts and reports of frozen workers, which
    are written after the truncation that supersedes them."""
    entries: list[Entry] = []
    in_force: dict[int, Entry] = {}
    end_offsets = tuple(draw(st.integers(1, 8)) for _ in range(PARTITIONS))
    last_used, reached = 0, ZERO
    for truncations_left in reversed(range(draw(st.integers(0, 3)) + 1)):
        for _ in range(draw(st.integers(0, 4))):
            kept = draw(st.sampled_from(["cut", "forget", "both"]))
            if kept != "cut":
                forget = Forget(f"{len(entries):032x}")
                in_force[len(entries)] = draw(st.sampled_from([forget, OF_A_CAMPAIGN]))
                entries.append(in_force[len(entries)])
            if kept != "forget":
                # Beyond the end: the records were lost.
                limits = [e + 3 * (truncations_left > 0) for e in end_offsets]
                moved = tuple(
                    draw(st.integers(at, max(at, limit)))
                    for at, limit in zip(reached, limits, strict=True)
                )
                waits = isinstance(entries[-1], Forget | Aborted) if entries else False
                if moved == reached and not waits:
                    continue
                last_used, reached = last_used + 1, moved
                in_force[len(entries)] = Cut(last_used, moved, 0)
                entries.append(in_force[len(entries)])
        if truncations_left:
            chain = [(0, ZERO)] + [
                (e.number, e.end_offsets) for e in in_force.values() if isinstance(e, Cut)
            ]
            whole = [
                (number, ends)
                for number, ends in chain
                if all(e <= end for e, end in zip(ends, end_offsets, strict=True))
            ]
            to_cut, reached = draw(st.sampled_from(whole))
            newest = last_used + draw(st.integers(3, _BEYOND))
            late = [
                Cut(last_used + 1, tuple(e + 9 for e in end_offsets), 0),
                DigestReport(last_used + 2, DIGEST, DIGEST, "", DIGEST),
            ]
            entries += [Truncate(to_cut, newest), *draw(st.permutations(late))]
            in_force = {
                offset: entry
                for offset, entry in in_force.items()
                if not (isinstance(entry, Cut) and entry.number > to_cut)
            }
            last_used = newest
    in_force[len(entries)] = Cut(last_used + 1, end_offsets, 0)
    if reached == end_offsets:
        entries.append(Forget(DIGEST))
        in_force[len(entries) - 1] = entries[-1]
        in_force[len(entries)] = Cut(last_used + 1, end_offsets, 0)
    entries.append(in_force[len(entries)])
    return Log(end_offsets, entries, in_force)


def canonical(log: Log) -> Steps:
    """Return the order by definition: that of the entries in force, as if no other had been."""
    order: Steps = []
    before = ZERO
    for offset, entry in sorted(log.in_force.items()):
        if isinstance(entry, Cut):
            for p in range(PARTITIONS):
                order += [(p, o) for o in range(before[p], entry.end_offsets[p])]
            before = entry.end_offsets
        order.append((entry, offset + 1))
    return order


def scanned(log: Log, end: int) -> Truncations:
    kinds = ((o, e) for o, e in enumerate(log.entries[:end]) if isinstance(e, Cut | Truncate))
    return scan(kinds, margin=1)


def collect(rounds: Rounds, limit: int, out: Steps) -> None:
    while (step := rounds.step(limit)) is not None:
        if step.run is not None:
            out.extend((step.run.partition, offset) for offset in step.run.offsets)
        else:
            entry = step.cut or step.entry
            out.append((entry, step.cut_offset))


def read(draw: st.DataObject, log: Log, known: int, start: Start, out: Steps) -> int | None:
    """Read from `start` on, with the truncations of the first `known` entries; return the offset of
    a truncation that was not known, or None at the end of the log."""
    rounds = Rounds(PARTITIONS, start, scanned(log, known))
    pending = [[*range(start.end_offsets[p], log.end_offsets[p])] for p in range(PARTITIONS)]
    entries = [*enumerate(log.entries)][start.cut_offset :]
    while choices := [p for p in range(PARTITIONS) if pending[p]] + ([-1] if entries else []):
        choice = draw.draw(st.sampled_from(choices))
        if choice == -1:
            place, entry = entries.pop(0)
            rounds.take(entry, place)
            if rounds.truncated:
                assert isinstance(entry, Truncate)
                return place
        else:
            rounds.deliver(choice, pending[choice].pop(0), b"k", b"v")
        collect(rounds, draw.draw(st.integers(1, 3)), out)
    return None


@settings(max_examples=150, deadline=None)
@given(st.data(), logs())
def test_any_interleaving_gives_the_order_without_the_superseded_cuts(
    draw: st.DataObject, log: Log
) -> None:
    out: Steps = []
    start = Start(0, ZERO)
    known = draw.draw(st.integers(0, len(log.entries)), label="scanned")
    while (truncated := read(draw, log, known, start, out)) is not None:
        # The reader begins again, from a cut that it had applied or from the beginning.
        known = draw.draw(st.integers(truncated + 1, len(log.entries)), label="scanned again")
        truncations = scanned(log, known)
        states = [0] + [
            i + 1
            for i, (entry, _) in enumerate(out)
            if isinstance(entry, Cut) and not truncations.supersede(entry.number)
        ]
        at = draw.draw(st.sampled_from(states))
        superseded = [
            i
            for i, (entry, _) in enumerate(out)
            if isinstance(entry, Cut) and truncations.supersede(entry.number)
        ]
        at = at if not superseded or at <= superseded[0] else 0
        out = out[:at]
        start = Start(0, ZERO)
        if out:
            cut, cut_offset = out[-1]
            assert isinstance(cut, Cut)
            start = Start(cut.number, cut.end_offsets, cut_offset)
    assert [step for step in out if not isinstance(step[0], DigestReport)] == canonical(log)


def test_the_next_cut_has_a_number_beyond_the_superseded_ones() -> None:
    chain = Chain(5, (3,), Truncations((Truncate(5, 20), Truncate(20, 30), Truncate(90, 99)), 3))
    assert chain.last_used == 30
    assert not chain.take(Cut(6, (4,), 0))
    assert not chain.take(Cut(21, (4,), 0))
    assert chain.take(Cut(31, (4,), 0))
    assert chain.last_used == 31


def test_a_truncation_to_the_beginning_supersedes_every_cut() -> None:
    entries = [(0, Cut(1, (3,), 0)), (1, Cut(2, (5,), 0)), (2, Truncate(0, 9))]
    truncations = scan(entries, margin=7)
    assert not scan(entries, margin=8).entries
    assert truncations.supersede(1)
    assert truncations.supersede(9)
    assert not truncations.supersede(10)
    assert truncations.last_before(0) == 9


@pytest.mark.parametrize("entry", [Truncate(3, 99), Truncate(1, 1), Truncate(2, 0)], ids=str)
def test_an_absurd_truncation_has_no_effect(entry: Truncate) -> None:
    """It names a cut of the future, or supersedes nothing."""
    truncations = scan([(0, Cut(1, (3,), 0)), (1, Cut(2, (5,), 0)), (2, entry)], margin=1)
    assert truncations.end == 3
    assert not any(truncations.supersede(number) for number in range(100))
    assert truncations.last_before(2) == 2


def test_a_known_truncation_does_not_make_a_reader_begin_again() -> None:
    rounds = Rounds(1, None, Truncations((Truncate(0, 9),), 1))
    rounds.take(Truncate(0, 9), 0)
    assert not rounds.truncated
    rounds.take(Truncate(0, 19), 1)
    assert rounds.truncated


def test_a_forget_of_a_superseded_round_waits_for_the_next_cut() -> None:
    truncations = Truncations((Truncate(0, 9),), 9)
    rounds = Rounds(1, None, truncations)
    rounds.take(Forget(DIGEST), 0)
    rounds.take(Cut(1, (5,), 0), 1)
    assert rounds.entry_waits
    assert rounds.last_used == (9, (0,))
    assert rounds.step() is None
    assert rounds.take(Cut(10, (0,), 0), 2)
    step = rounds.step()
    assert step is not None
    assert step.entry == Forget(DIGEST)


# --- fingerprints ---------------------------------------------------------------------------------


def clock_and_reader(records: int, epoch: int = 3) -> tuple[Rounds, Cut]:
    """Return the rounds of a clock that received so many records, and its cut."""
    clock = Rounds(2)
    for offset in range(records):
        clock.deliver(0, offset, b"k", b"%d" % offset, epoch)
    ends = (records, 0)
    return clock, Cut(1, ends, 0, tails=clock.tails_below(ends))


def read_cut(cut: Cut, values: list[bytes], epoch: int = 3) -> tuple[Tail | None, ...]:
    """Read the records and their cut; return the tails of the round."""
    rounds = Rounds(2)
    for offset, value in enumerate(values):
        rounds.deliver(0, offset, b"k", value, epoch)
    own = Tail(7, "a" * 16)
    assert rounds.take(cut, 0, own)
    while (step := rounds.step(2)) is not None:
        if step.cut is not None:
            assert step.tails[-1] == own
            return step.tails[:-1]
    raise AssertionError("the round did not end")


def test_a_reader_gets_the_tails_of_the_clock() -> None:
    _, cut = clock_and_reader(5)
    assert cut.tails == (fingerprint(4, 3, b"k", b"4"), "")
    values = [b"%d" % offset for offset in range(5)]
    assert read_cut(cut, values) == (Tail(4, cut.tails[0]), None)
    assert read_cut(cut, [*values, b"later"]) == (Tail(4, cut.tails[0]), None)


@pytest.mark.parametrize(
    ("last", "epoch"), [(b"other", 3), (b"4", 4)], ids=["another record", "a later epoch"]
)
def test_a_log_that_was_filled_again_is_recognised(last: bytes, epoch: int) -> None:
    _, cut = clock_and_reader(5)
    with pytest.raises(TailDiffers, match=r"offset 4 of partition 0 holds another record .* cut 1"):
        read_cut(cut, [b"0", b"1", b"2", b"3", last], epoch)


def test_tails_do_not_depend_on_what_was_taken_already() -> None:
    clock, cut = clock_and_reader(6)
    ends = ((3, 0), (6, 0), (6, 0))
    wanted = [clock.tails_below(each) for each in ends]
    clock.take(Cut(1, (3, 0), 0, tails=wanted[0]), 0)
    while clock.step(1) is not None:
        pass
    assert [clock.tails_below(each) for each in ends] == wanted
    assert wanted[1] == cut.tails


def test_a_clock_that_has_not_received_everything_below_a_cut_gives_no_tail() -> None:
    """A new owner catches up in one partition while it cuts another one on."""
    clock = Rounds(2)
    clock.deliver(0, 0, b"k", b"0")
    assert clock.tails_below((3, 0)) == ("", "")
    clock.deliver(0, 1, b"k", b"1")
    clock.reached(0, 3)
    assert clock.tails_below((3, 0)) == (fingerprint(1, -1, b"k", b"1"), "")


def test_a_start_gives_the_tails_of_partitions_that_do_not_move() -> None:
    known = Tail(8, "b" * 16)
    rounds = Rounds(2, Start(4, (9, 0), 4, tails=(known, None, None)))
    assert rounds.tails_below((9, 0)) == (known.fingerprint, "")
    rounds.deliver(1, 0, b"k", b"v")
    cut = Cut(5, (9, 1), 0, tails=rounds.tails_below((9, 1)))
    rounds.take(cut, 4)
    assert rounds.step() is not None
    step = rounds.step()
    assert step is not None
    assert step.tails[0] == known
    other = replace(Start(4, (9, 0), 4), tails=(Tail(8, "c" * 16), None, None))
    with pytest.raises(TailDiffers):
        reread(Rounds(2, other), cut)


def reread(rounds: Rounds, cut: Cut) -> None:
    rounds.deliver(1, 0, b"k", b"v")
    rounds.take(cut, 4)
    while rounds.step() is not None:
        pass
