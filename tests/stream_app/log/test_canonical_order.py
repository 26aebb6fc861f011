"""Every interleaving of deliveries gives one order, also for a reader that starts after a cut;
entries that do not count change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.log.canonical_order import OrderError, Rounds, Start
from stream_app.log.cut_chain import Chain
from stream_app.wire import Aborted, Cut, DigestReport, Entry, Forget
from stream_app.wire.campaigns.round_log import AbortReason

PARTITIONS = 3
ZERO = (0,) * PARTITIONS
DEVICE = "0" * 32

OF_A_CAMPAIGN = Aborted(plan=bytes(32), stage=0, reason=AbortReason.TOO_FEW)

Logs = tuple[list[list[int]], list[tuple[Entry, bool]]]


@st.composite
def logs(draw: st.DrawFn) -> Logs:
    """Draw offsets (with holes) of each partition, and a cut log of (entry, whether it counts).

    The last cut that counts reaches the end."""
    offsets, end_offsets = [], []
    for _ in range(PARTITIONS):
        size = draw(st.integers(0, 12))
        kept = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        offsets.append([o for o, keep in enumerate(kept) if keep])
        end_offsets.append(size)
    noisy = draw(st.booleans())
    entries: list[tuple[Entry, bool]] = []
    number, position = 0, [0] * PARTITIONS
    while position != end_offsets:
        number += 1
        forgets = draw(st.integers(0, 2))
        for i in range(forgets):
            forget = Forget(f"{number:031x}{i}")
            entries.append((draw(st.sampled_from([forget, OF_A_CAMPAIGN])), True))
        step = [
            draw(st.integers(0, end - at)) for at, end in zip(position, end_offsets, strict=True)
        ]
        if not any(step) and not forgets:
            step = [end - at for at, end in zip(position, end_offsets, strict=True)]
        position = [at + s for at, s in zip(position, step, strict=True)]
        cut = Cut(number, tuple(position), 0)
        entries.append((cut, True))
        if noisy:
            entries += [(other, False) for other in noise(cut)]
        entries += [(DigestReport(number, DEVICE, DEVICE, "", DEVICE), True)] * draw(
            st.integers(0, 1)
        )
    return offsets, entries


def noise(cut: Cut) -> Iterator[Cut]:
    """Yield cuts that must not count: from a zombie and from another clock, moving back, missing a
    partition, advancing nothing, and a repeat."""
    yield Cut(cut.number, tuple(o + 5 for o in cut.end_offsets), 0)
    yield Cut(cut.number + 9, cut.end_offsets, 0)
    yield Cut(cut.number + 1, (-1,) * PARTITIONS, 0)
    yield Cut(cut.number + 1, cut.end_offsets[:-1], 0)
    yield Cut(cut.number + 1, cut.end_offsets, 0)
    yield cut


def run(draw: st.DataObject, log: Logs, start: Start | None = None) -> list[object]:
    """Deliver the log after `start` in a drawn interleaving, in drawn step sizes, some of it twice,
    and return the steps in their order."""
    offsets, entries = log
    rounds = Rounds(PARTITIONS, start)
    first = rounds.start
    pending = [
        [o for o in part if o >= at] for part, at in zip(offsets, first.end_offsets, strict=True)
    ]
    end_offsets = max(
        (e.end_offsets for e, counts in entries if counts and isinstance(e, Cut)), default=ZERO
    )
    cut_log = [*enumerate(entries)][first.cut_offset :]
    out: list[object] = []
    while choices := [p for p in range(PARTITIONS) if pending[p]] + ([-1] if cut_log else []):
        choice, twice = draw.draw(st.sampled_from(choices)), draw.draw(st.booleans())
        if choice == -1:
            place, (entry, counts) = cut_log.pop(0)
            assert rounds.take(entry, place) == counts or not rounds.found_start
            if twice:
                assert not rounds.take(entry, place)
        else:
            offset = pending[choice].pop(0)
            rounds.deliver(choice, offset, b"k", b"v")
            if twice:
                rounds.deliver(choice, offset, b"k", b"again")
        for p in range(PARTITIONS):
            if not pending[p]:
                rounds.reached(p, end_offsets[p])
        collect(rounds, draw.draw(st.integers(1, 4)), out)
    collect(rounds, 2, out)
    return out


def collect(rounds: Rounds, limit: int, out: list[object]) -> None:
    """Append the available steps: (partition, offset) or (entry, offset after it)."""
    while (step := rounds.step(limit)) is not None:
        if step.run is not None:
            assert 1 <= len(step.run.offsets) <= limit
            assert set(step.run.values) == {b"v"}
            out.extend((step.run.partition, offset) for offset in step.run.offsets)
            continue
        if step.cut is not None:
            assert (rounds.number, rounds.end_offsets) == (step.cut.number, step.cut.end_offsets)
        entry = step.cut or step.entry
        out.append((entry, step.cut_offset))


def canonical(log: Logs) -> Iterator[tuple[object, int]]:
    """Yield the order by definition: rounds, in a round partitions, in a partition offsets, then
    the cut; every other entry of the cut log keeps its place between the cuts."""
    before = ZERO
    for place, (entry, counts) in enumerate(log[1]):
        if counts and isinstance(entry, Cut):
            for p, part in enumerate(log[0]):
                yield from ((p, o) for o in part if before[p] <= o < entry.end_offsets[p])
            before = entry.end_offsets
        if counts:
            yield entry, place + 1


@settings(max_examples=300, deadline=None)
@given(st.data(), logs())
def test_any_interleaving_gives_the_canonical_order(draw: st.DataObject, log: Logs) -> None:
    assert run(draw, log) == [*canonical(log)]


@settings(max_examples=200, deadline=None)
@given(st.data(), logs(), st.booleans())
def test_a_reader_that_starts_after_a_cut_gets_the_rest_of_the_order(
    draw: st.DataObject, log: Logs, known: bool
) -> None:
    order = [*canonical(log)]
    cuts = [i for i, (entry, _) in enumerate(order) if isinstance(entry, Cut)]
    if not cuts:
        return
    at = draw.draw(st.sampled_from(cuts))
    cut, cut_offset = order[at]
    assert isinstance(cut, Cut)
    start = Start(cut.number, cut.end_offsets, cut_offset if known else 0)
    assert run(draw, log, start) == order[at + 1 :]


@pytest.mark.parametrize(
    "cut",
    [
        Cut(3, (5, 5, 5), 0),
        Cut(1, (5, 5, 5), 0),
        Cut(2, (2, 5, 5), 0),
        Cut(2, (3, 3, 3), 0),
        Cut(2, (5, 5), 0),
    ],
    ids=["skips a number", "repeats a number", "moves back", "moves nothing", "misses a partition"],
)
def test_a_cut_that_does_not_count_changes_nothing(cut: Cut) -> None:
    rounds = Rounds(PARTITIONS)
    assert rounds.take(Cut(1, (3, 3, 3), 0))
    assert not rounds.take(cut)
    assert rounds.newest_cut == (1, (3, 3, 3))
    assert rounds.take(Cut(2, (3, 4, 3), 0))


def test_of_two_cuts_with_one_number_the_first_counts() -> None:
    rounds = Rounds(1)
    assert rounds.take(Cut(1, (2,), 0))
    assert not rounds.take(Cut(1, (3,), 0))
    assert rounds.newest_cut == (1, (2,))


@pytest.mark.parametrize("waiting", [Forget(DEVICE), OF_A_CAMPAIGN], ids=["forget", "campaign"])
def test_a_cut_that_advances_nothing_counts_while_an_entry_waits_for_it(waiting: Entry) -> None:
    chain = Chain(4, (3,))
    assert not chain.take(Cut(5, (3,), 0))
    assert chain.take(waiting)
    assert chain.take(Cut(5, (3,), 0))
    assert not chain.take(Cut(6, (3,), 0))
    assert (chain.number, chain.end_offsets) == (5, (3,))


def test_a_forget_waits_until_the_next_cut_is_known() -> None:
    rounds = Rounds(1)
    rounds.take(Forget(DEVICE), 0)
    assert rounds.entry_waits
    assert rounds.step() is None
    assert rounds.forgets_ahead() == []
    rounds.take(Cut(1, (0,), 0), 1)
    assert rounds.forgets_ahead() == [Forget(DEVICE)]
    assert rounds.forgets_ahead(at_cut=0) == []
    assert not rounds.entry_waits
    first, second = rounds.step(), rounds.step()
    assert first is not None
    assert first.entry == Forget(DEVICE)
    assert second is not None
    assert (second.cut, second.cut_offset) == (Cut(1, (0,), 0), 2)


def test_a_round_waits_for_its_last_record() -> None:
    rounds = Rounds(1)
    rounds.take(Cut(1, (2,), 0))
    rounds.deliver(0, 0, b"k", b"v")
    step = rounds.step()
    assert step is not None
    assert step.run is not None
    assert rounds.step() is None
    rounds.deliver(0, 1, b"k", b"v")
    assert rounds.step() is not None
    step = rounds.step()
    assert step is not None
    assert step.cut is not None
    assert (rounds.number, rounds.end_offsets) == (1, (2,))


def test_a_cut_log_that_differs_at_the_start_cut_is_refused() -> None:
    rounds = Rounds(1, Start(2, (7,)))
    rounds.take(Cut(1, (3,), 0))
    assert not rounds.found_start
    with pytest.raises(OrderError, match=r"cut 2 of the cut log ends at \(6,\), not at \(7,\)"):
        rounds.take(Cut(2, (6,), 0))


@pytest.mark.parametrize("start", [(-1, (0,), 0), (0, (-1,), 0), (0, (0,), -1)])
def test_a_negative_start_is_refused(start: tuple[int, tuple[int, ...], int]) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Start(*start)


def test_a_start_of_another_number_of_partitions_is_refused() -> None:
    with pytest.raises(ValueError, match="the log has 2 partitions"):
        Rounds(2, Start(1, (3,), 1))


def test_the_buffer_frees_taken_records() -> None:
    rounds = Rounds(1)
    for offset in range(20_000):
        rounds.deliver(0, offset, b"k", b"v")
    rounds.take(Cut(1, (19_999,), 0))
    while rounds.step(512) is not None:
        pass
    assert rounds.buffered(0) == 1
    assert len(rounds._buffers[0]._offsets) < 10_000
