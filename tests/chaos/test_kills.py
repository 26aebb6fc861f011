"""Workers that are killed repeatedly hold the same state as a replica that is never killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.deployment import Setup
from tests.chaos.driver import run
from tests.chaos.shards import run as run_shards
from tests.conftest import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]


# `make chaos` kills 200 times; these few show that the driver and its comparison work.
@pytest.mark.parametrize(
    ("setup", "kills"),
    [
        (Setup(1, static=False), 1),
        (Setup(1), 2),
        (Setup(2, hurried_compaction=True), 2),
        (Setup(1, model="sketch", index="qolsh"), 2),
    ],
    ids=str,
)
def test_no_kill_leaves_a_wrong_state(
    kafka: Kafka, tmp_path: Path, seed: int, setup: Setup, kills: int
) -> None:
    figures = run(setup, seed, kills, kafka.bootstrap, tmp_path)
    print("\n".join(figures.lines()))
    assert figures.kills >= kills
    assert figures.compared > figures.kills / 2
    assert figures.digest_reports > 0
    assert figures.wrong == []
    assert figures.unanswered == []


def test_no_strike_at_shards_leaves_a_wrong_state(kafka: Kafka, tmp_path: Path, seed: int) -> None:
    figures = run_shards(2, seed, 5, kafka.bootstrap, tmp_path)
    assert figures.compared >= 10
    assert figures.wrong == []


def test_a_worker_that_recovers_one_wrong_bit_is_found(
    kafka: Kafka, tmp_path: Path, seed: int
) -> None:
    """The driver itself can fail: here a worker flips a bit of what it has read back."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'worker' in sys.orig_argv:\n"
        "    from stream_app.state.replica import Replica\n"
        "    load = Replica.load\n"
        "    def wrong(self, *arguments, **named):\n"
        "        load(self, *arguments, **named)\n"
        "        self.seen.arrays()['blocks'].reshape(-1)[-1] ^= 1\n"
        "    Replica.load = wrong\n"
    )
    figures = run(Setup(1), seed, 4, kafka.bootstrap, tmp_path, more={"PYTHONPATH": str(tmp_path)})
    assert figures.wrong
