"""The log of rounds as a state: what counts, what is ignored, and what ends a stage."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.campaigns.rounds import LARGEST_STEP, Ignored, Phase, Rounds, set_digest, signed_sum
from stream_app.campaigns.verified.field import P, encode
from stream_app.wire.campaigns.round_log import (
    CHECK_BYTES,
    Abort,
    AbortReason,
    Checks,
    Close,
    NoisyShare,
    Open,
    Opened,
    Planned,
)
from tests.stream_app.wire.campaigns.plans import KEYS, campaign, stage

PLAN = campaign().digest
RECORDS = b"r" * 32
BEGIN = (Planned(campaign()), Open(PLAN, 0, (0, 5)), Close(PLAN, 0, (4, 5)))
COUNT = tuple(
    Opened(PLAN, 0, party, 4, RECORDS, bits) for party, bits in ((0, b"\x0b"), (1, b"\x0e"))
)
SET = set_digest(RECORDS, np.array([False, True, False, True]))


def share(party, *integers, records=SET, stage=0):
    return NoisyShare(PLAN, stage, party, records, encode(np.array(integers, np.uint64)))


SHARES = (share(0, 1, 2, 3, P - 90, 5, 6), share(1, P - 2, 0, 0, 0, 0, P - 6))
# Zeros are what two parties say of a proof that holds: 0 0 = 0, and 0.
CHECKS = tuple(Checks(PLAN, 0, party, 0, bytes(2 * CHECK_BYTES)) for party in (0, 1))


def after(*entries):
    rounds = Rounds()
    for entry in entries:
        rounds.apply(entry)
    return rounds


def test_a_stage_runs_from_its_plan_to_its_result():
    rounds = Rounds()
    phases = [Phase.PLANNED, Phase.OPEN, *[Phase.CLOSED] * 2, *[Phase.OPENED] * 2]
    phases += [Phase.COUNTED, Phase.COUNTED, Phase.RELEASED]
    for entry, phase in zip((*BEGIN, *COUNT, *CHECKS, *SHARES), phases, strict=True):
        assert rounds.apply(entry)
        assert rounds.stages[0].phase is phase
    stage = rounds.stages[0]
    assert stage.contributions == 2
    assert stage.result is not None
    assert stage.result.tolist() == [-1, 2, 3, -90, 5, 0]
    assert rounds.current is rounds.stages[1]


def test_a_trusted_aggregator_answers_alone():
    plan = campaign(parties=1, keys=KEYS[:1])
    rounds = after(Planned(plan), Open(plan.digest, 0, (0,)), Close(plan.digest, 0, (3,)))
    assert rounds.apply(Opened(plan.digest, 0, 0, 3, RECORDS, b"\x05"))
    records = set_digest(RECORDS, np.array([True, False, True]))
    assert rounds.apply(NoisyShare(plan.digest, 0, 0, records, bytes(24)))
    assert rounds.stages[0].phase is Phase.RELEASED


OTHER = campaign(number=2)
IGNORED = {
    "a plan again": ((), Planned(campaign()), Ignored.OLD_NUMBER),
    "a plan far above": ((), Planned(campaign(number=2**62)), Ignored.FAR_NUMBER),
    "a plan without keys": ((), Planned(campaign(number=2, keys=())), Ignored.OTHER_PARTY),
    "a plan that cannot be proved": (
        (),
        Planned(campaign(number=2, stages=(stage(), stage(bound=2049)))),
        Ignored.BEYOND_BOUND,
    ),
    "an entry of another plan": ((), Open(OTHER.digest, 0, (0, 5)), Ignored.OTHER_PLAN),
    "a later stage": ((), Open(PLAN, 1, (0, 5)), Ignored.OTHER_STAGE),
    "an open stage opened": (BEGIN[1:2], Open(PLAN, 0, (0, 6)), Ignored.OTHER_PHASE),
    "a stage closed that is not open": ((), Close(PLAN, 0, (4, 5)), Ignored.OTHER_PHASE),
    "a stage closed twice": (BEGIN[1:], Close(PLAN, 0, (9, 9)), Ignored.OTHER_PHASE),
    "an end before the beginning": (BEGIN[1:2], Close(PLAN, 0, (4, 4)), Ignored.OTHER_OFFSETS),
    "an end of another topic": (BEGIN[1:2], Close(PLAN, 0, (4, 5, 6)), Ignored.OTHER_OFFSETS),
    "an answer before the close": (BEGIN[1:2], COUNT[0], Ignored.OTHER_PHASE),
    "a second answer": ((*BEGIN[1:], COUNT[0]), COUNT[0], Ignored.TWICE),
    "a share before both answered": ((*BEGIN[1:], COUNT[0]), SHARES[0], Ignored.OTHER_PHASE),
    "a second share": ((*BEGIN[1:], *COUNT, *CHECKS, SHARES[0]), share(0, *[0] * 6), Ignored.TWICE),
    "a share of other records": (
        (*BEGIN[1:], *COUNT, *CHECKS),
        share(0, *[0] * 6, records=bytes(32)),
        Ignored.OTHER_RECORDS,
    ),
    "a short share": ((*BEGIN[1:], *COUNT, *CHECKS), share(0, 1), Ignored.WRONG_LENGTH),
    "no residue": ((*BEGIN[1:], *COUNT, *CHECKS), share(0, *[P] * 6), Ignored.WRONG_LENGTH),
    "a share before the proofs": ((*BEGIN[1:], *COUNT), SHARES[0], Ignored.OTHER_PHASE),
    "checks before both opened": ((*BEGIN[1:], COUNT[0]), CHECKS[0], Ignored.OTHER_PHASE),
    "checks twice": ((*BEGIN[1:], *COUNT, CHECKS[0]), CHECKS[0], Ignored.TWICE),
    "checks beyond the last": (
        (*BEGIN[1:], *COUNT),
        Checks(PLAN, 0, 0, 0, bytes(3 * CHECK_BYTES)),
        Ignored.WRONG_LENGTH,
    ),
    "checks from the middle": (
        (*BEGIN[1:], *COUNT),
        Checks(PLAN, 0, 0, 1, bytes(CHECK_BYTES)),
        Ignored.TWICE,
    ),
    "a share after an abort": (
        (*BEGIN[1:], *COUNT, *CHECKS, SHARES[0], Abort(PLAN, 0, AbortReason.TIMED_OUT)),
        SHARES[1],
        Ignored.OTHER_STAGE,
    ),
    "an abort after the result": (
        (*BEGIN[1:], *COUNT, *CHECKS, *SHARES),
        Abort(PLAN, 0, AbortReason.TIMED_OUT),
        Ignored.OTHER_STAGE,
    ),
}


@pytest.mark.parametrize(("before", "entry", "reason"), IGNORED.values(), ids=IGNORED)
def test_an_entry_that_does_not_fit_is_counted_and_changes_nothing(before, entry, reason):
    rounds = after(BEGIN[0], *before)
    assert not rounds.ignored
    phases = [stage.phase for stage in rounds.stages]
    assert not rounds.apply(entry)
    assert rounds.ignored == {reason: 1}
    assert [stage.phase for stage in rounds.stages] == phases


def test_a_second_party_of_a_trusted_aggregator_is_ignored():
    plan = campaign(parties=1, keys=KEYS[:1])
    rounds = after(Planned(plan), Open(plan.digest, 0, (0,)), Close(plan.digest, 0, (3,)))
    assert not rounds.apply(Opened(plan.digest, 0, 1, 3, RECORDS, b"\x05"))
    assert rounds.ignored == {Ignored.OTHER_PARTY: 1}


def test_a_number_far_above_the_newest_uses_up_no_numbers():
    rounds = after(Planned(campaign(number=2**62)))
    assert (rounds.campaign, rounds.ignored) == (None, {Ignored.FAR_NUMBER: 1})
    newest = campaign(number=LARGEST_STEP)
    assert rounds.apply(Planned(newest))
    assert not rounds.apply(Planned(campaign(number=2 * LARGEST_STEP + 1)))
    assert rounds.apply(Planned(campaign(number=2 * LARGEST_STEP)))


@pytest.mark.parametrize("bits", [b"\x04", b"\x00"])
def test_fewer_than_least_abort_the_campaign(bits):
    rounds = after(*BEGIN, COUNT[0], Opened(PLAN, 0, 1, 4, RECORDS, bits))
    assert rounds.stages[0].aborted is AbortReason.TOO_FEW
    assert rounds.current is None
    assert not rounds.apply(SHARES[0])


@pytest.mark.parametrize(("more", "reason"), [(0, None), (1, AbortReason.TOO_MANY)])
def test_more_than_a_coordinate_holds_abort_the_campaign(more, reason):
    """A sum that wrapped around would be learned as its opposite."""
    large = stage(bound=2**24)
    plan = campaign(parties=1, keys=KEYS[:1], stages=(large,))
    count = large.most + more
    opened = np.packbits(np.ones(count, np.uint8), bitorder="little").tobytes()
    rounds = after(Planned(plan), Open(plan.digest, 0, (0,)), Close(plan.digest, 0, (count,)))
    rounds.apply(Opened(plan.digest, 0, 0, count, RECORDS, opened))
    assert rounds.stages[0].aborted is reason
    assert large.most * large.bound + 16 * 20 < 2**31


def test_nothing_at_all_is_too_few():
    empty = [Opened(PLAN, 0, party, 0, RECORDS, b"") for party in (0, 1)]
    rounds = after(*BEGIN[:2], Close(PLAN, 0, (0, 5)), *empty)
    assert rounds.stages[0].aborted is AbortReason.TOO_FEW


def test_parties_that_read_other_records_release_nothing():
    for other in (
        Opened(PLAN, 0, 1, 4, bytes(32), b"\x0e"),
        Opened(PLAN, 0, 1, 3, RECORDS, b"\x06"),
    ):
        rounds = after(*BEGIN, COUNT[0], other)
        assert rounds.stages[0].aborted is AbortReason.DISAGREEMENT


def test_a_new_campaign_takes_the_place_of_an_unfinished_one():
    rounds = after(*BEGIN, Planned(OTHER))
    assert [stage.phase for stage in rounds.stages] == [Phase.PLANNED] * 2
    assert not rounds.apply(COUNT[0])
    assert rounds.apply(Open(OTHER.digest, 0, (9, 9)))


def test_a_sum_is_signed():
    words = np.array([2**32 - 1, 2**31 - 1, 2**31], "<u4").tobytes()
    assert signed_sum([words]).tolist() == [-1, 2**31 - 1, -(2**31)]
    shares = [encode(np.array(each, np.uint64)) for each in ([P - 1, 5, 9], [P - 1, 2, P - 10])]
    assert signed_sum(shares).tolist() == [-2, 7, -1]


def test_what_the_parties_do_not_agree_on_does_not_count():
    wrong = bytes(CHECK_BYTES + 36) + bytes([1]) + bytes(CHECK_BYTES - 37)
    for first, second in ((wrong, wrong), (wrong, bytes(2 * CHECK_BYTES))):
        both = (Checks(PLAN, 0, party, 0, said) for party, said in enumerate((first, second)))
        rounds = after(*BEGIN, *COUNT, *both)
        found = rounds.stages[0]
        assert found.aborted is AbortReason.TOO_FEW  # one of two
        assert (found.contributions, found.rejected) == (1, 1)


@pytest.mark.parametrize(("value", "beyond"), [(200 + 169, False), (200 + 170, True)])
def test_a_sum_beyond_what_its_contributions_can_add_up_to_is_refused(value, beyond):
    """Two contributions of at most 100, and noise of 20 sqrt 2 = 28.3."""
    rounds = after(*BEGIN, *COUNT, *CHECKS, share(0, value, *[0] * 5), share(1, *[0] * 6))
    found = rounds.stages[0]
    assert found.aborted is (AbortReason.BEYOND_BOUND if beyond else None)
    assert (found.result is None) == beyond
