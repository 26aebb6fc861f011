"""What became of a device's contributions: each outcome on a log that was made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest

from consumers.audit.campaigns.receipts import Receipt, receipts
from consumers.audit.campaigns.stated import Stated, stated
from producers.campaign.stage_requests import JoinedCampaigns, Sending, contribute
from producers.campaign.terms import Pinned
from producers.journal import Journal, PersonBudget, read_journal
from research.audits.false_devices import cheats
from stream_app import wire
from stream_app.aggregation.party import Party
from stream_app.campaigns import sealing
from stream_app.campaigns.rounds import Rounds
from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.wire.campaigns.round_log import Abort, AbortReason, Open, Planned, decode_round
from stream_app.wire.ids import partition_of
from tests.producers.journals import ANN, BOB
from tests.producers.test_campaign import DAY, DELTA, plan
from tests.stream_app.aggregation.test_party import sealed_as
from tests.stream_app.aggregation.world import Kept, World, device_id, keys_of, plan_of

OTHERS = range(10, 14)
ME = device_id(1)


class Sent:
    """The memory of a journal that sent to every stage and paid once."""

    def paid(self, plan: bytes, stage: int) -> int:
        return int(stage == 0)

    def others(self, plans: Iterable[tuple[bytes, int]]) -> int:
        return 0 if list(plans) else 3


def begun(parties: int = 2, **changes: object) -> tuple[World, list[Party]]:
    """Return a world with an open stage to which four other devices contributed."""
    keys = keys_of(parties)
    world = World(plan_of(keys, **changes))
    world.plan()
    world.open()
    for device in OTHERS:
        world.contribute(device, np.arange(5))
    return world, [Party(each, Kept()) for each in keys]


def given(world: World, device: bytes = ME) -> Receipt:
    (found,) = receipts(stated(world.log), world, device, Sent())
    assert (found.campaign, found.stage) == (1, 0)
    assert (found.epsilon, found.delta, found.paid) == (1, DELTA, 1)
    return found


def mine(world: World) -> None:
    world.contribute(1, np.arange(5))


def twice(world: World) -> None:
    world.send(world.contribute(1, np.arange(5)))


def twice_other(world: World) -> None:
    mine(world)
    world.send(sealing.seal(world.campaign, 0, ME, np.arange(5), SeededSource(7)))


def false_proof(world: World) -> None:
    statement = sealing.statement_of(world.campaign, 0, ME)
    cheat = next(iter(cheats().values()))
    world.send(sealed_as(world, 1, cheat(statement, SystemSource())))


def unopened(world: World) -> None:
    other = World(plan_of(keys_of(world.campaign.parties)))
    made = sealing.seal(other.campaign, 0, ME, np.arange(5), SeededSource(7))
    boxes = tuple(bytes(len(each)) for each in made.boxes)
    world.send(type(made)(world.campaign.digest, 0, ME, boxes))


@pytest.mark.parametrize("parties", [1, 2], ids=["central", "split"])
@pytest.mark.parametrize(
    ("send", "outcome", "words", "records"),
    [
        (mine, "counted", "of 5, 5 count; the stage is released", 1),
        (twice, "counted", "sent 2 times, the same bytes: the first counts", 2),
        (twice_other, "counted", "other bytes, so one of them is not this device's", 2),
        (unopened, "rejected", "unopened", 1),
        (lambda world: None, "absent", "holds no record", 0),
    ],
    ids=["counted", "twice", "twice, other bytes", "unopened", "never arrived"],
)
def test_a_receipt_says_what_the_log_decides(
    parties: int, send: Callable[[World], None], outcome: str, words: str, records: int
) -> None:
    world, made = begun(parties)
    send(world)
    assert given(world).outcome == ("sent" if records else "absent")
    world.close()
    assert given(world).outcome == ("sent" if records else "absent")
    world.settle(made)
    found = given(world)
    assert (found.outcome, found.records) == (outcome, records)
    assert words in found.reason
    assert all(given(world, device_id(each)).outcome == "counted" for each in OTHERS)


def test_a_false_proof_is_named_as_the_reason() -> None:
    world, made = begun()
    false_proof(world)
    world.close()
    rounds = world.settle(made)
    assert rounds.stages[0].rejected == 1
    found = given(world)
    assert (found.outcome, "by the proof" in found.reason) == ("rejected", True)


def test_a_record_after_the_close_is_late_and_one_of_a_forgotten_device_says_so() -> None:
    world, made = begun()
    world.contribute(2, np.arange(5))
    world.close(forgotten=[2])
    mine(world)
    world.settle(made)
    assert given(world).outcome == "late"
    assert "after the stage was closed" in given(world).reason
    forgotten = given(world, device_id(2))
    assert (forgotten.outcome, forgotten.reason) == ("rejected", "forgotten")


def test_where_another_campaign_took_the_place_of_an_open_one_it_says_so() -> None:
    world, _ = begun()
    mine(world)
    assert given(world).outcome == "sent"
    world.write(Planned(msgspec.structs.replace(world.campaign, number=2)))
    found = next(receipts(stated(world.log), world, ME, Sent()))
    assert (found.outcome, found.reason) == ("aborted", "another campaign took its place")


@pytest.mark.parametrize("least", [2, 9])
def test_an_aborted_stage_gives_its_reason(least: int) -> None:
    world, made = begun(least=least)
    mine(world)
    world.close()
    if least == 2:
        world.write(Abort(world.campaign.digest, 0, AbortReason.TIMED_OUT))
    else:
        world.settle(made)
    found = given(world)
    assert found.outcome == "aborted"
    assert str(AbortReason.TIMED_OUT if least == 2 else AbortReason.TOO_FEW) in found.reason


def test_what_cannot_be_read_again_is_not_believed() -> None:
    world, made = begun()
    mine(world)
    world.close()
    world.settle(made)
    other = next(each for each in world.topic if each and each[0].key != ME.hex().encode())
    other[0] = replace(other[0], value=b"")
    found = given(world)
    assert (found.outcome, "other records" in found.reason) == ("unchecked", True)
    world.gone = True
    assert given(world).reason == "its records are kept no longer"


def test_a_log_with_more_partitions_than_the_topic_is_not_checked() -> None:
    world = World(plan_of(keys_of(2)))
    world.plan()
    world.write(Open(world.campaign.digest, 0, (0,) * 4096))
    assert partition_of(ME.hex().encode(), 4096) > len(world.topic)
    assert given(world).outcome == "unchecked"


def test_a_plan_that_the_log_does_not_hold_is_said() -> None:
    (found,) = receipts(Stated(), World(plan_of(keys_of(1))), ME, Sent())
    assert (found.campaign, found.outcome) == (None, "unknown")
    assert "3 contributions or payments are of plans that this log does not hold" in found.reason


def test_a_journal_remembers_its_stages_and_payments_after_the_bytes_are_gone(
    tmp_path: Path,
) -> None:
    """The journal is read as another program would; bob has joined nothing."""
    campaign = plan(keys_of(2))
    world = World(campaign)
    world.plan()
    world.open()
    pinned = Pinned(campaign.keys, np.array([wire.key(each) for each in campaign.scope], np.uint64))
    rounds = Rounds()
    for value in world.log:
        rounds.apply(decode_round(value))
    with Journal.open(tmp_path / "journal") as journal:
        journal.enrol([ANN, BOB], PersonBudget(Fraction(20), DELTA), DAY - 1)
        message = contribute(journal, ANN, [], rounds, pinned, sending=Sending("t", DAY))
        journal.acknowledge(message.number)
        journal.compact()
    view = read_journal(tmp_path / "journal")
    ann, bob = (JoinedCampaigns.from_view(view, each) for each in (ANN, BOB))
    assert (ann.paid(campaign.digest, 0), ann.paid(campaign.digest, 1)) == (1, 0)
    assert (ann.others([(campaign.digest, 2)]), ann.others([])) == (0, 2)
    assert (bob.paid(campaign.digest, 0), bob.others([])) == (0, 0)
    (found,) = receipts(stated(world.log), world, ANN, ann)
    assert (found.outcome, found.paid) == ("absent", 1)
    world.put(message.key, message.value)
    (found,) = receipts(stated(world.log), world, ANN, ann)
    assert (found.outcome, found.records) == ("sent", 1)
    assert not list(receipts(stated(world.log), world, BOB, bob))
