"""The checkpoint protocol holds under every simulated fault, and the simulation detects mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.simulation.coverage import Coverage
from tests.simulation.exhaustive import Search
from tests.simulation.mutants import FURTHER_MUTANTS, MUTANTS, STREAMING_MUTANTS
from tests.simulation.process import Variant
from tests.simulation.runner import first_kill, run
from tests.simulation.schedule import Schedule

EVERY_MUTANT = [*MUTANTS, *FURTHER_MUTANTS, *STREAMING_MUTANTS]

# `make simulate` runs two hundred times as many as the thorough test.
SCHEDULES, MOST_SCHEDULES = 3_000, 15_000

FLOORS = {
    "durable": 22_500,
    "recovered_nothing": 15_000,
    "fell_back": 600,
    "took_an_older_generation": 1_500,
    "died_with_pages_on_the_way": 750,
    "died_with_a_manifest_on_the_way": 300,
    "died_before_tombstones": 450,
    "late_of_the_dead": 750,
    "zombie_wrote": 15_000,
    "zombie_durable": 6_000,
    "two_owners": 2_250,
    "compacted_in_a_checkpoint": 1_500,
    "compacted_while_read": 150,
    "written_while_read": 750,
    "trimmed": 4_500,
    "overtaken": 150,
    "tombstones": 6_000,
    "damaged": 750,
    "lost_to_damage": 30,
    "intruded": 750,
    "read_again": 2_000,
    "died_while_reading": 450,
    "died_between_readings": 100,
    "surveyed_on": 15_000,
    "truncated": 1_000,
    "reloaded": 900,
    "wrote_superseded": 65,
}
"""How often each thing must be met in the most schedules: about half of what was counted."""


@pytest.mark.parametrize(
    "schedules", [SCHEDULES, pytest.param(MOST_SCHEDULES, marks=pytest.mark.nightly)]
)
def test_no_schedule_of_crashes_ends_with_a_wrong_state(schedules: int) -> None:
    result = run(schedules, 0, workers=2)
    assert result.coverage.schedules == schedules
    assert not result.failures, "replay: python -m tests.simulation --schedules 1 --verbose --seed"
    counted, share = asdict(result.coverage), schedules / MOST_SCHEDULES
    assert {n: counted[n] for n, floor in FLOORS.items() if counted[n] < floor * share} == {}


@pytest.mark.nightly
def test_no_interleaving_of_a_small_scope_ends_with_a_wrong_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    search = Search()
    search.run()
    with capsys.disabled():
        print(f" {search.states:,} states", end="")
    assert search.violations == []
    assert search.states >= 70_000


@pytest.mark.parametrize("mutant", EVERY_MUTANT, ids=lambda mutant: mutant.name)
def test_a_mutant_of_the_protocol_is_killed(
    mutant: Variant, record_property: Callable[[str, object], None]
) -> None:
    killed = first_kill(mutant, seeds=2000)
    assert killed is not None, f"{mutant.name}: survived 2,000 seeds"
    record_property("killed by seed", killed[0])
    print(f"killed by seed {killed[0]}: {killed[1]}")


def test_there_are_ten_mutants_that_were_named_beforehand() -> None:
    assert len(MUTANTS) == len({mutant.name for mutant in MUTANTS}) == 10


@pytest.mark.parametrize("mutant", [MUTANTS[1], FURTHER_MUTANTS[0]], ids=lambda mutant: mutant.name)
def test_the_search_finds_a_mutant_too(mutant: Variant) -> None:
    search = Search(mutant, most_states=70_000)
    search.run()
    assert search.violations


def test_a_seed_replays_the_same_schedule() -> None:
    for seed in range(20):
        traces: list[list[str]] = [[], []]
        ended = [Schedule(seed, Variant(), Coverage(), trace).run() for trace in traces]
        assert traces[0] == traces[1], f"seed {seed}"
        assert ended[0] == ended[1]


@pytest.mark.nightly
def test_a_run_goes_on_where_its_journal_ends(tmp_path: Path) -> None:
    journal, whole = tmp_path / "journal", run(2500, 7, workers=1)
    run(1000, 7, workers=1, journal=journal)
    journal.write_text(journal.read_text() + "[1007, {")
    reported: list[int] = []
    again = run(2500, 7, 1, lambda part: reported.append(part.coverage.schedules), journal)
    assert sorted(reported) == [500, 1000, 1000]
    assert asdict(again) == asdict(whole)
    lines = journal.read_text().count("\n")
    assert lines == 3
