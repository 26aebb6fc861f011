"""Accounts of a site take part in campaigns: once a stage, with or without ratings."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from producers.edge.reporting.ways_out import CampaignOptions, ReportingOptions
from producers.edge.store.database import Database
from producers.journal import PersonBudget
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.campaigns.sealing import open_box
from tests.producers.edge.reporting.world import Edge, Recommender, edge
from tests.producers.test_campaign import DELTA, opened, pinned, plan, read
from tests.producers.test_campaign import TOPIC as CONTRIBUTIONS
from tests.stream_app.aggregation.world import keys_of

BUDGET = PersonBudget(Fraction(20), DELTA)


@dataclass
class Record:
    key: bytes
    value: bytes


def taking_part(path: Path, rounds: Rounds, recommender: Recommender | None = None) -> Edge:
    assert rounds.campaign is not None
    recommender = recommender or Recommender()
    campaigns = CampaignOptions(
        CONTRIBUTIONS, recommender.connect, pinned(rounds.campaign), b"s" * 32, lambda: rounds
    )
    database = Database(f"sqlite:///{path}/edge.db")
    return edge(database, recommender, options=ReportingOptions(campaigns=campaigns), budget=BUDGET)


def contributions(run: Edge) -> list[Record]:
    return [
        Record(key, value) for topic, key, value in run.recommender.seen if topic == CONTRIBUTIONS
    ]


def test_accounts_contribute_once_to_each_stage_beside_their_reports(tmp_path):
    keys = keys_of(1)
    campaign = plan(keys)
    run = taking_part(tmp_path, opened(campaign))
    run.done("ann", "1", "2", "3", "4")
    run.done("bob", "elsewhere")
    run.steps(180, 20)
    run.done("cleo", "5")  # joins while the stage is open
    run.steps(180, 20)
    found = contributions(run)
    assert {each.key for each in found} == {
        run.device(user).hex().encode() for user in ("ann", "bob", "cleo")
    }
    assert len(found) == 3
    vectors = {}
    for each in found:
        sent = read(each)
        vectors[sent.device] = open_box(campaign, sent, 0, keys[0].public, keys[0].secret)
    assert vectors[run.device("ann")].any()
    assert not vectors[run.device("bob")].any()
    assert len(run.recommender.reports()) == 6
    record = run.users.show("ann")
    assert record.budget.plan == "adaptive"
    assert {line.adjacency for line in record.budget.spent} == {"value", "user"}
    assert [line.messages for line in record.left_the_site] == [1, 1]
    run.reporter.stop()
    run.database.close()


def test_a_contribution_of_a_deleted_user_stays_in_its_sum(tmp_path):
    run = taking_part(tmp_path, opened(plan(keys_of(1))))
    run.done("ann", "elsewhere", type="view")
    run.clock.at += 60
    run.steps(120, 20)
    run.users.delete("ann")
    run.reporter.wake()
    run.steps(10)
    rounds = run.options.campaigns.rounds()
    rounds.stages[0].phase, rounds.stages[1].phase = Phase.RELEASED, Phase.OPEN
    run.steps(180, 20)
    assert len(contributions(run)) == 1  # none to the second stage
    run.reporter.stop()
    run.database.close()


def test_another_scope_than_the_pinned_one_takes_no_book(tmp_path):
    run = taking_part(tmp_path, opened(plan(keys_of(1))))
    run.steps(2)
    run.reporter.stop()
    run.database.close()
    campaigns = run.options.campaigns
    assert campaigns is not None
    from dataclasses import replace

    changed = ReportingOptions(campaigns=replace(campaigns, scope_digest=b"t" * 32))
    with Database(f"sqlite:///{tmp_path}/edge.db") as database:
        other = edge(database, options=changed, budget=BUDGET)
        other.steps(2)
        assert other.reporter.status().books == 0
        assert any("scope of campaigns" in each for each in other.reporter.status().conditions)
        other.reporter.stop()


@pytest.mark.parametrize("restart", [False, True])
def test_a_stage_gets_no_second_contribution(tmp_path, restart):
    rounds = opened(plan(keys_of(1)))
    run = taking_part(tmp_path, rounds)
    run.done("ann", "1")
    run.steps(120, 20)
    if restart:
        clock, seen = run.clock, run.recommender
        run.reporter.stop()
        run.database.close()
        run = taking_part(tmp_path, rounds, seen)
        run.clock.at = clock.at
    run.steps(120, 20)
    assert len(contributions(run)) == 1
    run.reporter.stop()
    run.database.close()
