"""What real devices send passes the audit; 2,000 with and without a rating look alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from consumers.audit import PublicConfiguration, audit_observed, observe
from consumers.audit.observed import Record, Source
from producers.fleet.population import Population, populate
from producers.journal import Journal, Message
from producers.person.enrolment import NO_LIMIT
from research.attacks.enrolment import advantage, traces
from tests.consumers.audit.worlds import violated
from tests.fixtures.streams import partition_of
from tests.producers.conftest import dataset
from tests.producers.emissions import CELL, Observer, run

PAIRS, SCOPE = 2000, np.arange(12, dtype=np.uint64)
PUBLIC = PublicConfiguration((CELL,), scope=SCOPE, budget=1e6)


@dataclass
class Tap(Observer):
    """An observer that keeps the records as they are."""

    records: list[Record] = field(default_factory=list)

    def send(self, message: Message) -> None:
        super().send(message)
        place, when = partition_of(message.key), int(self.now * 1000)
        self.records.append(
            Record(Source.RATINGS, place, len(self.records), when, message.key, message.value)
        )


def emitted(population: Population, path: Path) -> list[Record]:
    tap = Tap()
    with Journal.open(path) as journal:
        journal.enrol(list(population.devices), NO_LIMIT, 19_999, simulated=True)
        run(population, journal, tap, scope=SCOPE, pace=tap.pace(10_000), cells=1 << 15)
    return tap.records


def test_a_rating_changes_nothing_but_the_reports_of_2000_real_devices(tmp_path: Path) -> None:
    """{account: item 7} against {}, one pair an account; and both logs pass the audit."""
    users = list(range(PAIRS))
    data = dataset(users, [7] * PAIRS, [5.0] * PAIRS, users)
    with Journal.open(tmp_path / "key") as journal:
        rated = populate(data, journal.key)
    columns = ("users", "items", "fresh", "raw_levels")
    nothing = replace(rated, **{name: getattr(rated, name)[:0] for name in columns})
    logs = [emitted(each, tmp_path / name) for name, each in (("0", nothing), ("1", rated))]
    worlds = []
    for records in logs:
        configuration = replace(PUBLIC, enrolled=frozenset(rated.devices))
        findings = audit_observed(observe(records, configuration), configuration)
        assert violated({each.claim: each for each in findings}) == set()
        messages = observe(records, PUBLIC).messages
        assert len(messages) == PAIRS
        worlds.append(traces(messages, list(rated.devices)))
    assert (worlds[0] == worlds[1]).all()
    assert advantage(*worlds).advantage == 0
    first, second = (sorted((r.key, r.time, len(r.value or b"")) for r in log) for log in logs)
    assert first == second
    assert [r.value for r in logs[0]] != [r.value for r in logs[1]]
