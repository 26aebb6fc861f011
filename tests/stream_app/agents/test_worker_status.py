"""Why a worker is not ready: each reason has its own words, in the order in which they count."""

from __future__ import annotations

import asyncio
import time

from stream_app.agents.worker_status import ASKING_FOR_ENDS, Lag, WorkerStatus

LONG_AGO = time.monotonic() - 3600


def status(**fields: object) -> WorkerStatus:
    """Return a status as a worker makes it, inside a running loop."""

    async def make() -> WorkerStatus:
        return WorkerStatus(**fields)  # type: ignore[arg-type]

    return asyncio.run(make())


def test_a_worker_that_compiles_does_not_blame_the_broker() -> None:
    compiling = status(last_answer_time=LONG_AGO)
    compiling.kernels.awaited = compiling.kernels.waiting = True
    assert not compiling.broker_unreachable
    assert compiling.waiting_for((0,), "") == "loading the compiled kernels"
    compiling.kernels._count.kernels = 3
    reason = compiling.waiting_for((0,), "")
    assert reason.startswith("compiling kernels: 3 so far, for ")
    assert "murmurec worker --warmup" in reason


def test_a_silent_broker_is_named_once_the_kernels_are_there() -> None:
    assert status(last_answer_time=LONG_AGO).waiting_for((0,), "") == "Kafka does not answer"


def test_waiting_for_kernels_counts_as_no_silence_of_the_broker() -> None:
    waited = status(last_answer_time=LONG_AGO)
    waited.await_kernels()
    assert waited.waiting_for((0,), "") == ASKING_FOR_ENDS


def test_the_other_reasons_follow_in_order() -> None:
    assert status().waiting_for((0,), "a device is forgotten").startswith("starting over: a device")
    assert status().waiting_for((0,), "") == ASKING_FOR_ENDS
    replaying = status(start_end_offsets=(1500, 7))
    assert (
        replaying.waiting_for((1000, 7), "") == "replaying the log: 1,007 of 1,507 records applied"
    )
    assert replaying.waiting_for((1500, 7), "") == ""


def test_a_topic_that_takes_what_it_should_not_is_named_until_it_is_set_right() -> None:
    watched = status(start_end_offsets=(0,), intake_fault="ratings has compression.type zstd")
    assert watched.waiting_for((0,), "") == "ratings has compression.type zstd"
    watched.intake_fault = ""
    assert watched.waiting_for((0,), "") == ""


def test_a_worker_that_lacks_old_records_is_not_ready_until_it_has_caught_up() -> None:
    lag = Lag(10.0)
    for second in range(10):
        lag.note((100 * second,), (0,), float(second))
    assert not lag.behind
    lag.note((1100,), (0,), 11.5)
    assert lag.behind
    assert lag.seconds == 10.5  # the first end that it has not reached was seen after a second
    waits = status(start_end_offsets=(0,), lag=lag)
    assert waits.waiting_for((0,), "") == "behind the log: it holds records that arrived 10 s ago"
    # Ready again at half of the limit, not just below it.
    lag.note((1200,), (300,), 12.5)
    assert lag.behind
    lag.note((1300,), (800,), 13.5)
    assert lag.seconds == 4.5
    assert not lag.behind


def test_a_steady_load_that_is_applied_in_time_is_never_behind() -> None:
    lag = Lag(10.0)
    for second in range(600):
        lag.note((1000 * second,), (max(0, 1000 * (second - 9)),), float(second))
        assert not lag.behind


def test_a_worker_without_new_records_is_not_behind() -> None:
    lag = Lag(10.0)
    for second in range(100):
        lag.note((7, 0), (7, 0), float(second))
    assert lag.seconds == 0.0


def test_records_that_a_cut_names_and_the_log_lacks_are_named_from_the_second_look_on() -> None:
    waiting = status(start_end_offsets=(5,))
    waiting.note_missing("cut 4 names offset 9", 100.0)
    assert waiting.waiting_for((5,), "") == ""
    waiting.note_missing("cut 4 names offset 9", 104.0)
    assert waiting.waiting_for((5,), "") == "for 4 s: cut 4 names offset 9"
    waiting.note_missing("", 108.0)
    assert waiting.waiting_for((5,), "") == ""
