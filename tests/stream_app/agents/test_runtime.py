"""What the stages share: a state that is shown only at a cut, and a process that ends with its
first reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.http_views import state_of
from stream_app.agents.queries.answers import encoded_refusal
from stream_app.agents.runtime import Runtime
from stream_app.wire import Cut, Recommendation, Rejection, Status, decode_message
from tests.fixtures.campaigns import plan, planned, released
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import Published, events, log, publish
from tests.stream_app.agents.lines import a_runtime, apply

Rejections = list[Rejection]


def with_runtime(body: Callable[[Runtime, Rejections], Coroutine[Any, Any, None]]) -> None:
    """Run a test's body in an event loop, with a runtime whose rejections are collected."""

    async def main() -> None:
        rejections = Rejections()
        runtime, line = a_runtime(rejections.append)
        try:
            await body(runtime, rejections)
        finally:
            line.checkpoints.close()

    asyncio.run(main())


def test_the_digests_are_those_of_a_cut_and_wait_for_it(rng: np.random.Generator) -> None:
    records = [publish(event) for event in events(rng, 50)]

    async def body(runtime: Runtime, _: Rejections) -> None:
        end_offsets = apply(runtime, records)
        waiting = asyncio.ensure_future(state_of(runtime))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        runtime.end_round(Cut(1, end_offsets, 0), 1)
        state = await waiting
        assert (state["cut"], tuple(state["positions"])) == (1, end_offsets)
        assert state["model_digest"] == runtime.replica.model_digest()
        assert state["ledger_digest"] == runtime.replica.ledger_digest()

    with_runtime(body)


def test_the_wait_for_an_open_round_ends(rng: np.random.Generator) -> None:
    records = [publish(event) for event in events(rng, 5)]

    async def body(runtime: Runtime, _: Rejections) -> None:
        apply(runtime, records)
        with pytest.raises(TimeoutError):
            await runtime.at_cut(0.01)

    with_runtime(body)


def test_a_rejected_record_is_published_with_position_and_size(rng: np.random.Generator) -> None:
    made = events(rng, 1)[0]
    jump = replace(made, seq=2**21)
    junk = Published(0, b"k", b"junk")

    async def body(runtime: Runtime, rejections: Rejections) -> None:
        apply(runtime, [junk, publish(made), publish(jump)])
        assert {(str(r.reason), r.size) for r in rejections} == {
            ("malformed", 4),
            ("seq_jump", len(publish(jump).value or b"")),
        }
        exposed = runtime.metrics.exposition().decode()
        assert 'murmurec_rejected_total{reason="seq_jump"} 1.0' in exposed
        assert 'murmurec_rejected_total{reason="malformed"} 1.0' in exposed

    with_runtime(body)


def test_a_worker_is_ready_when_the_log_as_of_its_start_is_applied(
    rng: np.random.Generator,
) -> None:
    records = [publish(event) for event in events(rng, 20)]

    async def body(runtime: Runtime, _: Rejections) -> None:
        assert "asking" in runtime.ready_reason()
        end_offsets = tuple(len(part) for part in log(records))
        runtime.status.start_end_offsets = end_offsets
        assert "0 of 20" in runtime.ready_reason()
        apply(runtime, records)
        assert runtime.ready_reason()
        runtime.end_round(Cut(1, end_offsets, 0), 1)
        assert runtime.ready_reason() == ""

    with_runtime(body)


def test_the_first_reason_ends_the_process_even_from_another_thread() -> None:
    async def body(runtime: Runtime, _: Rejections) -> None:
        first, second = RuntimeError("first"), RuntimeError("second")
        await asyncio.to_thread(runtime.status.fail_from_thread, first)
        await asyncio.wait_for(runtime.status.ending.wait(), 5)
        runtime.status.fail(second)
        assert runtime.status.failure is first

    with_runtime(body)


def test_a_defect_in_a_stage_ends_the_process_and_a_cancellation_does_not() -> None:
    async def body(runtime: Runtime, _: Rejections) -> None:
        @crash_guard(runtime.status)
        async def waits() -> None:
            await asyncio.Event().wait()

        @crash_guard(runtime.status)
        async def breaks() -> None:
            raise KeyError("defect")

        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert runtime.status.failure is None
        with pytest.raises(KeyError):
            await breaks()
        assert isinstance(runtime.status.failure, KeyError)
        assert runtime.status.ending.is_set()

    with_runtime(body)


def test_the_privacy_mode_is_the_weakest_that_came_and_not_what_is_allowed(
    rng: np.random.Generator,
) -> None:
    made = [event for event in events(rng, 200) if event.mechanism != "none:5:inf"]
    raw = [event for event in events(rng, 200) if event.mechanism == "none:5:inf"]

    async def body(runtime: Runtime, _: Rejections) -> None:
        assert runtime.privacy == "local"
        ends = apply(runtime, [publish(event) for event in made])
        assert runtime.privacy == "local"
        counts = {"rr:5:2": sum(len(event.items) for event in made)}
        assert runtime.replica.reports_by_mechanism() == counts
        apply(runtime, [publish(replace(raw[0], seq=1, device=bytes(16)))], ends)
        assert runtime.privacy == "none"
        assert runtime.replica.reports_by_mechanism() == counts | {"none:5:inf": len(raw[0].items)}

    assert len(made) > 5 < len(raw)
    with_runtime(body)


@pytest.mark.parametrize("mode", ["split", "central"])
def test_replies_and_the_metric_name_the_mode_of_campaigns(mode: str) -> None:
    async def body(runtime: Runtime) -> None:
        assert runtime.privacy == f"local+{mode}"
        refused = encoded_refusal(runtime, "00" * 8, Status.REFUSED)
        assert decode_message(Recommendation, refused).privacy == f"local+{mode}"
        state = await state_of(runtime)
        assert (state["privacy"], state["privacy_mode"]) == ("local", mode)
        runtime.follow(planned(plan(3, parties=runtime.replica.spec.parties)))
        runtime.gauges.publish()
        sample = runtime.metrics.registry.get_sample_value
        labels = {"privacy_mode": "local", "campaigns": mode}
        assert sample("murmurec_privacy_mode_info", labels) == 1
        shown = "number", "epsilon", "stages", "stages_released", "contributions"
        found = [sample(f"murmurec_campaign_{name}") for name in shown]
        assert found == [3, 2, 2, 0, 0]

    async def main() -> None:
        runtime, line = a_runtime(spec=replace(SMALL, privacy_mode=mode))
        try:
            await body(runtime)
        finally:
            line.checkpoints.close()

    asyncio.run(main())


def test_an_entry_of_a_campaign_is_shown_with_the_cut_that_it_belongs_to(
    rng: np.random.Generator,
) -> None:
    records = [publish(event) for event in events(rng, 30)]

    async def main() -> None:
        runtime, line = a_runtime(spec=replace(SMALL, privacy_mode="central"))
        try:
            runtime.follow(planned(plan()))
            for entry in (released(plan()), released(plan()), released(plan(2))):
                runtime.follow(entry)
            waiting = asyncio.ensure_future(state_of(runtime))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not waiting.done()
            ends = apply(runtime, records)
            runtime.end_round(Cut(1, ends, 0), 1)
            state = await waiting
            assert state["model_digest"] == runtime.replica.model_digest()
            assert state["privacy_mode"] == "central"
            assert state["campaign"] == {
                "number": 1, "epsilon": 2.0, "delta": 1e-6, "stages": 2, "released": 1,
                "aborted": False, "contributions": 4000, "stages_aborted": 0,
                "ignored": {"other_stage": 1, "other_plan": 1},
            }  # fmt: skip
            runtime.gauges.publish()
            shown = runtime.metrics.exposition().decode()
            for metric in ("number 1.0", "stages_released 1.0", "entries_ignored 2.0"):
                assert f"\nmurmurec_campaign_{metric}\n" in shown
        finally:
            line.checkpoints.close()

    asyncio.run(main())


def test_without_campaigns_their_entries_change_nothing() -> None:
    async def body(runtime: Runtime, _: Rejections) -> None:
        before = runtime.replica.model_digest()
        runtime.follow(planned(plan()))
        runtime.end_round(Cut(1, (0, 0, 0, 0), 0), 1)
        state = await state_of(runtime)
        assert (state["model_digest"], state["campaign"]) == (before, None)
        assert state["privacy_mode"] == "local"

    with_runtime(body)


def test_a_worker_whose_broker_is_silent_is_not_ready() -> None:
    async def body(runtime: Runtime, _: Rejections) -> None:
        runtime.status.start_end_offsets = (0, 0, 0, 0)
        assert runtime.ready_reason() == ""
        runtime.status.last_answer_time = time.monotonic() - 60
        assert "does not answer" in runtime.ready_reason()

    with_runtime(body)
