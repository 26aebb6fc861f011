"""Campaigns in the state: a function of the log, whatever the batches, the start and the mode; an
entry that does not fit changes a count and nothing else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.campaigns import learning
from stream_app.campaigns.public_side import decode_side, encode_side
from stream_app.state.campaigns.part import CampaignPart
from stream_app.state.campaigns.progress import Ignored
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Aborted, CampaignEntry, Released, decode_many
from stream_app.wire.campaigns.round_log import AbortReason
from tests.fixtures.campaigns import (
    BOUND,
    VARIANCE,
    noisy,
    plan,
    planned,
    released,
)
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import events, log, publish, run_of

CENTRAL = replace(SMALL, privacy_mode="central")
SPLIT = replace(SMALL, privacy_mode="split")
PLAN = plan()


def aborted(stage: int = 0, campaign=PLAN) -> Aborted:
    return Aborted(plan=campaign.digest, stage=stage, reason=AbortReason.TOO_FEW)


def followed(*entries: CampaignEntry, parties: int = 1) -> CampaignPart:
    part = CampaignPart(parties)
    for entry in entries:
        assert part.apply(entry) is None
    return part


def contents(part: CampaignPart) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in part.arrays().items()}


# --- what an entry does ---------------------------------------------------------------------------


def test_a_released_sum_becomes_the_side_that_is_learned_from_it() -> None:
    part = followed(planned(PLAN))
    assert part.standing.side is None
    assert part.apply(released(PLAN)) is None
    side = part.standing.side
    assert side is not None
    assert side.together is not None
    assert (side.number, side.scope) == (1, PLAN.scope)
    expected = learning.learn_directions(noisy(), BOUND, VARIANCE)
    assert np.array_equal(side.together.vectors, expected.vectors)
    assert np.array_equal(side.together.weights, expected.weights)
    assert len(expected.weights) >= 1, "the two halves of the scope stand out of the noise"
    assert (part.standing.released, part.standing.contributions) == (1, 4000)


def test_the_noise_of_two_parties_counts_twice() -> None:
    campaign = plan(parties=2)
    part = followed(planned(campaign), released(campaign), parties=2)
    side = part.standing.side
    assert side is not None
    assert side.together is not None
    expected = learning.learn_directions(noisy(), BOUND, 2 * VARIANCE)
    assert np.array_equal(side.together.weights, expected.weights)
    assert not np.array_equal(
        expected.weights, learning.learn_directions(noisy(), BOUND, VARIANCE).weights
    )


def test_the_side_stays_public_until_a_stage_of_the_next_campaign_is_released() -> None:
    later = plan(2)
    part = followed(planned(PLAN), released(PLAN), planned(later))
    assert part.standing.plan == later
    assert (part.standing.released, part.standing.contributions) == (0, 0)
    assert part.standing.side is not None
    assert part.standing.side.number == 1
    assert part.apply(released(later, seed=5)) is None
    assert part.standing.side.number == 2


def test_an_aborted_stage_ends_its_campaign_and_keeps_what_was_released() -> None:
    part = followed(planned(PLAN), released(PLAN), aborted(1))
    assert part.standing.next_stage is None
    assert part.standing.side is not None
    assert part.aborted_total == 1
    assert part.apply(released(PLAN, 1)) is Ignored.OTHER_STAGE
    assert part.apply(aborted(1)) is Ignored.OTHER_STAGE
    assert part.apply(planned(plan(2))) is None
    assert part.aborted_total == 1


SHORT = Released(plan=PLAN.digest, stage=1, contributions=9, integers=bytes(40))
KIND = msgspec.structs.replace(PLAN.stages[0], kind="stars")
SIZE = msgspec.structs.replace(PLAN.stages[0], size=35)
LARGE = msgspec.structs.replace(PLAN.stages[0], size=45)
NOT_FITTING: dict[str, tuple[CampaignEntry, Ignored]] = {
    "a second sum of a stage": (released(PLAN, 0, seed=9), Ignored.OTHER_STAGE),
    "a sum out of turn": (released(PLAN, 2), Ignored.OTHER_STAGE),
    "a sum of another plan": (released(plan(1, scope=tuple(range(1, 9))), 1), Ignored.OTHER_PLAN),
    "an end of another plan": (aborted(1, plan(2)), Ignored.OTHER_PLAN),
    "an end of a stage that is released": (aborted(0), Ignored.OTHER_STAGE),
    "a short sum": (SHORT, Ignored.WRONG_LENGTH),
    "a sum of too few": (released(PLAN, 1, contributions=1), Ignored.TOO_FEW),
    "the plan once more": (planned(PLAN), Ignored.OLD_NUMBER),
    "another plan of its number": (planned(plan(1, delta=Fraction(1, 10**5))), Ignored.OLD_NUMBER),
    "a plan of two parties": (planned(plan(2, parties=2)), Ignored.OTHER_PARTIES),
    "a plan without keys": (planned(plan(2, keys=())), Ignored.OTHER_PARTIES),
    "a plan of an unknown kind": (planned(plan(2, stages=(KIND,))), Ignored.UNKNOWN_STAGE),
    "a plan of no triangle": (planned(plan(2, stages=(SIZE,))), Ignored.UNKNOWN_STAGE),
    "a plan beyond its scope": (planned(plan(2, stages=(LARGE,))), Ignored.UNKNOWN_STAGE),
}


@pytest.mark.parametrize(("entry", "reason"), NOT_FITTING.values(), ids=NOT_FITTING)
def test_an_entry_that_does_not_fit_is_counted_and_changes_nothing_else(
    entry: CampaignEntry, reason: Ignored
) -> None:
    part = followed(planned(PLAN), released(PLAN))
    before, standing = contents(part), part.standing
    assert part.apply(entry) is reason
    after = contents(part)
    assert part.standing is standing
    assert part.ignored == {str(reason): 1}
    assert {name for name in after if after[name] != before[name]} == {"counts"}
    assert part.apply(released(PLAN, 1, seed=3)) is None, "the stage that is due still counts"


def test_every_reason_is_seen() -> None:
    seen = {reason for _, reason in NOT_FITTING.values()} | {Ignored.NOT_LEARNED}
    assert seen == set(Ignored)


def test_a_sum_from_which_nothing_is_learned_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr(learning, "learn_directions", refuse)
    part = followed(planned(PLAN))
    assert part.apply(released(PLAN)) is Ignored.NOT_LEARNED
    assert part.standing.released == 0


@pytest.mark.parametrize("value", [-(2**31), 2**31 - 1], ids=["least", "greatest"])
def test_the_largest_integers_can_be_learned_from(value: int) -> None:
    integers = np.full(PLAN.stages[0].size, value).astype("<i4").tobytes()
    entry = Released(plan=PLAN.digest, stage=0, contributions=2, integers=integers)
    part = followed(planned(PLAN), entry)
    assert part.standing.side is not None


# --- the state of a log ---------------------------------------------------------------------------

ENTRIES: tuple[CampaignEntry, ...] = (
    planned(PLAN), released(PLAN), released(PLAN, 1, seed=1), aborted(1), planned(plan(2)),
    released(plan(2)), planned(plan(3, parties=2, scope=("a" * 120, *range(900)))), SHORT,
)  # fmt: skip
ROUNDS = 4
History = list[list[CampaignEntry]]
histories = st.lists(
    st.lists(st.sampled_from(ENTRIES), max_size=3), min_size=ROUNDS, max_size=ROUNDS
)


def play(
    replica: Replica, history: History, most: int = 50, first: int = 1, last: int = ROUNDS
) -> Replica:
    """Apply rounds, each of which begins with its entries, in runs of at most `most` records."""
    records = [publish(e) for e in events(np.random.default_rng(1), 60, devices=6)]
    parts = log(records, replica.spec.partitions)
    for number in range(first, last + 1):
        for entry in history[number - 1]:
            replica.follow(entry)
        ends = [len(part) * number // ROUNDS for part in parts]
        for p, part in enumerate(parts):
            for at in range(len(part) * (number - 1) // ROUNDS, ends[p], most):
                run = run_of(part, at, min(ends[p], at + most), p)
                replica.apply(decode_many(run, replica.spec.intake))
        replica.end_round(number, ends)
    return replica


@settings(max_examples=40, deadline=None)
@given(histories, histories, st.integers(1, ROUNDS - 1), st.sampled_from([CENTRAL, SPLIT]))
def test_a_state_that_is_loaded_at_a_cut_continues_like_every_other(
    history: History, other: History, cut: int, spec: StateSpec
) -> None:
    """In other runs of records, from the arrays at a cut, in a replica that held another state."""
    whole = play(Replica(spec), history)
    begun, again = play(Replica(spec), history, 7, last=cut), play(Replica(spec), other)
    model, ledger = begun.model_arrays(), begun.ledger.arrays()
    again.load(model, ledger, begun.cut, begun.end_offsets, begun.origin)
    assert again.model_digest() == begun.model_digest()
    play(again, history, 3, first=cut + 1)
    assert again.model_digest() == whole.model_digest()
    assert again.ledger_digest() == whole.ledger_digest()


@settings(max_examples=20, deadline=None)
@given(histories)
def test_where_the_privacy_mode_is_local_campaigns_leave_no_trace(history: History) -> None:
    replica, without = Replica(SMALL), Replica(SMALL)
    play(replica, history)
    play(without, [[]] * ROUNDS)
    assert replica.model_digest() == without.model_digest()
    assert not [name for name in replica.model_arrays() if name.startswith("campaigns")]


def test_a_released_sum_is_in_the_digest() -> None:
    digests = {
        play(Replica(CENTRAL), [[planned(PLAN)], entries, [], []]).model_digest()
        for entries in ([], [released(PLAN)], [released(PLAN, seed=1)], [released(PLAN, 1)])
    }
    assert len(digests) == 4


def test_a_mode_is_part_of_the_specification() -> None:
    assert len({spec.digest for spec in (SMALL, CENTRAL, SPLIT)}) == 3
    with pytest.raises(ValueError, match="privacy_mode none: must be one of local, central, split"):
        replace(SMALL, privacy_mode="none")


def test_a_state_is_taken_over_and_started_over_with_its_campaigns() -> None:
    replica = play(Replica(CENTRAL), [[planned(PLAN), released(PLAN)], [], [], []])
    digest, other = replica.model_digest(), Replica(CENTRAL)
    other.take(replica)
    assert other.model_digest() == digest
    other.restart(other.origin)
    assert other.campaigns is not None
    assert other.campaigns.standing.plan is None


# --- damaged arrays -------------------------------------------------------------------------------

FULL = followed(planned(PLAN), released(PLAN))


def damaged(name: str, **changes: int) -> dict[str, np.ndarray]:
    arrays = {key: array.copy() for key, array in FULL.arrays().items()}
    for place, value in changes.items():
        arrays[name][int(place.removeprefix("at_"))] = value
    return arrays


DAMAGED = {
    "a count below 0": damaged("counts", at_4=-1),
    "a plan that is longer than its array": damaged("counts", at_0=10**6),
    "a plan that is shorter than its contents": damaged("counts", at_0=0),
    "another byte in the plan": damaged("plan", at_0=0),
    "a space in the plan": damaged("plan", at_1=32),
    "another byte in the side": damaged("side", at_0=0),
    "more stages than the plan has": damaged("counts", at_2=3),
    "a campaign that is aborted twice": damaged("counts", at_3=2),
}


@pytest.mark.parametrize("arrays", DAMAGED.values(), ids=DAMAGED)
def test_arrays_of_no_log_are_refused(arrays: dict[str, np.ndarray]) -> None:
    part = followed(planned(PLAN))
    held = contents(part)
    with pytest.raises(ValueError, match=r"."):
        part.load(arrays)
    assert contents(part) == held


# --- the bytes of a side --------------------------------------------------------------------------


def test_a_side_has_one_form_in_bytes() -> None:
    side = FULL.standing.side
    assert side is not None
    found = decode_side(encode_side(side))
    assert encode_side(found) == encode_side(side)
    assert found.together is not None
    assert side.together is not None
    assert np.array_equal(found.together.vectors, side.together.vectors)


@given(st.binary(max_size=200))
def test_other_bytes_are_no_side(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_side(value)


def side_of(**changes: object) -> bytes:
    fields = {"number": 1, "scope": [1, 2], "v": 1}
    matrix = {"items": 2, "vectors": np.ones(4, "<f4").tobytes(), "weights": bytes(8)}
    return msgspec.msgpack.encode({**fields, "together": matrix | changes})


REFUSED = {
    "a direction too many": side_of(weights=bytes(12)),
    "half a number": side_of(vectors=bytes(15)),
    "more items than the scope": side_of(items=4, weights=bytes(4)),
    "an infinite number": side_of(vectors=np.full(4, np.inf, "<f4").tobytes()),
}


@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_a_side_that_is_none_is_refused(value: bytes) -> None:
    assert decode_side(side_of()).number == 1
    with pytest.raises(ValueError, match=r"numbers|number"):
        decode_side(value)
