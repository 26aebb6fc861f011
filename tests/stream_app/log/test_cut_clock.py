"""The clock: due cuts, outstanding cuts, marked cuts, and races between two clocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.log.canonical_order import Rounds
from stream_app.log.cut_clock import Clock
from stream_app.wire import Cut

ZERO = (0, (0, 0))


def owner(**settings: float) -> Clock:
    """Return an owner that may write; it marks no cut and has one outstanding unless set."""
    unmarked = {"in_flight": 1, "checkpoint_seconds": float("inf")}
    clock = Clock(**{**unmarked, **settings})  # type: ignore[arg-type]
    clock.acquire()
    clock.at_end_of_cuts()
    return clock


def test_only_an_owner_that_has_read_the_cut_log_writes() -> None:
    clock = Clock(checkpoint_seconds=float("inf"))
    assert clock.due(9.0, ZERO, (3, 0), 7) is None
    clock.acquire()
    assert clock.due(9.0, ZERO, (3, 0), 7) is None
    clock.at_end_of_cuts()
    assert clock.due(9.0, ZERO, (3, 0), 7) == Cut(1, (3, 0), 7)
    clock.release()
    assert clock.due(99.0, (1, (3, 0)), (9, 9), 7) is None


def test_nothing_new_means_no_cut() -> None:
    assert owner().due(9.0, (4, (3, 3)), (3, 3), 0) is None


def test_a_cut_waits_for_its_time_unless_a_round_is_full() -> None:
    clock = owner(seconds=0.2, round_records=10)
    assert clock.due(1.0, ZERO, (1, 0), 0) == Cut(1, (1, 0), 0)
    assert clock.due(1.1, (1, (1, 0)), (2, 0), 0) is None
    assert clock.due(1.1, (1, (1, 0)), (11, 0), 0) == Cut(2, (11, 0), 0)
    assert clock.due(1.31, (2, (11, 0)), (12, 0), 0) == Cut(3, (12, 0), 0)


def test_a_round_is_bounded_in_every_partition() -> None:
    assert owner(round_records=10).due(1.0, ZERO, (25, 4), 0) == Cut(1, (10, 4), 0)


def test_a_cut_is_outstanding_until_a_cut_of_its_number_is_read() -> None:
    clock = owner(seconds=0.2, patience_seconds=5.0)
    assert clock.due(1.0, ZERO, (1, 0), 0) is not None
    assert clock.due(3.0, ZERO, (2, 0), 0) is None
    assert clock.due(3.0, (1, (2, 0)), (3, 0), 0) == Cut(2, (3, 0), 0)


def test_outstanding_cuts_continue_each_other() -> None:
    clock = owner(seconds=0.2, round_records=10, in_flight=3)
    made = [clock.due(1.0, ZERO, (100, 5), 0) for _ in range(4)]
    assert made == [Cut(1, (10, 5), 0), Cut(2, (20, 5), 0), Cut(3, (30, 5), 0), None]
    assert clock.waits
    assert clock.due(1.0, (2, (20, 5)), (100, 5), 0) == Cut(4, (40, 5), 0)


def test_outstanding_cuts_are_dropped_when_another_clock_took_their_place() -> None:
    clock = owner(seconds=0.2, round_records=10, in_flight=3)
    for _ in range(3):
        clock.due(1.0, ZERO, (100, 5), 0)
    assert clock.due(1.0, (1, (9, 4)), (100, 5), 0) == Cut(2, (19, 5), 0)


def test_a_lost_cut_is_written_again_after_patience() -> None:
    clock = owner(patience_seconds=5.0)
    assert clock.due(1.0, ZERO, (1, 0), 0) == Cut(1, (1, 0), 0)
    assert clock.due(6.1, ZERO, (2, 0), 0) == Cut(1, (2, 0), 0)


def test_a_cut_is_marked_when_the_time_for_a_checkpoint_has_come() -> None:
    clock = owner(seconds=0.2, checkpoint_seconds=1.0)
    marked = []
    newest = ZERO
    for tick in range(12):
        cut = clock.due(tick * 0.25, newest, (tick + 1, 0), 0)
        assert cut is not None
        marked.append(cut.checkpoint)
        newest = cut.number, cut.end_offsets
    assert marked == [True, *[False] * 4, True, *[False] * 4, True, False]


def test_a_cut_is_marked_at_once_if_a_checkpoint_is_wanted() -> None:
    clock = owner(seconds=0.2, checkpoint_seconds=1.0)
    clock.due(1.0, ZERO, (1, 0), 0)
    cut = clock.due(1.3, (1, (1, 0)), (2, 0), 0, checkpoint_wanted=True)
    assert cut == Cut(2, (2, 0), 0, checkpoint=True)
    assert clock.due(2.2, (2, (2, 0)), (3, 0), 0) == Cut(3, (3, 0), 0)


def test_the_first_cut_of_a_new_owner_is_marked() -> None:
    clock = owner(seconds=0.2, checkpoint_seconds=5.0)
    assert clock.due(1.0, ZERO, (1, 0), 0) == Cut(1, (1, 0), 0, checkpoint=True)
    clock.release()
    clock.acquire()
    clock.at_end_of_cuts()
    assert clock.due(2.0, (1, (1, 0)), (2, 0), 0) == Cut(2, (2, 0), 0, checkpoint=True)


def test_no_cut_is_marked_by_the_time_alone_unless_asked_for() -> None:
    clock = owner(seconds=0.2)
    assert clock.due(1.0, ZERO, (1, 0), 0) == Cut(1, (1, 0), 0)
    assert clock.due(1e6, (1, (1, 0)), (2, 0), 0) == Cut(2, (2, 0), 0)


def test_a_waiting_entry_gets_one_cut_that_advances_nothing() -> None:
    clock = owner(seconds=0.2, in_flight=4)
    newest = (4, (3, 3))
    assert clock.due(9.0, newest, (3, 3), 0) is None
    assert clock.due(9.0, newest, (3, 3), 0, entry_waits=True) == Cut(5, (3, 3), 0)
    assert clock.due(9.5, newest, (3, 3), 0, entry_waits=True) is None
    assert clock.due(9.5, (5, (3, 3)), (3, 3), 0) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"seconds": 0.0},
        {"seconds": float("nan")},
        {"round_records": 0},
        {"in_flight": 0},
        {"checkpoint_seconds": 0.0},
        {"checkpoint_seconds": float("nan")},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"0|1 record|1 cut"):
        Clock(**settings)  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_two_clocks_at_once_still_make_one_chain_of_cuts(data: st.DataObject) -> None:
    """Both write to one log and read it late; every reader accepts the same chain, which reaches
    the end."""
    clocks = [
        owner(seconds=0.1, round_records=3, patience_seconds=1.0, in_flight=n) for n in (3, 2)
    ]
    views = [Rounds(2) for _ in range(3)]
    read = [0, 0, 0]
    cut_log: list[Cut] = []
    received = [0, 0]
    for now in range(60):
        if now < 40:
            received[data.draw(st.integers(0, 1))] += data.draw(st.integers(0, 4))
        for i in range(2):
            late = 0 if now >= 50 else data.draw(st.integers(0, 2))
            for cut in cut_log[read[i] : max(read[i], len(cut_log) - late)]:
                views[i].take(cut)
            read[i] = max(read[i], len(cut_log) - late)
            due = clocks[i].due(float(now), views[i].newest_cut, received, 0)
            if due is not None:
                cut_log.append(due)
    for cut in cut_log:
        views[2].take(cut)
    for i in range(2):
        for cut in cut_log[read[i] :]:
            views[i].take(cut)
    assert views[0].newest_cut == views[1].newest_cut == views[2].newest_cut
    assert views[2].newest_cut[1] == tuple(received)
