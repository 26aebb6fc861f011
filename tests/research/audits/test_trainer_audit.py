"""The audit of trainers with one rating event and without: honest ones pass, faults are shown."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from research.audits.trainers import (
    CURVE,
    LAW,
    SPENT,
    UNSEEN,
    WITHIN,
    EventAudit,
    EventSubject,
    audit_trainer,
)
from research.trainers import Events, TrainerSpec, build_trainer
from research.trainers.single_pass import SinglePass
from research.trainers.trainer import BOUND, NoisyGradients
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy.randomness import SeededSource

pytestmark = pytest.mark.nightly

SMALL = LearnerSpec(factors=2, depth=2, sketch_bytes=4 * 2 * 4, scalars_bytes=16, seed=4)
SPARSE = LearnerSpec(factors=2, depth=2, sketch_bytes=8000, scalars_bytes=8000, seed=4)
EVENT = 0  # in a tree of eight leaves the first is below the most nodes


def subject(name: str, sizes: LearnerSpec = SMALL) -> EventSubject:
    """Return eight slots; the event is far from what the model expects."""
    rng = np.random.default_rng(2)
    users, items = rng.integers(0, 5, (2, 8)).astype(np.uint64)
    users[EVENT], items[EVENT] = 77, 78
    stars = rng.integers(1, 6, 8).astype(float)
    stars[EVENT] = 5.0
    return EventSubject(
        name, TrainerSpec(sizes, 8, Fraction(2)), Events(users, items, stars), EVENT
    )


def audited(name: str, runs: int, make=build_trainer) -> EventAudit:
    return audit_trainer(subject(name), runs, SeededSource(6), make)


def broken(found: EventAudit) -> set[str]:
    return {each.claim for each in found.violated}


@pytest.mark.parametrize("name", ["noisy-cells", "tree", "subsampled", "sgld"])
def test_an_honest_trainer_is_not_refuted(name):
    found = audited(name, 100)
    assert broken(found) == set()
    assert found.epsilon is not None
    assert found.epsilon_bound <= found.epsilon <= 2
    assert found.auc > 0.5


@pytest.mark.parametrize("name", ["noisy-cells", "tree"])
def test_the_statistic_has_the_distribution_of_theory(name):
    """400 + 400 runs of a fixed seed; the event's vector reaches its bound."""
    found = audited(name, 400)
    assert broken(found) == set()
    assert found.auc_theory == pytest.approx(0.624, abs=0.001)
    assert found.auc == pytest.approx(found.auc_theory, abs=0.06)


@dataclass(frozen=True)
class Narrow(NoisyGradients):
    """Draws a quarter of the noise."""

    def noise(self):
        return super().noise() // 4


@dataclass(frozen=True)
class Repeating(NoisyGradients):
    """Counts every event four times."""

    def clipped(self, events, rows):
        return 4 * super().clipped(events, rows)


@dataclass(frozen=True)
class Unclipped(NoisyGradients):
    """Takes vectors as long as they are."""

    def clipped(self, events, rows):
        sums = np.zeros(self.model.size, np.int64)
        self.model.add_clipped(events, rows, 1000 * self.norm, 1000 * BOUND, sums)
        return sums


def with_gradients(kind):
    """Return a maker of trainers with this kind of gradients."""

    def make(name, spec, source):
        trainer = build_trainer(name, spec, source)
        own = trainer.gradients
        trainer.gradients = kind(own.model, own.norm, own.variance, own.source)
        return trainer

    return make


@pytest.mark.parametrize(("kind", "claim"), [(Narrow, LAW), (Repeating, WITHIN)])
@pytest.mark.parametrize("name", ["noisy-cells", "tree"])
def test_less_noise_or_more_of_an_event_is_shown(name, kind, claim):
    assert {claim, CURVE} <= broken(audited(name, 150, with_gradients(kind)))


@pytest.mark.parametrize("name", ["subsampled", "sgld"])
def test_less_noise_of_a_sampled_trainer_is_shown(name):
    assert LAW in broken(audited(name, 10, with_gradients(Narrow)))


@pytest.mark.parametrize("name", ["noisy-cells", "tree", "subsampled", "sgld"])
def test_vectors_that_are_not_clipped_are_shown(name):
    """A rating of 300 stars, which clipped vectors hide."""
    wide = subject(name)
    wide.log.stars[EVENT] = 300.0
    assert SPENT not in broken(audit_trainer(wide, 60, SeededSource(6)))
    found = audit_trainer(wide, 60, SeededSource(6), with_gradients(Unclipped))
    assert {SPENT, WITHIN} <= broken(found)
    assert found.epsilon_bound > 2


class Redrawn(SinglePass):
    """Draws the noise of the open nodes of the tree again for every prefix."""

    def _prefixes(self):
        last = [np.zeros(self.model.size, np.int64)]

        def moved(step, clipped):
            noise = sum(self.gradients.noise() for _ in range(step.bit_count()))
            change = clipped + noise - last[0]
            last[0] = noise
            return change

        return moved


def test_a_tree_whose_nodes_are_drawn_again_is_shown():
    found = audited("tree", 60, Redrawn)
    assert LAW in broken(found)


def test_the_printed_walk_shows_what_a_rating_touched_and_is_labelled_so():
    """Whatever epsilon is read into the print: 200 + 200 runs separate the worlds wholly."""
    found = audit_trainer(subject("sgld-paper", SPARSE), 200, SeededSource(6))
    assert found.epsilon is None
    assert found.epsilon_bound > 3.5
    assert found.auc == 1.0
    assert broken(found) == {UNSEEN}
    guarantee = build_trainer("sgld-paper", TrainerSpec(SPARSE, 8)).guarantee
    assert str(guarantee).startswith("no guarantee: as printed")


def test_too_few_runs_are_refused():
    with pytest.raises(ValueError, match="3 runs"):
        audited("tree", 3)
