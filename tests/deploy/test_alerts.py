"""The alert on numbers used again, minute by minute, through restarts of the only worker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import yaml
from prometheus_client import CollectorRegistry

from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.state.replica import Replica
from stream_app.wire import Event, decode_many
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import publish, run_of

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yml"
METRIC = "murmurec_seq_reused_records"
RULE = re.compile(
    rf"max by \(shard\) \({METRIC}\) > \(max by \(shard\) "
    rf"\(max_over_time\({METRIC}\[(\d+)d\] offset (\d+)m\)\) or "
    rf"0 \* max by \(shard\) \({METRIC}\)\)"
)


def rule() -> tuple[int, int]:
    """Return window and offset of the rule in minutes, as it is written in the file."""
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
    text = {each["alert"]: each["expr"] for each in rules}["MurmurecSequenceNumberUsedAgain"]
    found = RULE.fullmatch(" ".join(text.split()))
    assert found is not None, text
    return int(found[1]) * 1440, int(found[2])


def firing(samples: list[float | None]) -> list[int]:
    """Return the minutes in which the alert fires; None: no worker was scraped."""
    window, offset = rule()
    found = []
    for minute, now in enumerate(samples):
        past = samples[max(0, minute - offset - window) : max(0, minute - offset + 1)]
        before = max((each for each in past if each is not None), default=0.0)
        if now is not None and now > before:
            found.append(minute)
    return found


@dataclass
class Worker:
    """A process that starts with the log up to a checkpoint and is scraped once a minute."""

    events: Iterable[Event] = ()
    replica: Replica = field(default_factory=lambda: Replica(SMALL))
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        for event in self.events:  # what the checkpoint holds is not watched
            self._apply(event)
        recommender = Recommender(self.replica, Catalogue(), "exact")
        self.gauges = Gauges(Metrics(self.registry), self.replica, recommender)

    def _apply(self, event: Event) -> object:
        record = publish(event)
        run = run_of([record], 0, 1, record.partition)
        return self.replica.apply(decode_many(run, self.replica.spec.intake))

    def after(self, events: Iterable[Event]) -> float:
        """Return what a scrape after these events shows."""
        for event in events:
            self.gauges.watch(self._apply(event))  # type: ignore[arg-type]
        self.gauges.publish()
        value = self.registry.get_sample_value(METRIC)
        assert value is not None
        return value


def event(seq: int, content: int) -> Event:
    columns = np.array([7], np.uint64), np.array([content], np.uint8)
    return Event(bytes(16), seq, "rr:5:2", 20_000, *columns)


USED_AGAIN, LATER = [event(1, 0), event(1, 3)], [event(2, 0), event(2, 3)]


@pytest.mark.thorough
def test_a_number_used_again_fires_once_and_not_again_after_a_restart() -> None:
    worker = Worker()
    samples: list[float | None] = [worker.after([])] * 5
    samples += [worker.after(USED_AGAIN)] + [worker.after([])] * 60
    assert firing(samples) == list(range(5, 5 + rule()[1]))
    for checkpoint in (0, 1, 2):  # events of the checkpoint; the rest is replayed
        again = Worker(USED_AGAIN[:checkpoint])
        samples += [None] * 20 + [again.after([]), again.after(USED_AGAIN[checkpoint:])]
        samples += [again.after([])] * 60
    assert firing(samples) == list(range(5, 5 + rule()[1])), "the alert fires again"


@pytest.mark.thorough
def test_a_number_that_is_used_again_while_the_worker_is_down_fires_when_it_is_back() -> None:
    worker = Worker()
    samples: list[float | None] = [worker.after(USED_AGAIN)] * 60
    back = Worker(USED_AGAIN)
    samples += [None] * 60 + [back.after(LATER)] * 30
    assert firing(samples) == [*range(15), *range(120, 135)]
