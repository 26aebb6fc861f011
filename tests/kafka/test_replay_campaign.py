"""`murmurec replay --mode split` over a real broker: killed in the middle of a stage, run again."""

from __future__ import annotations

import signal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from producers.datasets.load import load
from producers.fleet.campaigning import ScopedRatings
from producers.fleet.population import populate
from producers.journal import Journal
from stream_app.campaigns import together
from stream_app.campaigns.planning import Wanted, stages
from stream_app.cli import run
from stream_app.wire import Topics
from stream_app.wire.campaigns.plan import Campaign
from tests.fixtures import forks
from tests.fixtures.waiting import until
from tests.kafka.test_aggregation import aggregators, check, coordinator, parties, result
from tests.producers.test_campaign import DELTA

__all__ = ["aggregators", "coordinator", "parties"]
pytestmark = pytest.mark.kafka

USERS, ITEMS = 30, 8

KILLED = """
    import os, signal
    from functools import partial
    from producers.publishing import OutboxRelay
    from stream_app.cli.device.replay import campaign_replay

    campaign_replay.Fleet = partial(campaign_replay.Fleet, batch_bytes=4000)
    sent, send = [], OutboxRelay.send

    def killed(relay, message, **options):
        if len(sent) == 17:  # within a record of several devices, of which some were sent
            relay.settle()
            os.kill(os.getpid(), signal.SIGKILL)
        sent.append(message)
        send(relay, message, **options)

    OutboxRelay.send = killed
"""


@pytest.fixture
def file(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A file in which every user rates four items, some of them outside the scope."""
    path = tmp_path / "ratings.csv"
    rows = [
        (user, item, int(rng.integers(1, 6)), 1000 + place)
        for user in range(1, USERS + 1)
        for place, item in enumerate(rng.choice(ITEMS + 4, 4, replace=False).tolist())
    ]
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    path.write_text(f"userId,movieId,rating,timestamp\n{lines}")
    return path


def test_a_replay_that_is_killed_in_a_stage_counts_every_device_once(
    kafka, topics, tmp_path, environment, parties, aggregators, coordinator, file, capsys
):
    scope, journal = tmp_path / "items.txt", tmp_path / "journal"
    scope.write_text("".join(f"{item}\n" for item in range(ITEMS)))
    wanted = [Wanted("together", together.size(ITEMS), Fraction(1))]
    campaign = Campaign(
        1, Fraction(1), DELTA, 2, tuple(range(ITEMS)),
        stages(Fraction(1), DELTA, wanted, bound=100),
        tuple(each.public.hex() for each in parties),
    )  # fmt: skip
    broker = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    command = ["replay", str(file), "--journal", str(journal), "--scope", str(scope), *broker]
    command += ["--keys", str(tmp_path / "a.pub"), "--keys", str(tmp_path / "b.pub")]
    command += ["--mode", "split", "--scale", "1", "5", "1"]
    assert run(command) == 1
    assert "no campaign is under way" in capsys.readouterr().err
    coordinator.begin(campaign)
    coordinator.open_stage()
    done = forks.run(command, before=KILLED)
    assert done.returncode == -signal.SIGKILL
    assert sum(coordinator.contributions.ends) == 17
    with Journal.open(journal) as opened:
        population = populate(load(file), opened.key)
        topic = Topics(topics).contributions
        recorded = sum(opened.seq(each, topic) for each in population.devices)
        waiting = [each.value for each in opened.pending()]
    assert 17 < recorded < USERS  # killed within a record, and not the last one
    log = tmp_path / "replay.log"
    again = forks.start(command, log)
    # Which were accepted is recorded with the next record: some are sent again, the same bytes.
    records = 17 + len(waiting) + USERS - recorded
    try:
        for each in aggregators:
            each.start()
        until(
            lambda: again.poll() is not None or sum(coordinator.contributions.ends) >= records,
            "every device has contributed",
        )
        stage = coordinator.close_stage()
        check(result(coordinator, stage.index), sent_by(population, campaign), parties)
        assert again.wait(60) == 0, log.read_text()
    finally:
        again.kill()
        again.wait()
    printed = " ".join(log.read_text().split())
    assert "of an earlier run sent again, same bytes" in printed
    assert "stage 0 (together): 30 of 30 devices contributed; waiting until it has" in printed
    assert "released, 30 contributions counted" in printed
    assert "no rating was sent" in printed
    written = list(coordinator.contributions.read(stage))
    assert len(written) == records > USERS
    assert {each.value for each in written} >= set(waiting)
    assert len({each.value for each in written}) == len({each.key for each in written}) == USERS
    assert len({len(each.value or b"") for each in written}) == 1


def sent_by(population, campaign):
    rated = ScopedRatings(population, campaign)
    return np.stack(
        [
            together.contribution(campaign.stages[0], rated.rated(each))
            for each in population.devices
        ]
    )
