"""The days that a cut accepts: who names them, and which records they are for."""

from __future__ import annotations

import pytest

from stream_app.log.canonical_order import Rounds
from stream_app.log.cut_clock import Clock
from stream_app.log.event_days import AHEAD_DAYS, OFFLINE_DAYS, accepted_days
from stream_app.wire import Cut, WireError, decode_entry, encode_message

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
