"""The audit of a whole campaign: honest code passes, and every planted fault is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from research.audits.campaign import CampaignAudit, Subject, audit, crowd
from research.audits.campaign_run import Code
from stream_app.aggregation import collection, party
from stream_app.aggregation.collection import Collection, Drop
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.aggregation.party import Party
from stream_app.campaigns import sealing, together
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import Outline, stages
from stream_app.campaigns.verified.layout import MAX_BOUND
from stream_app.errors import UserError
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import SeededSource
from tests.stream_app.aggregation.world import without_noise

pytestmark = pytest.mark.thorough

EPSILON, DELTA = Fraction(2), Fraction(1, 10**6)
ITEMS, PEOPLE = 9, 3
SPENT = "a person spends at most epsilon 2"
CURVE = "what is released is within its Gaussian curve"
WITHIN = "every vector is within its bound"
ONCE = "a stage is released once"
LAW = "the noise has the law of the plan"
FRESH = "no two noises agree"


def plan(parties: int, bound: int = 64) -> Campaign:
    """Return a plan on a coarse grid, whose tables are small."""
    wanted = Outline(EPSILON, DELTA, parties).wanted(ITEMS)
    planned = stages(EPSILON, DELTA, wanted, bound=bound)
    return Campaign(1, EPSILON, DELTA, parties, tuple(range(ITEMS)), planned)


def audited(planned: Campaign, runs: int, code: Code | None = None, seed: int = 3) -> CampaignAudit:
    source = SeededSource(seed)
    return audit(Subject(planned, crowd(ITEMS, PEOPLE, source)), runs, source, code)


@dataclass(frozen=True)
class Repeatable(PartyKeys):
    """Draws noise that does not depend on the records: sealed boxes are never the same twice, so
    with the parties' own keys no run could be repeated."""

    def noise_key(self, plan: bytes, stage: int, records: bytes) -> bytes:
        return super().noise_key(plan, stage, bytes(32))


def broken(found: CampaignAudit) -> set[str]:
    return {each.claim for each in found.violated}


@pytest.mark.parametrize(
    "parties", [1, pytest.param(2, marks=pytest.mark.nightly)], ids=["central", "split"]
)
def test_an_honest_campaign_is_not_refuted(parties):
    found = audited(plan(parties), 60, Code(keys=Repeatable))
    assert broken(found) == set()
    assert found.epsilon_bound <= 2
    assert [each.kind for each in found.stages] == ["together"]
    assert found.auc_theory == pytest.approx(0.622, abs=0.003)  # the person reaches the bounds
    assert all(each.used > 0.9 for each in found.stages)
    assert all(abs(each.noise - 1) < 0.1 for each in found.stages if each.size > 10)


@pytest.mark.parametrize("parties", [1, 2], ids=["central", "split"])
def test_the_parties_own_keys_release_once_and_show_nothing(parties):
    """Not repeatable; the claims that are looked at fail by chance in one of 10^8 runs."""
    found = audited(plan(parties), 100)
    assert broken(found) & {SPENT, WITHIN, ONCE, FRESH} == set()
    assert found.epsilon_bound <= 2


@pytest.mark.nightly
def test_the_statistic_has_the_distribution_of_theory():
    """400 + 400 runs of a fixed seed."""
    found = audited(plan(1), 400, Code(keys=Repeatable))
    assert broken(found) == set()
    assert found.auc == pytest.approx(found.auc_theory, abs=0.06)
    assert found.epsilon_estimate == pytest.approx(2, abs=1)


class HalfNoise(Party):
    """Draws noise of half the standard deviation."""

    def _with_noise(self, stage, total):
        key = self.keys.noise_key(stage.plan, stage.index, stage.records)
        variance = Fraction(stage.stage.variance, 4)
        source = party.KeyedSource(key)
        noise = discrete_gaussian(variance, stage.stage.size, source)
        return without_noise(total + noise.astype(np.uint32))


class Silent(Party):
    """Adds no noise if it is of this role."""

    role = Role.CENTRAL

    def _with_noise(self, stage, total):
        silent = self.keys.role is self.role
        return without_noise(total) if silent else super()._with_noise(stage, total)


class SilentA(Silent):
    role = Role.A


class SilentB(Silent):
    role = Role.B


class Forgetful:
    """Keeps nothing of what was released."""

    def keep(self, plan: bytes, stage: int, released: bytes) -> bool:
        return True


@dataclass(frozen=True)
class OneKey(PartyKeys):
    """Has the same noise in every stage and campaign."""

    def noise_key(self, plan: bytes, stage: int, records: bytes) -> bytes:
        return super().noise_key(bytes(32), 0, bytes(32))


@dataclass(frozen=True)
class KeyOfAPlan(PartyKeys):
    """Has the same noise in every stage of a campaign."""

    def noise_key(self, plan: bytes, stage: int, records: bytes) -> bytes:
        return super().noise_key(plan, 0, bytes(32))


def loud(stage, rated):
    return 8 * together.contribution(stage, rated)


SPLIT, CENTRAL = 2, 1
REPEATED = Code(keys=Repeatable)
FAULTS: dict[str, tuple[Code, int, set[str]]] = {
    "half the noise": (Code(party=HalfNoise), CENTRAL, {CURVE, LAW}),
    "no noise, central": (Code(party=Silent), CENTRAL, {CURVE, LAW}),
    "no noise of a": (Code(party=SilentA), SPLIT, {CURVE, LAW}),
    "no noise of b": (Code(party=SilentB), SPLIT, {CURVE, LAW}),
    "a stage drawn twice, central": (
        Code(party=lambda keys, kept: Party(keys, Forgetful())), CENTRAL, {ONCE},
    ),
    "a stage drawn twice, split": (
        Code(party=lambda keys, kept: Party(keys, Forgetful())), SPLIT, {ONCE},
    ),
    "one seed for everything": (Code(keys=OneKey), CENTRAL, {FRESH}),
}  # fmt: skip


# Every contribution of these has a proof.
NIGHTLY = {"no noise of a", "no noise of b", "a stage drawn twice, split"}


@pytest.mark.parametrize(
    ("code", "parties", "claims"),
    [
        pytest.param(*fault, id=name, marks=[pytest.mark.nightly] if name in NIGHTLY else [])
        for name, fault in FAULTS.items()
    ],
)
def test_a_planted_fault_is_shown(code, parties, claims):
    if code.keys is PartyKeys and ONCE not in claims:
        code = replace(code, keys=Repeatable)
    found = audited(plan(parties), 300, code)
    assert claims <= broken(found)
    if CURVE in claims:
        assert found.epsilon_curve > 2


@pytest.mark.nightly
def test_one_seed_for_all_stages_of_a_campaign_is_shown():
    found = audited(plan(2, ("together", "stars")), 30, Code(keys=KeyOfAPlan))
    assert FRESH in broken(found)


@pytest.mark.parametrize("factor", [Fraction(4, 5), Fraction(5, 4)], ids=["narrow", "wide"])
def test_noise_of_another_width_is_shown(monkeypatch, factor):
    def other(variance, size, source):
        return discrete_gaussian(factor * variance, size, source)

    monkeypatch.setattr(party, "discrete_gaussian", other)
    assert broken(audited(plan(1), 150, REPEATED)) == {LAW}


@pytest.fixture
def counted_twice(monkeypatch) -> Callable[[set[int]], None]:
    """Returns a function that makes these parties count the second record of a device."""
    honest = Collection._refusal

    def plant(parties: set[int]) -> None:
        def careless(self, found):
            reason = honest(self, found)
            return None if reason is Drop.TWICE and self.party in parties else reason

        monkeypatch.setattr(Collection, "_refusal", careless)

    return plant


@pytest.mark.parametrize(
    "parties", [1, pytest.param(2, marks=pytest.mark.nightly)], ids=["central", "split"]
)
def test_a_device_that_is_counted_twice_is_shown(counted_twice, parties):
    """The attacker writes every record twice."""
    counted_twice({0, 1})
    planned = plan(parties)
    source = SeededSource(3)
    people = crowd(ITEMS, 1, source)  # alone: what is doubled is the person's vector
    found = audit(
        Subject(planned, [*(together.RatedItems.none(),) * 2, *people]), 300, source, REPEATED
    )
    assert CURVE in broken(found)
    assert found.epsilon_curve > 2


@pytest.mark.parametrize("party_", [0, 1], ids=["a", "b"])
def test_a_device_that_one_party_counts_twice_ends_the_stage(counted_twice, party_):
    counted_twice({party_})
    with pytest.raises(UserError, match="disagreement"):
        audited(plan(2), 10)


def test_a_vector_beyond_the_bound_is_not_sealed_by_a_device():
    with pytest.raises(ValueError, match="beyond the bound"):
        audited(plan(2), 10, Code(device=loud))


def wider(campaign, stage, device):
    """The fault: a proof of the largest bound that there is."""
    return replace(STATEMENT(campaign, stage, device), bound=MAX_BOUND)


STATEMENT, SEAL = sealing.statement_of, sealing.seal


@pytest.mark.parametrize("parties", [1, 2], ids=["central", "split"])
def test_parties_leave_out_vectors_beyond_the_bound(monkeypatch, parties):
    """Without the device's own check, and with a proof of a wider bound, all of them are left out,
    and too few remain."""

    def false(*given):
        with monkeypatch.context() as patched:
            patched.setattr(sealing, "within", lambda vector, bound: True)
            patched.setattr(sealing, "statement_of", wider)
            return SEAL(*given)

    monkeypatch.setattr(sealing, "seal", false)
    with pytest.raises(UserError, match="too_few"):
        audited(plan(parties), 10, Code(device=loud))


def test_devices_that_do_not_clip_are_shown_where_no_check_is_left(monkeypatch):
    for module in (sealing, collection):
        monkeypatch.setattr(module, "within", lambda vector, bound: True)
    monkeypatch.setattr(sealing, "statement_of", wider)
    for parties in (1, 2):
        found = audited(plan(parties), 100, Code(device=loud, keys=Repeatable))
        assert broken(found) >= {SPENT, CURVE, WITHIN}
        assert found.epsilon_bound > 2


def clipped_before(vector, bound):
    """The fault: the norm is right before the rounding, and not looked at after it."""
    return np.rint(vector * (bound / max(1.0, float(np.linalg.norm(vector))))).astype(np.int32)


def test_a_bound_that_is_checked_before_the_rounding_is_shown(monkeypatch):
    monkeypatch.setattr(together, "to_grid", clipped_before)
    planned = plan(2, bound=BEFORE)
    with pytest.raises(ValueError, match="beyond the bound"):
        audited(planned, 10)
    monkeypatch.setattr(sealing, "within", lambda vector, bound: True)
    monkeypatch.setattr(sealing, "statement_of", wider)
    found = audited(planned, 20)
    assert WITHIN in broken(found)
    assert found.stages[0].used > 1.1


BEFORE = 3  # a bound with which a person's entries are just above one half
