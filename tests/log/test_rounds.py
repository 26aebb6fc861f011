"""Any interleaving of deliveries gives the same sequence; cuts that do not count change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.log.rounds import Rounds
from stream_app.wire import Cut

PARTITIONS = 3


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[int]], list[Cut]]:
    """Offsets (with holes) of each partition, and a chain of valid cuts over them."""
    offsets, ends = [], []
    for _ in range(PARTITIONS):
        size = draw(st.integers(0, 12))
        kept = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        offsets.append([o for o, keep in enumerate(kept) if keep])
        ends.append(size)
    cuts, here = [], [0] * PARTITIONS
    while here != ends:
        step = [draw(st.integers(0, end - at)) for at, end in zip(here, ends, strict=True)]
        if not any(step):
            step = [end - at for at, end in zip(here, ends, strict=True)]
        here = [at + s for at, s in zip(here, step, strict=True)]
        cuts.append(Cut(len(cuts) + 1, tuple(here), 0))
    return offsets, cuts


def noise(cuts: list[Cut], i: int) -> Iterator[Cut]:
    """Records of the cut log that must not count: repeats, a zombie's, another clock's, one that
    moves back."""
    yield Cut(max(1, i), tuple(o + 5 for o in cuts[i].ends), 0)
    yield Cut(i + 9, cuts[i].ends, 0)
    yield Cut(i + 2, (0,) * PARTITIONS, 0)
    yield Cut(i + 2, cuts[i].ends[:-1], 0)
    yield cuts[i]


def run(
    draw: st.DataObject, offsets: list[list[int]], cuts: list[Cut], noisy: bool
) -> list[object]:
    """Deliver the log in a drawn interleaving, in drawn step sizes, and return what came out in
    what order."""
    rounds = Rounds(PARTITIONS)
    pending: list[list[object]] = [[*part] for part in offsets]
    cut_log: list[Cut] = []
    for i, cut in enumerate(cuts):
        cut_log.append(cut)
        if noisy and i + 1 < len(cuts):
            cut_log.extend(noise(cuts, i))
    out: list[object] = []
    ends = cuts[-1].ends if cuts else (0,) * PARTITIONS
    while True:
        choices = [p for p in range(PARTITIONS) if pending[p]] + ([-1] if cut_log else [])
        if not choices:
            break
        choice = draw.draw(st.sampled_from(choices))
        if choice == -1:
            rounds.cut(cut_log.pop(0))
        else:
            offset = pending[choice].pop(0)
            rounds.deliver(choice, offset, b"k", b"v")
            if noisy:
                rounds.deliver(choice, offset, b"k", b"again")
            if not pending[choice]:
                rounds.reached(choice, ends[choice])
        for p in range(PARTITIONS):
            if not pending[p]:
                rounds.reached(p, ends[p])
        collect(rounds, draw.draw(st.integers(1, 4)), out)
    collect(rounds, 2, out)
    return out


def collect(rounds: Rounds, limit: int, out: list[object]) -> None:
    while (step := rounds.step(limit)) is not None:
        if step.run is not None:
            assert 1 <= len(step.run.offsets) <= limit
            assert set(step.run.values) == {b"v"}
            out.extend((step.run.partition, offset) for offset in step.run.offsets)
        else:
            assert step.cut is not None
            out.append(step.cut.number)


def canonical(offsets: list[list[int]], cuts: list[Cut]) -> list[object]:
    """The definition: round by round, in a round partition by partition, in a partition by
    offset."""
    out: list[object] = []
    before = (0,) * PARTITIONS
    for cut in cuts:
        for p in range(PARTITIONS):
            out.extend((p, o) for o in offsets[p] if before[p] <= o < cut.ends[p])
        out.append(cut.number)
        before = cut.ends
    return out


@settings(max_examples=300, deadline=None)
@given(st.data(), logs(), st.booleans())
def test_any_interleaving_gives_the_canonical_order(
    draw: st.DataObject, log: tuple[list[list[int]], list[Cut]], noisy: bool
) -> None:
    assert run(draw, *log, noisy) == canonical(*log)


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
    assert rounds.cut(Cut(1, (3, 3, 3), 0))
    assert not rounds.cut(cut)
    assert rounds.newest_cut == (1, (3, 3, 3))
    assert rounds.cut(Cut(2, (3, 4, 3), 0))


def test_of_two_cuts_with_one_number_the_first_counts() -> None:
    rounds = Rounds(1)
    assert rounds.cut(Cut(1, (2,), 0))
    assert not rounds.cut(Cut(1, (3,), 0))
    assert rounds.newest_cut == (1, (2,))


def test_a_round_waits_for_its_last_record() -> None:
    rounds = Rounds(1)
    rounds.cut(Cut(1, (2,), 0))
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
    assert (rounds.number, rounds.ends) == (1, (2,))


def test_the_buffer_forgets_what_was_taken() -> None:
    rounds = Rounds(1)
    for offset in range(20_000):
        rounds.deliver(0, offset, b"k", b"v")
    rounds.cut(Cut(1, (19_999,), 0))
    while rounds.step(512) is not None:
        pass
    assert rounds.buffered(0) == 1
    assert len(rounds._buffers[0].offsets) < 10_000
