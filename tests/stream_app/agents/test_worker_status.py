"""Why a worker is not ready: each reason has its own words, in the order in which they count."""

from __future__ import annotations

import asyncio
import time

from stream_app.agents.worker_status import ASKING_FOR_ENDS, WorkerStatus

LONG_AGO = time.monotonic() - 3600


def status(**fields: object) -> WorkerStatus:
    """Return a status as a worker makes it, inside a running loop."""

    async def make() -> WorkerStatus:
        return WorkerStatus(**fields)  # type: ignore[arg-type]

    return asyncio.run(make())


def test_a_worker_that_compiles_does_not_blame_the_broker() -> None:
    compiling = status(last_answer_time=LONG_AGO)
    compiling.kernels.awaited = True
    assert not compiling.broker_unreachable
    assert compiling.waiting_for((0,), "") == "loading the compiled kernels"
    compiling.kernels._count.kernels = 3
    reason = compiling.waiting_for((0,), "")
    assert reason.startswith("compiling kernels: 3 so far, for ")
    assert "murmurec warmup" in reason


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
