"""The side of a campaign reaches its topic: after each stage, once, also by the next owner."""

from __future__ import annotations

import pytest

from stream_app.agents.public_tables import SidePublisher, Versions
from stream_app.campaigns.public_side import PublishedSide, decode_published, encode_side
from stream_app.errors import UserError
from stream_app.state.campaigns.part import CampaignPart
from stream_app.wire import Aborted
from stream_app.wire.campaigns.round_log import AbortReason
from stream_app.wire.limits import MAX_TABLE_BYTES
from stream_app.wire.public_tables import (
    TableReader,
    TableRecord,
    encode_table_record,
    table_records,
)
from tests.fixtures.campaigns import plan, planned, released
from tests.stream_app.agents.test_campaigns import Live


class Topic:
    """The topic in memory; `failing` records from now on are written, and then Kafka is gone."""

    def __init__(self) -> None:
        self.records: list[TableRecord] = []
        self.failing: int | None = None
        self.time = 0.0

    def write(self, records: list[TableRecord]) -> None:
        self.records += records[: self.failing]
        if self.failing is not None:
            raise UserError("the broker acknowledged nothing")

    def reader(self) -> TableReader:
        reader = TableReader()
        for record in self.records:
            reader.learn(record.key, encode_table_record(record))
        return reader

    def owner(self) -> SidePublisher:
        versions = Versions(lambda: self.reader().newest())
        return SidePublisher(versions, self.write, lambda: self.time)

    @property
    def side(self) -> PublishedSide | None:
        newest = self.reader().newest()
        return None if newest is None else decode_published(newest.table)


def part(*numbers: int) -> CampaignPart:
    """Return a state that follows these plans, each with its first stage released."""
    found = CampaignPart(1)
    for number in numbers:
        found.apply(planned(plan(number)))
        found.apply(released(plan(number), seed=number))
    return found


def test_each_stage_is_published_once() -> None:
    topic, state = Topic(), CampaignPart(1)
    owner = topic.owner()
    for count, entry in enumerate([planned(plan()), released(plan()), released(plan(), 1, 9)]):
        state.apply(entry)
        for _ in range(3):
            owner.publish(state.standing, 10 + count)
            topic.time += 31
        found = topic.side
        assert (found.released if found else 0) == count
    assert len(topic.records) == 4, "a page and a manifest for each stage"
    assert found is not None
    assert state.standing.side is not None
    assert encode_side(found.side) == encode_side(state.standing.side)
    assert (found.plan, found.side.number) == (plan().digest, 1)


@pytest.mark.parametrize("written", [0, 1])
def test_the_next_owner_publishes_what_the_killed_one_did_not(written: int) -> None:
    topic, state = Topic(), part(1)
    topic.owner().publish(state.standing, 1)
    state.apply(released(plan(), 1, seed=5))
    topic.failing = written
    with pytest.raises(UserError):
        topic.owner().publish(state.standing, 2)
    assert topic.side is not None
    assert topic.side.released == 1, "the earlier version is whole"
    topic.failing = None
    topic.owner().publish(state.standing, 3)
    assert topic.side.released == 2


def test_an_owner_whose_write_failed_writes_again() -> None:
    topic, state = Topic(), part(1)
    owner = topic.owner()
    topic.failing = 1
    with pytest.raises(UserError):
        owner.publish(state.standing, 1)
    topic.failing = None
    owner.publish(state.standing, 1)
    assert topic.side is not None


def test_an_aborted_campaign_leaves_the_side_of_the_one_before() -> None:
    topic, state = Topic(), part(1)
    topic.owner().publish(state.standing, 1)
    state.apply(planned(plan(2)))
    for entry in (None, Aborted(plan(2).digest, 0, AbortReason.TOO_FEW)):
        if entry is not None:
            state.apply(entry)
        topic.owner().publish(state.standing, 2)
        assert topic.side is not None
        assert (topic.side.side.number, topic.side.plan) == (1, plan(1).digest)
    assert len(topic.records) == 2


def test_an_older_side_by_a_former_owner_is_replaced() -> None:
    """It was stopped in the middle of a publication and went on after the newer one."""
    topic, state = Topic(), part(1)
    owner = topic.owner()
    owner.publish(state.standing, 1)
    late = topic.records.copy()
    state.apply(planned(plan(2)))
    state.apply(released(plan(2), seed=2))
    owner.publish(state.standing, 2)
    topic.records += late
    assert topic.side is not None
    assert topic.side.side.number == 1
    owner.publish(state.standing, 3)
    assert topic.side.side.number == 1, "not looked at yet"
    topic.time += 31
    owner.publish(state.standing, 3)
    assert topic.side.side.number == 2


def test_a_side_beyond_what_readers_take_is_passed_over_and_not_tried_all_the_time() -> None:
    topic, state = Topic(), part(1)
    reads = 0

    class Large(Versions):
        def due(self, table: bytes, cut: int) -> list[TableRecord]:
            nonlocal reads
            reads += 1
            return list(table_records(bytes(MAX_TABLE_BYTES + 1), cut, 0))

    owner = SidePublisher(Large(lambda: None), topic.write, lambda: topic.time)
    for _ in range(3):
        owner.publish(state.standing, 1)
    assert reads == 1
    assert topic.records == []


def test_nothing_is_published_before_the_sum_is_in_the_state() -> None:
    """A sum in the log of rounds, and in the cut log, is no side yet: the state decides."""
    live, topic = Live(), Topic()
    live.world.plan()
    owner = live.owner()
    sides = topic.owner()
    shown: list[int] = []

    def publish(standing) -> None:
        sides.publish(standing, len(live.cut_log))
        shown.append(topic.side.released if topic.side else 0)
        assert shown[-1] == live.part.standing.released

    owner.publish = publish
    for _ in range(3):
        live.turn(owner)
        live.time += 60
        live.answer()
    assert shown == [0, 0, 0]
    live.run(lambda: owner)
    assert topic.side is not None
    assert topic.side.released == 2
    assert sorted(set(shown)) == [0, 1, 2], "every stage, before the next one opens"


def test_the_next_plan_waits_for_the_side_of_the_one_before() -> None:
    """The next campaign is begun while the last sum is on its way through the cut log."""
    live, topic = Live(), Topic()
    live.world.plan()
    owner, sides = live.owner(), topic.owner()
    owner.publish = lambda standing: sides.publish(standing, 1)
    while live.world.rounds().stages[1].result is None:
        live.turn(owner)
        live.time += 60
        live.cut()
        live.answer()
    live.turn(owner)  # appends the last sum
    live.world.campaign = plan(2, keys=live.campaign.keys)
    live.world.plan()
    live.turn(owner)
    live.cut()
    live.turn(owner)
    assert topic.side is not None
    assert (topic.side.side.number, topic.side.released) == (1, 2)
    live.time += 60
    live.cut()
    assert live.part.standing.plan == live.world.campaign
