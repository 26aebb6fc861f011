"""What an account spent: reports and stages of campaigns, composed as its own ledger composes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from consumers.audit import Finding, PublicConfiguration, observe
from consumers.audit.checks.spending_check import LATE, WINDOW, spending
from consumers.audit.findings import Verdict
from consumers.audit.observed import Contributed
from stream_app.campaigns.planning import Wanted, certificate, stages
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import ExactPlan, largest_count
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.certificate import NoisySum
from tests.consumers.audit.worlds import EPOCH, World, keys, levels

DELTA = Fraction(1, 10**6)
ONE = registry.parse("rr:5:1")
HALF = Wanted("together", 1275, Fraction(1, 2))
CAMPAIGN = certificate(stages(Fraction(1), DELTA, [HALF, HALF]))
ID = naming.name(CAMPAIGN)


def contributed(device: bytes, epoch: int, times: int = 1) -> list[Contributed]:
    """Return the contributions to every stage of so many campaigns."""
    return [Contributed(device, epoch, each) for each in CAMPAIGN.sums] * times


def found(world: World, joined: list[Contributed], budget: float = 20.0) -> Finding:
    configuration = PublicConfiguration((ONE,), budget=budget)
    observed = replace(observe(world.records, configuration), contributed=joined)
    (finding,) = spending(observed, configuration)
    return finding


def reporting(world: World, count: int, epoch: int = EPOCH) -> bytes:
    device, items = world.device(), keys(range(count))
    world.send(device, items, levels(world.rng, count), ONE, epoch=epoch)
    return device


def test_a_campaign_on_top_of_reports_is_counted_against_zeros_and_another_record() -> None:
    world = World(1)
    device = reporting(world, 4)
    alone = found(world, [])
    assert alone.figures["spent"] == pytest.approx(4, rel=1e-4)
    both = found(world, contributed(device, EPOCH))
    ledger = ExactPlan((), DELTA).spent({ONE.id: 4, ID: 1})
    assert both.figures["spent"] == pytest.approx(ledger, rel=1e-4)
    assert ledger > 4.7
    other = report_loss(ONE.id, "replaced").self_composed(4).compose(report_loss(ID, "replaced"))
    assert both.figures["replaced"] == pytest.approx(other.epsilon(1e-6), rel=1e-4)
    assert "; 4.0 without its campaigns" in both.measured
    apart = found(world, contributed(world.device(), EPOCH))  # of another account
    assert apart.figures["spent"] == pytest.approx(4, rel=1e-4)
    over = found(world, contributed(device, EPOCH), budget=4.5)
    assert over.verdict is Verdict.VIOLATED
    assert found(world, [], budget=4.5).verdict is Verdict.OK


def test_campaigns_alone_are_held_to_the_count_that_a_device_admits() -> None:
    most = largest_count(ID, Fraction(20), DELTA)
    world = World(2)
    device = world.device()
    assert found(world, contributed(device, EPOCH, most)).verdict is Verdict.OK
    assert found(world, contributed(device, EPOCH, most + 1)).verdict is Verdict.VIOLATED


def test_stages_that_were_left_out_are_not_counted() -> None:
    world = World(3)
    device = world.device()
    first = naming.name(replace(CAMPAIGN, sums=CAMPAIGN.sums[:1]))
    part = found(world, contributed(device, EPOCH)[:1])
    assert part.figures["spent"] == pytest.approx(float(naming.parse(first).epsilon(DELTA)), 1e-4)
    assert float(part.figures["spent"]) < 0.8


def test_a_contribution_that_waited_for_its_broker_accuses_nobody() -> None:
    """Debited on the first day and sent `LATE` days after; the window's next debit is honest."""
    most = largest_count(ID, Fraction(20), DELTA)
    device = World(4).device()
    waited = contributed(device, EPOCH + LATE, most)
    assert found(World(4), waited + contributed(device, EPOCH + WINDOW)).verdict is Verdict.OK
    early = contributed(device, EPOCH + WINDOW - 1)
    assert found(World(4), waited + early).verdict is Verdict.VIOLATED


def test_noise_that_protects_nothing_is_more_than_every_budget() -> None:
    bare = [Contributed(bytes(16), EPOCH, NoisySum(2**20, Fraction(4), 10))]
    bare_found = found(World(5), bare, budget=1e6)
    assert bare_found.verdict is Verdict.VIOLATED
    assert bare_found.figures["spent"] == float("inf")
    assert bare_found.row()["figures"]["spent"] == "inf"  # JSON has no infinity
