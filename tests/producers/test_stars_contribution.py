"""A device in the stages of *stars*: paid once and within its bound, whatever side it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.campaign.contributing import Sending, contribute
from producers.campaign.terms import Pinned
from producers.journal import Journal, Limits, PersonBudget
from producers.ranking import RatedItem
from stream_app import wire
from stream_app.aggregation.keys import PartyKeys
from stream_app.campaigns.contribution_vectors import is_within
from stream_app.campaigns.learning import stage_learning as learning
from stream_app.campaigns.planning import Outline, plan
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.errors import UserError
from stream_app.wire.campaigns.contribution import decode_contribution
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import Open, Planned
from stream_app.wire.ids import partition_of
from tests.producers.journals import ANN, BOB
from tests.stream_app.aggregation.world import keys_of, read_by_all

TOPIC = "murmurec.contributions.v1"
ITEMS, DAY = 10, 20_000
DELTA = Fraction(1, 10**6)
HISTORY = [RatedItem(item, wire.key(item), stars) for item, stars in ((3, 5.0), (1, 2.0), (7, 4.0))]


@pytest.fixture(scope="module")
def keys() -> tuple[PartyKeys, ...]:
    return keys_of(2)


@pytest.fixture(scope="module")
def campaign(keys: tuple[PartyKeys, ...]) -> Campaign:
    outline = Outline(Fraction(1), DELTA, 2, ("together", "stars"))
    return plan(outline, range(1, ITEMS + 1), 1, tuple(each.public.hex() for each in keys))


@pytest.fixture
def journal(tmp_path: Path) -> Callable[[], Journal]:
    with Journal.open(tmp_path / "journal", limits=Limits()) as made:
        made.enrol([ANN, BOB], PersonBudget(Fraction(20), DELTA), DAY - 1)
    return lambda: Journal.open(tmp_path / "journal", limits=Limits())


def opened(campaign: Campaign, stage: int) -> Rounds:
    rounds = Rounds()
    assert rounds.apply(Planned(campaign))
    for each in rounds.stages[:stage]:
        each.phase = Phase.RELEASED
    assert rounds.apply(Open(campaign.digest, stage, (0, 0, 0)))
    return rounds


def sides(campaign: Campaign) -> list[PublicSide]:
    """Return the public side before every stage, of sums of noise."""
    random, side = np.random.default_rng(3), PublicSide(campaign.number, campaign.scope)
    found = []
    for index, stage in enumerate(campaign.stages):
        found.append(side)
        side = learning.learn(campaign, index, side, random.integers(-9999, 9999, stage.size), 50)
    return found


def send(
    journal: Journal, campaign: Campaign, stage: int, side: PublicSide | None, **changed: Any
) -> Any:
    items = np.array([wire.key(each) for each in campaign.scope], np.uint64)
    given = {"device": ANN, "rated": HISTORY, "epoch": DAY} | changed
    return contribute(
        journal, given["device"], given["rated"], opened(campaign, stage),
        Pinned(campaign.keys, items), side=side, sending=Sending(TOPIC, given["epoch"]),
    )  # fmt: skip


def vector(message: Any, campaign: Campaign, keys: tuple[PartyKeys, ...]) -> np.ndarray:
    """Return what both parties read together."""
    partition = partition_of(message.key, 4)
    found = decode_contribution(message.key, message.value, partition, 4)
    return read_by_all(campaign, found, keys)


def test_all_stages_are_paid_once_and_within_their_bounds(journal, campaign, keys) -> None:
    with journal() as opened_journal:
        for index, side in enumerate(sides(campaign)):
            sent = vector(send(opened_journal, campaign, index, side), campaign, keys)
            assert sent.any()
            assert is_within(sent, campaign.stages[index].bound)
        assert opened_journal.spent(ANN)["user"].reports == 1
        with pytest.raises(UserError, match="there is no second"):
            send(opened_journal, campaign, 7, sides(campaign)[7])


def test_a_person_without_stars_sends_zeros_of_the_same_size(journal, campaign, keys) -> None:
    liked = [RatedItem(3, wire.key(3), None)]
    with journal() as opened_journal:
        for index, side in enumerate(sides(campaign)):
            mine = send(opened_journal, campaign, index, side, rated=liked)
            zeros = send(opened_journal, campaign, index, side, device=BOB, rated=[])
            assert len(mine.value) == len(zeros.value)
            assert not vector(zeros, campaign, keys).any()
            assert vector(mine, campaign, keys).any() == (index == 0), "liked, of unknown stars"


def test_without_the_side_of_the_stages_before_nothing_is_paid(journal, campaign) -> None:
    before = sides(campaign)
    with journal() as opened_journal:
        for side in (None, before[0], before[3], before[5], replace(before[4], number=2)):
            with pytest.raises(UserError, match=r"stage 4 \(moment\) .* nothing was contributed"):
                send(opened_journal, campaign, 4, side)
        assert (opened_journal.pending(), opened_journal.spent(ANN)) == ([], {})
        send(opened_journal, campaign, 4, before[4])
        assert opened_journal.spent(ANN)["user"].reports == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, 8192.0, -8192.0])
def test_a_hostile_side_changes_neither_the_debit_nor_the_bound(
    journal, campaign, keys, value: float
) -> None:
    with journal() as opened_journal:
        for index, side in list(enumerate(sides(campaign)))[2:]:
            assert side.stars is not None
            hostile = replace(
                side,
                stars=replace(
                    side.stars,
                    **{
                        name: np.full_like(getattr(side.stars, name), value)
                        for name in ("biases", "counts", "vectors", "whitening", "spread")
                    },
                ),
            )
            message = send(opened_journal, campaign, index, hostile)
            usual = send(opened_journal, campaign, index, side, device=BOB)
            assert len(message.value) == len(usual.value)
            assert is_within(vector(message, campaign, keys), campaign.stages[index].bound)
        assert opened_journal.spent(ANN) == opened_journal.spent(BOB)
