"""The clock: due cuts, outstanding cuts, marked cuts, and races between two clocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.log.canonical_order import Rounds
from stream_app.log.cut_clock import AHEAD_DAYS, OFFLINE_DAYS, Clock, accepted_days
from stream_app.wire import Cut, WireError, decode_entry, encode_message

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


TODAY, DAY = 20_000, 86_400


@pytest.mark.parametrize(
    ("retention_seconds", "days"), [(60, 1), (DAY, 1), (DAY + 1, 2), (30 * DAY, 30), (1e9, 11575)]
)
def test_the_window_is_the_retention_and_a_margin(retention_seconds: float, days: int) -> None:
    oldest, newest = accepted_days(TODAY, retention_seconds)
    assert TODAY - oldest == days + 1 + OFFLINE_DAYS
    assert newest - TODAY == AHEAD_DAYS


def test_the_window_of_a_clock_that_was_never_set_begins_at_0() -> None:
    assert accepted_days(3, 60.0) == (0, 3 + AHEAD_DAYS)


@pytest.mark.parametrize("retention_seconds", [None, 3 * DAY])
def test_a_cut_names_days_only_where_ratings_have_a_retention(
    retention_seconds: float | None,
) -> None:
    clock = Clock(checkpoint_seconds=float("inf"), retention_seconds=retention_seconds)
    clock.acquire()
    clock.at_end_of_cuts()
    cut = clock.due(9.0, (0, (0, 0)), (3, 0), TODAY)
    assert isinstance(cut, Cut)
    expected = None if retention_seconds is None else accepted_days(TODAY, retention_seconds)
    assert cut.accepted_days == expected
    assert decode_entry(encode_message(cut)) == cut
    assert (b"days" in encode_message(cut)) == (expected is not None), "cuts are kept for good"


@pytest.mark.parametrize("days", ["7", "[7]", "[7,8,9]", "[-1,8]", "[7,4294967296]", "[1.5,2]"])
def test_a_cut_with_other_days_is_no_cut(days: str) -> None:
    cut = '{"kind":"cut","number":1,"ends":[1],"epoch":7,"days":%s,"v":1}'
    decode_entry((cut % "[7,8]").encode())
    with pytest.raises(WireError):
        decode_entry((cut % days).encode())


def test_records_have_the_days_of_the_cut_that_ends_their_round() -> None:
    rounds = Rounds(1)
    for offset in range(3):
        rounds.deliver(0, offset, b"k", b"v")
    for number, days in enumerate([(5, 9), None, (6, 10)], 1):
        cut = Cut(number, (number,), TODAY)
        rounds.take(cut if days is None else Cut(number, (number,), TODAY, days=days))
    found = []
    while step := rounds.step():
        found.append(step.run.days if step.run else step.cut and step.cut.accepted_days)
    assert found == [(5, 9), (5, 9), None, None, (6, 10), (6, 10)]
