"""Settings change on two workers under load: no query and no record is lost, the workers and the
log agree, and a worker that is killed on the way comes back to the same state."""

from __future__ import annotations

import signal
from collections.abc import Callable

import numpy as np
import pytest

from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.operations import redesign
from stream_app.operations.session import Session
from stream_app.operations.verify import verify
from stream_app.settings import Settings
from tests.conftest import Kafka
from tests.faults.conftest import Flow
from tests.fixtures.query_load import QueryLoad
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import until
from tests.kafka.conftest import SOON, Start

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
MORE = ("rr:5:2", "none:5:inf", "rr:5:1/2")


@pytest.fixture
def session_seconds() -> float:
    return SOON


@pytest.fixture
def put(settings: Settings) -> Callable[..., None]:
    """Give a function that puts settings into force until these workers follow them."""

    def applied(workers: list[WorkerProcess], *, beside: bool = False, **changed: object) -> None:
        planned = redesign.plan(settings.model_copy(update=changed))
        redesign.apply(planned, "beside" if beside else "")
        wanted = planned.target.digest
        until(
            lambda: all(w.state()["design_digest"] == wanted for w in workers),
            f"the workers follow {sorted(changed)}",
        )

    return applied


def test_nothing_is_lost_while_settings_change(
    start: Start, flow: Flow, kafka: Kafka, settings: Settings, topics: str,
    put: Callable[..., None], rng: np.random.Generator,
) -> None:  # fmt: skip
    workers = [start(), start()]
    records = [publish(event) for event in events(rng, 2000, mechanism="rr:5:2")]
    with QueryLoad(kafka.connection, topics) as load:
        with flow(records):
            until(lambda: workers[0].state()["cut"], "a cut")
            put(workers, mechanisms=MORE)
            put(workers, mechanisms=MORE, head_items=3000, clip=3.0)
            workers[1].process.send_signal(signal.SIGKILL)
            put(workers[:1], mechanisms=MORE, head_items=3000, clip=5.0)
            workers[1] = start()  # its own settings are those of the beginning
            changed = {"mechanisms": MORE, "head_items": 3000, "clip": 5.0, "factors": 16}
            put(workers, beside=True, **changed)
            put(workers, **changed, held_out=0.2)
        until(
            lambda: all(w.state()["counts"]["applied"] == len(records) for w in workers),
            "both workers have applied every record",
        )
        counts = load.settled()
    assert counts["lost"] == 0
    assert counts["sent"] == sum(
        counts[kind] for kind in ("answered", "busy", "expired", "refused")
    )
    states = [worker.state() for worker in workers]
    assert len({state["design_digest"] for state in states}) == 1
    assert not any(state["rejected"] for state in states)
    urls = tuple(worker.url for worker in workers)
    found = verify(Session.from_settings(settings), urls)
    assert not found.differences
    assert len(found.compared) >= 4  # checkpoint with itself and the log, and both workers
