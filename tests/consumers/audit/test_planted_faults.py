"""Each fault that a deployment may have, planted into crafted logs: the observer finds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from consumers.audit import Finding, PublicConfiguration, observe
from consumers.audit.configuration import canaries_from
from consumers.audit.findings import Verdict
from consumers.audit.observed import Source
from consumers.audit.topic_reading import _record
from stream_app import wire
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from tests.consumers.audit.worlds import (
    CELL,
    EPOCH,
    OPEN,
    PUBLIC,
    RR,
    World,
    emission_share,
    emit,
    honest,
    keys,
    levels,
    rate,
    rated,
    violated,
)

LOUD, FAINT = registry.parse("cell:5:4"), registry.parse("cell:5:1/2")
PEOPLE = 60
TOLD_APART = "no person is told apart by more than the budget of 20 nats"
SPENT = "no account releases more than the budget of 20 admits"
PREDICTED = "other reports predict none beyond its noise"
REPLIES = "replies have one length in bytes and in entries"


def only(findings: dict[str, Finding], claim: str) -> Finding:
    """Return the finding of a claim, which is the only one that is violated."""
    assert violated(findings) == {claim}
    return findings[claim]


def test_presence_that_shows_by_who_emits_is_found_with_the_list_of_enrolled_accounts() -> None:
    world, devices = honest(1)
    silent = [world.device() for _ in range(20)]  # enrolled, and have rated nothing
    found = world.found(**PUBLIC, enrolled=frozenset(devices + silent))
    assert only(found, "cell:5:2: every enrolled account emits in every epoch").figures["never"]


@pytest.mark.parametrize("ahead", [1, 1000, 2**31])
def test_a_record_of_a_later_epoch_hides_no_silent_account(ahead: int) -> None:
    world, devices = honest(1)
    silent = [world.device() for _ in range(20)]
    early = min(
        (world.device() for _ in range(200)), key=lambda d: emission_share(d, EPOCH + ahead)
    )
    for device in (early, devices[0]):  # a stranger, and a name that others use
        emit(world, device, keys([]), EPOCH + ahead, scope=keys(range(80, 120)), time=0.0)
    found = world.found(**PUBLIC, enrolled=frozenset(devices + silent))
    claim = "cell:5:2: every enrolled account emits in every epoch"
    assert float(found[claim].figures["never"]) >= 15


def test_an_account_whose_moment_has_not_come_is_not_accused() -> None:
    """A third of the newest day has passed; one forger is ahead of the others."""
    world = World(27)
    devices = [world.device() for _ in range(200)]
    passed = [each for each in devices if emission_share(each, EPOCH) < 1 / 3]
    ahead = max(devices, key=lambda d: emission_share(d, EPOCH))
    for device in [*passed, ahead]:
        emit(world, device, keys([]), EPOCH)
    assert violated(world.found(**PUBLIC, enrolled=frozenset(devices))) == set()


def test_presence_that_shows_by_an_epoch_without_a_message_is_found() -> None:
    world = World(2)
    devices = [world.device() for _ in range(PEOPLE)]
    for epoch in range(EPOCH, EPOCH + 3):
        for place, device in enumerate(devices):
            if epoch != EPOCH + 1 or place % 4:  # a quarter has nothing new in the second epoch
                turn = keys(range(40 * (epoch - EPOCH), 40 * (epoch - EPOCH) + 40))
                emit(world, device, keys([]), epoch, scope=turn)
    claim = "cell:5:2: every enrolled account emits in every epoch"
    assert only(world.found(), claim).figures["violations"] == PEOPLE // 4


def test_a_device_that_is_silent_often_is_found_also_if_it_makes_up_for_it() -> None:
    world = World(2)
    devices = [world.device() for _ in range(PEOPLE)]
    turns = [keys(range(40 * turn, 40 * turn + 40)) for turn in range(3)]
    for turn, scope in enumerate(turns):
        for place, device in enumerate(devices):
            late = place % 4 == 0  # a quarter emits only when it has rated
            if not late or turn != 1:
                cells = np.concatenate(turns[1:]) if late and turn == 2 else scope
                emit(world, device, keys([]), EPOCH + turn, scope=cells)
    claim = "cell:5:2: every enrolled account emits in every epoch"
    assert only(world.found(), claim).figures["violations"] == PEOPLE // 4


def test_a_number_of_cells_that_depends_on_the_ratings_is_found() -> None:
    world = World(3)
    for _ in range(PEOPLE):
        items = rated(world, 30)
        emit(world, world.device(), items, EPOCH, scope=keys(range(40 + len(items))))
    only(world.found(), "cell:5:2: every account sends as many cells and messages as the others")


def test_moments_that_depend_on_the_ratings_are_found() -> None:
    world = World(4)
    for _ in range(300):
        items = rated(world, 40)
        emit(world, world.device(), items, EPOCH, time=float(len(items)) + world.rng.uniform())
    found = world.found()
    assert violated(found) == {
        "cell:5:2: moments follow from pseudonym and epoch",
        "cell:5:2: moments do not go with what is reported",
    }


def test_items_in_the_order_of_rating_are_found_in_messages_of_the_moment() -> None:
    world = World(5)
    for _ in range(PEOPLE):
        device = world.device()
        for part in np.array_split(rated(world), 2):
            items = world.rng.permutation(part)
            world.send(device, items, levels(world.rng, len(items)))
    claim = "messages at the moment of rating list their items by key"
    assert only(world.found(), claim).figures["violations"]


def ratings_first(turn: NDArray[np.uint64], inputs: NDArray[np.uint8]) -> NDArray[np.int64]:
    order = np.random.default_rng(int(inputs.sum())).permutation(len(turn))
    return order[np.argsort(inputs[order] == CELL.levels, kind="stable")]


def a_premiere_first(turn: NDArray[np.uint64], inputs: NDArray[np.uint8]) -> NDArray[np.int64]:
    order = np.random.default_rng(int(inputs.sum())).permutation(len(turn))
    return order[np.argsort(turn[order] != 17, kind="stable")]


def nearly_sorted(turn: NDArray[np.uint64], inputs: NDArray[np.uint8]) -> NDArray[np.int64]:
    order = np.arange(len(turn))
    order[:4] = order[3::-1]
    return order


def a_rotation(turn: NDArray[np.uint64], inputs: NDArray[np.uint8]) -> NDArray[np.int64]:
    return np.roll(np.arange(len(turn)), 1 + int(inputs[0]))


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        (ratings_first, "report"),
        (a_premiere_first, "items"),
        (nearly_sorted, "neighbours"),
        (a_rotation, "neighbours"),
    ],
)
def test_a_biased_shuffle_is_found(
    order: Callable[[NDArray[np.uint64], NDArray[np.uint8]], NDArray[np.int64]], shown: str
) -> None:
    world = World(6)
    for _ in range(2 * PEOPLE):
        items = world.rng.choice(40, 10, replace=False).astype(np.uint64)
        emit(world, world.device(), items, EPOCH, order=order)
    found = only(world.found(), "the order of an epoch's message is a uniform shuffle")
    assert str(found.figures["worst"]).startswith(shown)


def test_pseudonyms_of_several_journals_are_linked() -> None:
    world = World(7)
    for _ in range(PEOPLE):
        items = rated(world, 40)
        rate(world, world.device(), items)  # one journal for each mechanism
        emit(world, world.device(), items, EPOCH)
        emit(world, world.device(), items, EPOCH, mechanism=LOUD, scope=keys(range(300)))
    found = world.found((RR, CELL, LOUD), budget=1e6)
    linked = only(found, "pseudonyms of different mechanisms cannot be linked")
    assert float(linked.figures["clear"]) > 0.8


def test_a_scope_beyond_the_public_list_is_found() -> None:
    world = World(9)
    for _ in range(PEOPLE):
        emit(world, world.device(), keys([]), EPOCH, scope=keys(range(50)))
    claim = "cell:5:2: only items of the public scope are reported"
    found = world.found(scope=keys(range(40)))
    assert only(found, claim).figures["violations"] == 10


def test_a_number_that_is_used_again_with_other_bytes_is_found_and_a_redelivery_is_not() -> None:
    world, devices = honest(10)
    again = world.records[0]
    world.records.append(again)
    assert violated(world.found(**PUBLIC)) == set()
    world.send(devices[0], keys([250]), levels(world.rng, 1), seq=1)
    only(world.found(**PUBLIC), "a number is never used again with other bytes")
    kept = observe(world.records, PublicConfiguration((RR, CELL))).messages
    assert np.count_nonzero((kept.device == 0) & (kept.seq == 1)) == 2  # both were released


def test_numbers_that_are_missing_are_found() -> None:
    world, devices = honest(11)
    world.send(devices[0], keys([250]), levels(world.rng, 1), seq=9)
    gap = only(world.found(**PUBLIC), "the numbers of a device have no gaps")
    assert gap.figures["missing"] == 4


def test_less_noise_than_claimed_is_found() -> None:
    world = World(12)
    for _ in range(PEOPLE):
        emit(world, world.device(), rated(world), EPOCH, drawn_by=LOUD)
    claims = {"cell:5:2: reports follow the claimed channel", f"{CELL.id}: {PREDICTED}"}
    assert violated(world.found()) == claims


def test_less_noise_on_values_is_found_where_people_agree() -> None:
    world = World(13)
    for _ in range(200):
        items = np.sort(rated(world))
        inputs = np.where(items < 20, 4, levels(world.rng, len(items))).astype(np.uint8)
        world.send(world.device(), items, inputs, drawn_by=registry.parse("rr:5:4"))
    only(world.found(), "rr:5:2: reports follow the claimed channel")


@pytest.mark.parametrize("mechanisms", [(RR, CELL), (CELL, registry.parse("cell:10:1"))])
@pytest.mark.parametrize("actual", [LOUD, FAINT], ids=["less noise", "more noise"])
def test_a_canary_finds_noise_that_is_wrong_in_either_direction(
    actual: registry.Mechanism, mechanisms: tuple[registry.Mechanism, ...]
) -> None:
    world = World(14)
    canaries = [world.device() for _ in range(4)]
    for device in canaries:
        emit(world, device, keys([]), EPOCH, scope=keys(range(300)), drawn_by=actual)
    canaries_of = canaries_from([each.hex() for each in canaries], mechanisms)
    found = world.found(mechanisms, canaries=canaries_of)
    assert "cell:5:2: canaries have exactly the claimed noise" in violated(found)


def test_a_source_that_is_the_same_on_every_device_is_found() -> None:
    world = World(18)
    for _ in range(10):
        world.noise = SeededSource(99)
        world.send(world.device(), keys(range(60)), np.full(60, 4, np.uint8))
    assert "rr:5:2: the noise of every report is its own" in violated(world.found())


def test_sealed_replies_have_the_length_of_others() -> None:
    world, _ = honest(19)
    for _ in range(3):
        world.reply(4, sealed=True)
    assert not violated(world.found(**PUBLIC))


@pytest.mark.parametrize("sealed", [False, True])
def test_replies_of_differing_length_are_found(sealed: bool) -> None:
    world, _ = honest(19)
    world.reply(5, sealed=sealed)
    assert only(world.found(**PUBLIC), REPLIES).figures["lengths"] == 2


def test_replies_whose_length_goes_up_and_down_are_found() -> None:
    world, _ = honest(19)
    for _ in range(10):
        world.reply(4 + wire.LIST_LENGTH)  # as one longer id in the list would make it
        world.reply(4)
    assert only(world.found(**PUBLIC), REPLIES).figures["lengths"] == 2


def test_raw_reports_do_not_pass_for_reports_within_the_budget() -> None:
    world = World(26)
    for _ in range(5):
        items = rated(world)
        world.send(world.device(), np.sort(items), levels(world.rng, len(items)), OPEN)
    found = world.found((OPEN,), budget=20.0)
    assert found[TOLD_APART].verdict is found[SPENT].verdict is Verdict.UNTESTABLE


def test_a_cell_that_is_reported_again_is_found_and_rounds_allow_it() -> None:
    world = World(20)
    devices = [world.device() for _ in range(PEOPLE)]
    for epoch in (EPOCH, EPOCH + 2):
        for device in devices:
            emit(world, device, keys([]), epoch)
    only(world.found(budget=1e6), "a cell is reported once")
    assert violated(world.found(rounds=2, budget=1e6)) == set()


def test_what_stands_beside_an_event_is_found() -> None:
    world, devices = honest(21)
    world.send(devices[0], keys([250]), levels(world.rng, 1), headers=1)
    only(world.found(**PUBLIC), "a record carries nothing beside its event and tag")
    value = wire.encode(wire.Event(devices[1], 5, RR.id, EPOCH, keys([251]), np.zeros(1, np.uint8)))
    extra = bytes([value[0] + 1]) + value[1:] + b"\xa1x\x81\xa5hello\xc0"
    world.append(Source.RATINGS, devices[1].hex().encode(), extra, 0)
    found = only(world.found(**PUBLIC), "a record carries nothing beside its event and tag")
    assert found.figures["violations"] == 2


@dataclass
class Consumed:
    """A record with nothing but headers, as a Kafka client gives it."""

    given: list[tuple[str, bytes | None]] | None

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.given

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def partition(self) -> int:
        return 0

    offset, key, value = partition, partition, partition


def test_one_tag_is_all_that_the_headers_of_a_device_may_hold() -> None:
    tag = ("tag", bytes(16))
    for headers, odd in (
        *((None, 0), ([], 0), ([tag], 0), ([tag, tag], 2), ([("mood", bytes(16))], 1)),
        *(([("tag", bytes(17))], 1), ([("tag", None)], 1)),
    ):
        assert _record(Consumed(headers), Source.RATINGS).headers == odd
    assert _record(Consumed([tag]), Source.REPLIES).headers == 1


def test_reports_that_no_input_gives_and_foreign_mechanisms_are_counted() -> None:
    world, devices = honest(22)
    bad = wire.Event(devices[0], 9, RR.id, EPOCH, keys([250]), np.array([7], np.uint8))
    world.append(Source.RATINGS, bad.key, wire.encode(bad), 0)
    found = world.found(**PUBLIC)
    claim = "every record is a valid event of an allowed mechanism, under its pseudonym"
    assert "outside" in only(found, claim).measured


def test_a_budget_that_reports_alone_exceed_is_found() -> None:
    world = World(23)
    for _ in range(PEOPLE):
        emit(
            world, world.device(), keys(range(0, 300, 6)), EPOCH, mechanism=LOUD,
            scope=keys(range(300)),
        )  # fmt: skip
    findings = world.found((LOUD,), budget=20.0)
    assert violated(findings) == {TOLD_APART, SPENT}
    found = findings[TOLD_APART]
    assert float(found.figures["precision"]) > 0.6
    assert float(found.figures["recall"]) > 0.6


def test_the_same_log_without_a_fault_is_not_accused() -> None:
    world, devices = honest(24)
    assert violated(world.found(**PUBLIC, enrolled=frozenset(devices))) == set()


COUNTS = [(93, 1, True), (94, 1, False), (180, 800, True), (220, 800, False)]


@pytest.mark.parametrize(("reports", "days", "kept"), COUNTS)
def test_more_reports_than_the_budget_admits_are_found_also_if_they_say_little(
    reports: int, days: int, kept: bool
) -> None:
    """A whole-person 20 holds 93 reports of 1/2 in any 365 days."""
    world, small = World(28), registry.parse("rr:5:1/2")
    for device in (world.device(), world.device()):
        for number in range(reports):
            epoch, item = EPOCH + number * days // (reports - 1), keys([number])
            world.send(device, item, levels(world.rng, 1), small, epoch=epoch)
    found = world.found((small,), budget=20.0)
    assert violated(found) == (set() if kept else {SPENT})


def test_a_moment_that_is_later_by_what_was_rated_is_found_although_the_order_is_right() -> None:
    """20 ms for each rating, in an epoch in which devices send minutes apart."""
    world = World(29)
    for _ in range(300):
        device, items = world.device(), world.rng.choice(40, int(world.rng.integers(41)), False)
        moment = emission_share(device, EPOCH) * 80_000 + len(items) * 0.02
        emit(world, device, items.astype(np.uint64), EPOCH, time=moment)
    only(world.found(), "cell:5:2: moments do not go with what is reported")


@pytest.mark.parametrize("ordered", [False, True], ids=["shuffled", "by key"])
def test_ratings_in_the_first_of_two_messages_are_found(ordered: bool) -> None:
    world, scope = World(30), keys(range(wire.MAX_RATINGS + 200))
    for _ in range(6):
        device = world.device()
        rated_items = world.rng.choice(len(scope), 900, replace=False)
        first = np.concatenate((rated_items, np.setdiff1d(scope, rated_items)))[: len(scope) // 2]
        for part in (first, np.setdiff1d(scope, first)):
            part = np.sort(part) if ordered else world.rng.permutation(part)
            emit(
                world, device, rated_items.astype(np.uint64), EPOCH, scope=part.astype(np.uint64),
                order=lambda turn, _: np.arange(len(turn)),
            )  # fmt: skip
    only(world.found(), "the order of an epoch's message is a uniform shuffle")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"}", b',"x":{"mood":3}}'),
        lambda text: text.replace(b'"seq"', b'"s\\u0065q"'),
        lambda text: text.replace(b",", b" ,", 1),
        lambda text: text + b"\n\n",
    ],
)
def test_bytes_beside_an_event_in_json_are_found(change: Callable[[bytes], bytes]) -> None:
    world, devices = honest(21)
    event = wire.Event(devices[1], 5, RR.id, EPOCH, keys([251]), np.zeros(1, np.uint8))
    plain = wire.encode_json(event)
    world.append(Source.RATINGS, event.key, plain, 0)
    spaced = replace(event, seq=6, items=keys([252]))
    text = json.dumps(json.loads(wire.encode_json(spaced))).encode()  # spaces after : and ,
    world.append(Source.RATINGS, event.key, text, 0)
    assert violated(world.found(**PUBLIC)) == set()
    last = replace(event, seq=7, items=keys([253]))
    world.append(Source.RATINGS, event.key, change(wire.encode_json(last)), 0)
    only(world.found(**PUBLIC), "a record carries nothing beside its event and tag")


def test_two_pseudonyms_of_each_person_under_one_mechanism_are_found() -> None:
    world = World(31)
    for _ in range(PEOPLE):
        items = rated(world, 40)
        for device in (world.device(), world.device()):  # "Ann" and "Ann "
            rate(world, device, items)
    only(world.found(), "a person has one pseudonym under a mechanism")


def tastes(world: World, *, alike: bool = False, drawn_by: str = RR.id) -> None:
    """Send 100,000 ratings of 1,000 people: items and people differ, or all are `alike`."""
    quality = world.rng.normal(2.0, 1.0, 4000)
    for mild in world.rng.normal(0.0, 0.7, 1000):
        items = np.sort(world.rng.choice(4000, 100, replace=False)).astype(np.uint64)
        opinions = np.rint(quality[items] + mild + world.rng.normal(0.0, 0.7, 100)).clip(0, 4)
        inputs = levels(world.rng, 100) if alike else opinions.astype(np.uint8)
        world.send(world.device(), items, inputs, drawn_by=registry.parse(drawn_by))


def test_an_epsilon_of_3_that_is_claimed_as_2_is_found_where_people_and_items_differ() -> None:
    """100,000 reports; the report that others leave least likely comes 5 % of the time, not 9."""
    world = World(40)
    tastes(world, drawn_by="rr:5:3")
    found = world.found((RR,))
    assert found[f"{RR.id}: {PREDICTED}"].verdict is Verdict.VIOLATED
    assert found[f"{RR.id}: reports follow the claimed channel"].p_value > 1e-3
    fair = World(40)
    tastes(fair)
    assert violated(fair.found((RR,))) == set()


def test_ratings_that_nothing_predicts_hide_an_epsilon_of_3_that_is_claimed_as_2() -> None:
    """Every level has 6 %: `rr:5:2` over other ratings gives the same law, so nobody can accuse."""
    world = World(41)
    tastes(world, alike=True, drawn_by="rr:5:3")
    claimed, true = RR.likelihood(), registry.parse("rr:5:3").likelihood()
    other = np.linalg.solve(claimed, true @ (0.06, 0.11, 0.26, 0.35, 0.22))
    assert other.min() > 0
    assert violated(world.found((RR,))) == set()


def test_partitions_with_less_noise_than_claimed_are_found() -> None:
    world, masked = World(42), registry.parse("partition:5:2")
    mask = masked.masks[-1]
    channel = registry.parse("partition:5:4").likelihood(mask)
    for mild in world.rng.normal(0.0, 1.0, 1000):
        inputs = np.rint(2 + mild + world.rng.normal(0.0, 0.7, 40)).clip(0, 4).astype(np.int64)
        drawn = (world.rng.random((40, 1)) > channel.T[inputs].cumsum(axis=1)).sum(axis=1)
        event = wire.Event(
            world.device(), 1, masked.id, EPOCH, keys(range(40)), drawn.astype(np.uint8),
            masks=np.full(40, mask, np.uint16),
        )  # fmt: skip
        world.append(Source.RATINGS, event.key, wire.encode(event), EPOCH * 86_400_000)
    found = world.found((masked,))
    assert found[f"{masked.id}: {PREDICTED}"].verdict is Verdict.VIOLATED
