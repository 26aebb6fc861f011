"""Checkpoints between the event loop and their thread: what is written, when, and what waits for
it."""

from __future__ import annotations

import asyncio
import itertools
import mmap
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from stream_app.agents.checkpointing.restore import Reload, Restored
from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.models import frozen_arrays
from stream_app.settings import Settings
from stream_app.state.replica import Replica
from stream_app.wire import Cut, DigestReport, Forget, decode_entry
from stream_app.wire.state_records import ManifestKey, PageKey, StateOrigin, decode_state_key
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import events, log, publish
from tests.stream_app.agents.lines import Line, a_runtime, apply

Body = Callable[[Runtime, Line], Coroutine[Any, Any, None]]
SECONDS = 60.0


def with_line(body: Body, settings: Settings | None = None) -> None:
    """Run a test's body with a runtime that has caught up, and its line."""

    async def main() -> None:
        # Checkpoints at marked cuts only, however slow the machine is.
        runtime, line = a_runtime(settings=settings or Settings(replay_seconds=3600))
        runtime.status.start_end_offsets = (0, 0, 0, 0)
        try:
            await asyncio.wait_for(body(runtime, line), SECONDS)
        finally:
            line.checkpoints.close()
        if runtime.status.failure is not None:
            raise runtime.status.failure

    asyncio.run(main())


async def until(true: Callable[[], bool]) -> None:
    """Return when something has become true; the test has a deadline."""
    while not true():
        await asyncio.sleep(0.001)


def a_round(runtime: Runtime, rng: np.random.Generator, number: int, checkpoint: bool) -> None:
    """Apply a round of records that are new, and the cut that ends it."""
    before = runtime.replica.end_offsets
    records = [publish(event) for event in events(rng, 20)]
    parts = [len(part) for part in log(records)]
    apply(runtime, records, before)
    end_offsets = tuple(a + b for a, b in zip(before, parts, strict=True))
    runtime.end_round(Cut(number, end_offsets, 0, checkpoint=checkpoint), number)


def kinds(line: Line) -> list[str]:
    """Return what was written, in order."""
    return [type(decode_state_key(key)).__name__ for key, _ in line.records]


def test_the_owner_writes_at_a_marked_cut_and_reports_its_digests(rng: np.random.Generator) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        a_round(runtime, rng, 1, checkpoint=False)
        assert kinds(line) == ["ClaimKey"]
        a_round(runtime, rng, 2, checkpoint=True)
        await until(lambda: line.checkpoints.status()["durable_cut"] == 2)
        assert kinds(line)[-1] == "ManifestKey"
        found = line.recovered()
        assert found is not None
        assert found.manifest.model == runtime.replica.model_digest()
        assert found.manifest.cut_offset == 2
        digest_report = decode_entry(line.digest_reports[0])
        assert isinstance(digest_report, DigestReport)
        assert (digest_report.cut, digest_report.model) == (2, found.manifest.model)
        assert runtime.status.durable_end_offsets == runtime.replica.end_offsets

    with_line(body)


def test_a_checkpoint_is_wanted_and_then_written_by_what_a_restart_would_repeat(
    rng: np.random.Generator,
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        checkpoints = line.checkpoints
        checkpoints.acquire()
        await until(lambda: checkpoints.status()["generation"] is not None)
        a_round(runtime, rng, 1, checkpoint=False)
        assert not checkpoints.wanted
        runtime._round_seconds = 3600.0
        a_round(runtime, rng, 2, checkpoint=False)
        assert checkpoints.wanted, "the next cut is to be marked"
        assert kinds(line) == ["ClaimKey"]
        runtime._round_seconds = 3600.0
        a_round(runtime, rng, 3, checkpoint=False)
        await until(lambda: checkpoints.status()["durable_cut"] == 3)
        assert not checkpoints.wanted
        cuts = itertools.count(4)

        def written_after_the_pause() -> bool:
            runtime._round_seconds = 4.0 * 3600
            a_round(runtime, rng, next(cuts), checkpoint=False)
            return checkpoints.status()["durable_cut"] >= 4

        await until(written_after_the_pause)

    with_line(body)


def test_others_take_their_digests_at_marked_cuts_and_write_nothing(
    rng: np.random.Generator,
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        a_round(runtime, rng, 1, checkpoint=True)
        await until(lambda: line.checkpoints._known is not None)
        known = line.checkpoints._known
        assert known is not None
        replica = runtime.replica
        runtime.replacement.comparison.add_report(
            DigestReport(1, known.model, known.ledger, SMALL.digest, replica.origin.digest)
        )
        assert runtime.replacement.comparison.agreed == 1
        assert not line.records

    with_line(body)


def test_a_rejection_is_acknowledged_before_the_checkpoint_that_passes_it(
    rng: np.random.Generator,
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        line.queued_count = 1
        a_round(runtime, rng, 1, checkpoint=True)
        await until(lambda: line.checkpoints._known is not None)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert kinds(line) == ["ClaimKey"]
        line.all_acknowledged.set()
        await until(lambda: line.checkpoints.status()["durable_cut"] == 1)

    with_line(body)


def test_nothing_is_frozen_while_the_broker_is_away_and_all_is_written_afterwards(
    rng: np.random.Generator,
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        line.answers = False
        for number in (1, 2, 3):
            a_round(runtime, rng, number, checkpoint=True)
        await until(lambda: len(line.records) > 1)
        assert not line.digest_reports
        line.answers = True
        await until(lambda: line.checkpoints.status()["durable_cut"] == 1)
        a_round(runtime, rng, 4, checkpoint=True)
        await until(lambda: line.checkpoints.status()["durable_cut"] == 4)
        found = line.recovered()
        assert found is not None
        assert found.manifest.model == runtime.replica.model_digest()

    with_line(body)


def test_a_new_owner_never_writes_behind_the_newest_checkpoint(rng: np.random.Generator) -> None:
    """It may still be behind; what it wrote then would hide the better one."""

    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        for number in (1, 2, 3):
            a_round(runtime, rng, number, checkpoint=number == 3)
        await until(lambda: line.checkpoints.status()["durable_cut"] == 3)
        behind, other = a_runtime(settings=Settings(replay_seconds=3600))
        behind.start_end_offsets = (0, 0, 0, 0)
        other.records = line.records
        try:
            other.checkpoints.acquire()
            await until(lambda: other.checkpoints.status()["generation"] is not None)
            for number in (1, 2):
                a_round(behind, rng, number, checkpoint=True)
                await other.checkpoints.idle()
            found = line.recovered()
            assert found is not None
            assert found.manifest.cut == 3
        finally:
            other.checkpoints.close()

    with_line(body)


def test_a_digest_request_does_not_cost_the_last_checkpoint(rng: np.random.Generator) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        for number in range(1, 20, 2):
            a_round(runtime, rng, number, checkpoint=True)
            a_round(runtime, rng, number + 1, checkpoint=False)
            asked = [asyncio.ensure_future(line.checkpoints.digests()) for _ in range(3)]
            await asyncio.sleep(0)
            assert await line.checkpoints.finish(5.0)
            assert {d.cut for d in await asyncio.gather(*asked)} <= {number, number + 1}
            assert line.checkpoints.status()["durable_cut"] == number + 1

    with_line(body)


def test_a_worker_without_the_memory_for_a_checkpoint_ends_with_one_sentence(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(_: int) -> mmap.mmap:
        return reserved(1 << 50)

    reserved = frozen_arrays._reserved

    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        monkeypatch.setattr(frozen_arrays, "_reserved", too_large)
        a_round(runtime, rng, 1, checkpoint=True)
        assert runtime.status.ending.is_set()
        assert "cannot be reserved" in str(runtime.status.failure)
        assert not await line.checkpoints.finish(5.0)
        assert kinds(line) == ["ClaimKey"]

    with pytest.raises(UserError, match="cannot be reserved"):
        with_line(body)


def test_a_state_that_is_to_be_replaced_is_not_written(rng: np.random.Generator) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        a_round(runtime, rng, 1, checkpoint=False)
        runtime.replacement.reload = Reload("it differs")
        assert not await line.checkpoints.finish(5.0)
        assert kinds(line) == ["ClaimKey"]

    with_line(body)


def test_a_former_owner_stops_between_two_records(rng: np.random.Generator) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        line.answers = False
        a_round(runtime, rng, 1, checkpoint=True)
        await until(lambda: len(line.records) > 1)
        line.checkpoints.release()
        line.answers = True
        await line.checkpoints.idle()
        assert "ManifestKey" not in kinds(line)
        assert not line.digest_reports
        line.checkpoints.acquire()
        first = line.checkpoints.status()["generation"]
        await until(lambda: line.checkpoints.status()["generation"] not in (None, first))
        a_round(runtime, rng, 2, checkpoint=True)
        await until(lambda: line.checkpoints.status()["durable_cut"] == 2)
        names = [decode_state_key(key) for key, _ in line.records]
        later = [n.generation for n in names if isinstance(n, PageKey | ManifestKey)]
        assert max(later) > min(later)

    with_line(body)


def test_a_restart_continues_from_the_checkpoint_with_the_same_bytes(
    rng: np.random.Generator,
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        a_round(runtime, rng, 1, checkpoint=True)
        await until(lambda: line.checkpoints.status()["durable_cut"] == 1)
        model, ledger = runtime.replica.model_digest(), runtime.replica.ledger_digest()
        a_round(runtime, rng, 2, checkpoint=False)
        assert runtime.replica.model_digest() != model
        found = line.recovered()
        assert found is not None
        await runtime.restore(Restored(found.manifest.origin, found))
        assert (runtime.replica.cut, runtime.cut_offset) == (1, 1)
        assert (runtime.replica.model_digest(), runtime.replica.ledger_digest()) == (model, ledger)
        digests = await line.checkpoints.digests()
        assert digests.model == model

    with_line(body)


def test_a_state_that_was_read_and_has_not_changed_is_not_written_again(
    rng: np.random.Generator,
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        a_round(runtime, rng, 1, checkpoint=True)
        await until(lambda: line.checkpoints.status()["durable_cut"] == 1)
        found = line.recovered()
        assert found is not None
        other, its = a_runtime(settings=Settings(replay_seconds=3600))
        other.status.start_end_offsets = (0, 0, 0, 0)
        its.records = line.records
        try:
            await other.restore(Restored(found.manifest.origin, found))
            its.checkpoints.acquire()
            await until(lambda: its.checkpoints.status()["generation"] is not None)
            written = len(line.records)
            assert its.checkpoints.status()["durable_cut"] == 1
            other.replica.model_digest()
            its.checkpoints.checkpoint_when_idle()
            assert await its.checkpoints.finish(5.0)
            assert len(line.records) == written
            a_round(other, rng, 2, checkpoint=False)
            assert await its.checkpoints.finish(5.0)
            found = line.recovered()
            assert found is not None
            assert (found.manifest.cut, found.manifest.model) == (2, other.replica.model_digest())
            await other.restore(Restored(found.manifest.origin, None))
            assert its.checkpoints.status()["durable_cut"] is None, "a state from the log"
        finally:
            its.checkpoints.close()

    with_line(body)


def test_the_last_checkpoint_is_of_the_newest_cut(rng: np.random.Generator) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        line.checkpoints.acquire()
        await until(lambda: line.checkpoints.status()["generation"] is not None)
        a_round(runtime, rng, 1, checkpoint=True)
        await until(lambda: line.checkpoints.status()["durable_cut"] == 1)
        a_round(runtime, rng, 2, checkpoint=False)
        assert await line.checkpoints.finish(5.0)
        found = line.recovered()
        assert found is not None
        assert found.manifest.cut == 2
        records = len(line.records)
        assert await line.checkpoints.finish(5.0)  # nothing has changed since
        assert len(line.records) == records

    with_line(body)


def test_a_replica_that_differs_keeps_the_evidence_and_requests_a_reload(
    rng: np.random.Generator, tmp_path: Any
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        for time in (1, 2, 3, 4):
            await line.checkpoints.idle()
            a_round(runtime, rng, runtime.replica.cut + 1, checkpoint=True)
            cut = runtime.replica.cut
            await until(
                lambda c=cut: (
                    line.checkpoints._known is not None  # type: ignore[misc]
                    and line.checkpoints._known.cut == c
                )
            )
            known = line.checkpoints._known
            assert known is not None
            lie = DigestReport(
                cut, "0" * 32, known.ledger, SMALL.digest, runtime.replica.origin.digest
            )
            runtime.replacement.comparison.add_report(lie)
            assert runtime.metrics.registry.get_sample_value(
                "murmurec_replicas_differ_total"
            ) == float(time)
            if time <= 3:
                assert runtime.replacement.reload is not None
                assert runtime.replacement.reload.origin == runtime.replica.origin
                answer = decode_entry(line.digest_reports[-1])
                assert isinstance(answer, DigestReport)
                assert (answer.cut, answer.model) == (cut, known.model)
                runtime.replacement.reload = None
        assert "again" in str(runtime.status.failure)
        runtime.status.failure = None
        kept = sorted((tmp_path / "evidence" / "murmurec").glob("*"))
        assert len(kept) == 6

    with_line(body, Settings(data_dir=tmp_path, replay_seconds=3600))


def test_one_batch_of_false_reports_costs_one_reload(
    rng: np.random.Generator, tmp_path: Any
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        async def digests_at(cut: int) -> None:
            a_round(runtime, rng, cut, checkpoint=True)
            await until(lambda: bool((d := line.checkpoints._known) and d.cut == cut))
            await line.checkpoints.idle()

        origin = runtime.replica.origin.digest
        lies = [
            DigestReport(cut, f"{name:032x}", "0" * 32, SMALL.digest, origin)
            for cut in (1, 2, 3, 4, 2**40)
            for name in range(50)
        ]
        for cut in (1, 2, 3, 4):
            await digests_at(cut)
        for time in range(2):
            for lie in lies:
                runtime.compare(lie)
            assert (runtime.replacement.reload is not None) == (time == 0)
            runtime.replacement.restart()
        for lie in lies:  # the replay meets them again, wherever its digests are taken
            runtime.compare(lie)
        await digests_at(5)
        assert runtime.replacement.reload is None
        assert runtime.status.failure is None
        assert runtime.metrics.registry.get_sample_value("murmurec_replicas_differ_total") == 1.0

    with_line(body, Settings(data_dir=tmp_path, checkpoint_seconds=3600))


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_forgotten_device_is_cleared_or_requests_a_rebuild(
    rng: np.random.Generator, rebuild: bool
) -> None:
    async def body(runtime: Runtime, line: Line) -> None:
        record = events(rng, 1)[0]
        apply(runtime, [publish(record)])
        runtime.end_round(Cut(1, tuple(len(p) for p in log([publish(record)])), 0), 1)
        runtime.forget(Forget(record.device.hex(), rebuild))
        if not rebuild:
            assert runtime.replacement.reload is None
            return
        assert runtime.replacement.reload is not None
        assert runtime.replacement.reload.origin == StateOrigin(
            0, (0,) * 4, excluded=(record.device.hex(),)
        )
        await runtime.restore(Restored(runtime.replacement.reload.origin, None))
        assert runtime.replica.model_digest() == Replica(SMALL).model_digest()
        runtime.forget(Forget(record.device.hex(), rebuild))
        assert runtime.replacement.reload is None  # it never was

    with_line(body)
