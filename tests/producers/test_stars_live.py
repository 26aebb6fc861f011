"""Stars as devices and workers run them: the vectors of `producers`, shares split, noise of each
party added to its sum, the state of a replica, and the side as it is published."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from producers.campaign import history
from producers.ranking import RatedItem
from producers.ranking.in_scope import in_scope
from stream_app import wire
from stream_app.aggregation.keys import PartyKeys
from stream_app.campaigns.features import Features, features_of
from stream_app.campaigns.planning import Outline, plan
from stream_app.campaigns.public_side import PublicSide, decode_side, encode_side
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.sealing import seal
from stream_app.campaigns.stars.fold_in import fold_in, predict
from stream_app.evaluation.campaigns.runs import run
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import RandomSource, SeededSource
from stream_app.state.campaigns.part import CampaignPart
from stream_app.wire import CampaignEntry, CampaignPlan, Released
from stream_app.wire.campaigns.plan import Campaign
from tests.stream_app.aggregation.world import keys_of, read_by_all

ITEMS, EACH = 24, 12
NAMES = tuple(f"film-{number}" for number in range(ITEMS))
DELTA = Fraction(1, 10**6)


def crowd(people: int, seed: int = 0) -> list[list[RatedItem]]:
    """Return people of two tastes, who like the even films or the odd ones."""
    random = np.random.default_rng(seed)
    found = []
    for person in range(people):
        places = random.choice(ITEMS, EACH, replace=False)
        good = 1.5 + 2.2 * (places % 2 == person % 2) + places / ITEMS
        stars = np.clip(np.rint(good + random.normal(0, 0.5, EACH)), 1, 5)
        rows = zip(places.tolist(), stars.tolist(), strict=True)
        found.append([RatedItem(NAMES[at], wire.key(NAMES[at]), value) for at, value in rows])
    return found


FEATURES = features_of([(("even", "odd")[at % 2 : at % 2 + 1], 1990 + at) for at in range(ITEMS)])


def planned(
    keys: Sequence[PartyKeys],
    epsilon: int = 16,
    features: Features | None = None,
    **changes: object,
) -> Campaign:
    parties = {1: 1, 2: 2}[len(keys)]
    outline = Outline(Fraction(epsilon), DELTA, parties, ("together", "stars"), **changes)  # type: ignore[arg-type]
    public = tuple(each.public.hex() for each in keys)
    return plan(outline, NAMES, 1, public, features=features)


def released(
    campaign: Campaign, index: int, side: PublicSide | None, people: list[list[RatedItem]],
    keys: Sequence[PartyKeys], noise: RandomSource,
) -> Released:  # fmt: skip
    """Return the entry of a stage: each party opens its boxes, sums, and adds its own noise."""
    stage, seeds = campaign.stages[index], SeededSource(index)
    total = np.zeros(stage.size, np.int64)
    for number, rated in enumerate(people):
        vector = history.vector(campaign, index, rated, side)
        sent = seal(campaign, index, number.to_bytes(16), vector, seeds)
        total += read_by_all(campaign, sent, keys)
    for _ in keys:
        total += discrete_gaussian(Fraction(stage.variance), stage.size, noise)
    return Released(
        plan=campaign.digest, stage=index, contributions=len(people),
        integers=total.astype("<i4").tobytes(),
    )  # fmt: skip


def live(
    campaign: Campaign, people: list[list[RatedItem]], keys: Sequence[PartyKeys], seed: int
) -> tuple[CampaignPart, list[CampaignEntry]]:
    """Run a campaign; return the part of the state and the entries of its log."""
    part, noise = CampaignPart(len(keys)), SeededSource(seed)
    log: list[CampaignEntry] = [CampaignPlan(plan=campaign)]
    assert part.apply(log[0]) is None
    for index in range(len(campaign.stages)):
        side = part.standing.side
        published = None if side is None else decode_side(encode_side(side))
        log.append(released(campaign, index, published, people, keys, noise))
        assert part.apply(log[-1]) is None
    return part, log


@pytest.fixture(scope="module", params=[None, FEATURES], ids=["ids", "meta"])
def ended(request) -> tuple[Campaign, CampaignPart, list[CampaignEntry], list[list[RatedItem]]]:
    keys, people = keys_of(2), crowd(60)
    campaign = planned(keys, features=request.param)
    return campaign, *live(campaign, people, keys, 5), people


def test_the_live_side_is_that_of_the_evaluation_for_the_same_noise(ended) -> None:
    campaign, part, _, people = ended
    own = [in_scope(campaign.scope, rated) for rated in people]
    offline = run(campaign, own, SeededSource(5)).side
    assert part.standing.side is not None
    assert encode_side(part.standing.side) == encode_side(offline)
    other = run(campaign, own, SeededSource(6)).side
    assert encode_side(part.standing.side) != encode_side(other)


def test_with_one_party_too() -> None:
    keys, people = keys_of(1), crowd(20)
    campaign = planned(keys)
    part, _ = live(campaign, people, keys, 1)
    own = [in_scope(campaign.scope, rated) for rated in people]
    assert part.standing.side is not None
    assert encode_side(part.standing.side) == encode_side(run(campaign, own, SeededSource(1)).side)


def test_a_replay_of_the_log_gives_the_same_state_from_any_entry(ended) -> None:
    _, part, log, _ = ended
    expected = {name: array.tobytes() for name, array in part.arrays().items()}
    for stop in range(len(log) + 1):
        begun, again = CampaignPart(2), CampaignPart(2)
        for entry in log[:stop]:
            begun.apply(entry)
        again.load({name: array.copy() for name, array in begun.arrays().items()})
        for entry in log[stop:]:
            assert again.apply(entry) is None
        assert {name: array.tobytes() for name, array in again.arrays().items()} == expected


def rmse(found: list[np.ndarray]) -> float:
    return float(np.sqrt(np.mean(np.square(np.concatenate(found)))))


def test_without_noise_devices_predict_better_than_the_means_of_items() -> None:
    people, campaign = crowd(300), planned(keys_of(2))
    own = [in_scope(campaign.scope, rated[:-3]) for rated in people]
    quiet = tuple(msgspec.structs.replace(each, variance=4) for each in campaign.stages)
    side = run(msgspec.structs.replace(campaign, stages=quiet), own, SeededSource(0)).side.stars
    assert side is not None
    sums, counts = np.zeros(ITEMS), np.zeros(ITEMS)
    for rated in own:
        np.add.at(sums, rated.places, rated.stars)
        np.add.at(counts, rated.places, 1)
    errors, of_means = [], []
    for rated, known in zip(people, own, strict=True):
        tested: RatedItems = in_scope(campaign.scope, rated[-3:])
        expected = predict(side, fold_in(side, known), tested.places)
        errors.append(expected - tested.stars)
        of_means.append((sums / counts)[tested.places] - tested.stars)
    assert rmse(of_means) > 1.0  # two tastes: an item is liked or not
    assert rmse(errors) < 0.75
