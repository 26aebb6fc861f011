"""Honest logs are not accused: the rate of false alarms over many worlds, and the tails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from consumers.audit import Finding
from consumers.audit import tail_check as tails
from consumers.audit.checks.channel_check import hull_divergence, point_divergence
from consumers.audit.findings import Verdict, judged, statistical
from producers.fleet.epoch_emission import emission_time
from stream_app import wire
from stream_app.privacy import registry
from tests.consumers.audit.worlds import EPOCH, PUBLIC, World, emit, honest, keys, violated

ALPHA = 0.05


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("worlds", "most"), [(40, 8), pytest.param(600, 50, marks=pytest.mark.nightly)]
)
def test_honest_worlds_are_accused_as_rarely_as_stated(worlds: int, most: int) -> None:
    """At alpha .05: a true rate of .05 exceeds the bound with probability .0001 and .0002. The
    seeds are fixed, so the test is decided."""
    accused = []
    for seed in range(worlds):
        world, devices = honest(seed, people=24)
        accused.append(violated(world.found(**PUBLIC, enrolled=frozenset(devices), alpha=ALPHA)))
    assert sum(map(bool, accused)) <= most, accused


def test_a_program_that_was_off_for_an_epoch_and_makes_up_for_it_is_no_fault() -> None:
    world = World(3)
    devices = [world.device() for _ in range(30)]
    turns = [keys(range(40 * turn, 40 * turn + 40)) for turn in range(4)]
    for turn, scope in enumerate(turns):
        for place, device in enumerate(devices):
            if place < 2 and turn == 1:
                continue
            cells = np.concatenate(turns[1:3]) if place < 2 and turn == 2 else scope
            emit(world, device, keys([]), EPOCH + turn, scope=cells)
    found = world.found(scope=np.concatenate(turns))
    assert violated(found) == set()
    claim = "cell:5:2: every enrolled account emits in every epoch"
    assert "2 made up for later" in found[claim].measured


def test_a_longer_id_in_the_catalogue_makes_longer_replies_and_is_no_fault() -> None:
    world, _ = honest(1, people=24)
    for _ in range(30):
        world.reply(4 + wire.LIST_LENGTH)  # one byte more for each entry
    assert violated(world.found(**PUBLIC)) == set()


def test_an_empty_topic_is_evidence_of_nothing() -> None:
    found = World(1).found(**PUBLIC)
    assert {each.verdict for each in found.values()} == {Verdict.UNTESTABLE}


def test_a_finding_is_judged_together_with_the_others() -> None:
    found = [statistical("a", math.log(0.02), ""), statistical("b", math.log(0.2), "")]
    verdicts = [finding.verdict for finding in judged(found, 0.05)]
    assert verdicts == [Verdict.VIOLATED, Verdict.OK]
    assert judged([*found, statistical("c", 0.0, "")], 0.05)[0].verdict is Verdict.OK  # .06
    alone = Finding("d", Verdict.VIOLATED, "")
    assert judged([alone, *found], 0.05)[0] is alone


@pytest.mark.parametrize("mechanism", ["rr:5:2", "cell:5:1/2", "ternary:5:1:1/2", "like:5:2"])
def test_the_divergence_of_honest_reports_stays_below_its_bound(mechanism: str) -> None:
    """500 groups of 50 reports with inputs of their own: the bound at each of three levels is
    exceeded at most as often as it states, but for 5 standard deviations."""
    rng, made = np.random.default_rng(3), registry.parse(mechanism)
    channel = made.likelihood()
    counts = np.zeros((500, len(channel)), np.int64)
    for row in counts:
        inputs = rng.choice(made.inputs, 50, p=rng.dirichlet(np.ones(made.inputs) / 2))
        for law in channel[:, inputs].T:
            row[rng.choice(len(law), p=law)] += 1
    found = hull_divergence(counts, channel)
    for level in (0.2, 0.05, 0.01):
        below = [tails.divergence_tail(each, len(channel)) <= math.log(level) for each in found]
        assert sum(below) <= 500 * level + 5 * math.sqrt(500 * level)


def test_the_divergence_is_the_least_over_a_grid_of_mixtures() -> None:
    made = registry.parse("rr:2:1")
    channel, counts = made.likelihood(), np.array([[90, 10], [60, 40], [5, 95]], np.int64)
    found = hull_divergence(counts, channel)
    for row, value in zip(counts, found, strict=True):
        grid = [
            point_divergence(row, channel @ np.array([share, 1 - share]))
            for share in np.linspace(0, 1, 2001)
        ]
        assert value <= min(grid) + 1e-9
        assert value == pytest.approx(min(grid), abs=0.1)
    assert found[1] == 0


def test_a_report_without_any_input_is_impossible() -> None:
    channel = np.array([[0.5, 0.2], [0.5, 0.8], [0.0, 0.0]])
    assert hull_divergence(np.array([[5, 5, 1], [5, 5, 0]]), channel)[0] == math.inf
    assert point_divergence(np.array([5, 5, 1]), channel[:, 0]) == math.inf


@pytest.mark.parametrize("law", [(0.2, 0.3, 0.5), (0.05, 0.05, 0.9)])
def test_the_divergence_tail_is_above_the_exact_one(law: tuple[float, float, float]) -> None:
    """Every count of 20 draws over three outcomes."""
    found = []
    for a in range(21):
        for b in range(21 - a):
            counts = np.array([a, b, 20 - a - b])
            ways = math.comb(20, a) * math.comb(20 - a, b)
            chance = ways * math.prod(p**k for p, k in zip(law, counts.tolist(), strict=True))
            found.append((point_divergence(counts, np.array(law)), chance))
    for level, _ in found:
        exact = sum(chance for divergence, chance in found if divergence >= level - 1e-12)
        assert tails.divergence_tail(level, 3) >= math.log(exact) - 1e-9


@pytest.mark.parametrize(("trials", "share"), [(10, 0.3), (100, 0.5), (200, 0.05)])
def test_binomial_tails_are_above_the_exact_ones(trials: int, share: float) -> None:
    law = [math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(trials + 1)]
    for k in range(trials + 1):
        assert tails.at_most_tail(k, trials, share) >= math.log(sum(law[: k + 1])) - 1e-9
        assert tails.at_least_tail(k, trials, share) >= math.log(sum(law[k:])) - 1e-9


def test_chi_square_tails_are_above_what_is_drawn() -> None:
    """20,000 draws of 30 squares: a level is passed at most as often as stated, but for 5 sd."""
    drawn = (np.random.default_rng(4).standard_normal((20_000, 30)) ** 2).mean(axis=1)
    logs = np.array([tails.below_chi_square(float(ratio), 30) for ratio in drawn])
    for level in (0.1, 0.01):
        passed = int((logs <= math.log(level)).sum())
        assert passed <= 20_000 * level + 5 * math.sqrt(20_000 * level)
    assert tails.below_chi_square(0.2, 30) < 0


def test_the_observer_knows_the_public_moments_of_devices() -> None:
    from consumers.audit.checks.moment_check import emission_share

    for number in range(50):
        device = number.to_bytes(16, "big")
        assert emission_share(device, 20_000 + number) == emission_time(device, 20_000 + number)
