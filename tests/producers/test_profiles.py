"""Profiles leave a device once an epoch, paid each time, and reveal nothing by being sent."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from producers.device import requests as device
from producers.fleet.population import populate
from producers.fleet.profile_release import (
    ProfileOptions,
    ProfileProgress,
    RawProfile,
    kept_scope,
    profiles_of,
    publish,
    request,
)
from producers.journal import NANO, BudgetExhausted, Journal, Message, PersonBudget, read_journal
from producers.person.enrolment import NO_LIMIT
from producers.person.spending_so_far import ALL, spending
from stream_app import wire
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import largest_count
from stream_app.privacy.profiles import blip, jlt
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.codebook import first_items
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS, ProfileMechanism
from stream_app.privacy.randomness import SeededSource
from stream_app.wire.limits import MAX_PROFILE_BYTES
from tests.producers.conftest import dataset
from tests.producers.journals import at

TOPIC = "murmurec.profiles.v1"
MECHANISM = Blip(256, 2, Fraction(2))
SIZES = {MECHANISM.id: MECHANISM.profile_bytes}


def devices(*sizes: int) -> list[RawProfile]:
    return [
        RawProfile(bytes([number]) * 16, np.arange(number, number + size, dtype=np.uint64))
        for number, size in enumerate(sizes)
    ]


def run(
    profiles: list[RawProfile],
    journal: Journal,
    epoch: int = 20_000,
    mechanism: ProfileMechanism = MECHANISM,
    **more: object,
) -> tuple[list[Message], ProfileProgress]:
    sent: list[Message] = []
    make_room = more.pop("make_room", None)
    steps = list(
        publish(
            profiles, mechanism, journal=journal, send=sent.append, topic=TOPIC, epoch=epoch,
            options=ProfileOptions(**more), make_room=make_room,  # type: ignore[arg-type]
        )
    )  # fmt: skip
    return sent, steps[-1]


def test_every_device_releases_one_profile_that_a_server_can_read(journal: Journal) -> None:
    sent, last = run(devices(3, 0, 40), journal)
    assert (last.published, last.total, last.done) == (3, 3, 3)
    events = [wire.decode_profile(one.key, one.value, SIZES) for one in sent]
    assert {event.device for event in events} == {one.device for one in devices(3, 0, 40)}
    assert {one.topic for one in sent} == {TOPIC}
    assert {(event.seq, event.epoch, event.mechanism) for event in events} == {
        (1, 20_000, MECHANISM.id)
    }
    # An empty profile and a full one look alike: in size, and in their place.
    assert len({len(one.value) for one in sent}) == 1


def test_the_order_of_the_messages_does_not_depend_on_what_is_in_the_profiles(
    journal: Journal, tmp_path: Path
) -> None:
    with at(tmp_path / "other.journal") as other:
        first, _ = run(devices(*range(20)), journal)
        second, _ = run(devices(*range(20, 0, -1)), other)
    assert [one.device for one in first] == [one.device for one in second]
    assert [one.device for one in first] != sorted(one.device for one in first)


def test_a_second_profile_in_an_epoch_is_refused_and_draws_nothing(journal: Journal) -> None:
    run(devices(3, 5), journal)
    spent = journal.spent(bytes(16))["cell"]
    sent, last = run(devices(4, 5), journal)
    assert sent == []
    assert (last.published, last.before) == (0, 2)
    assert journal.spent(bytes(16))["cell"] == spent


def test_a_profile_of_the_next_epoch_has_noise_of_its_own_and_is_paid_again(
    journal: Journal,
) -> None:
    (first,), _ = run(devices(30), journal)
    (second,), _ = run(devices(30), journal, epoch=20_001)
    bits = [
        np.unpackbits(
            np.frombuffer(wire.decode_profile(one.key, one.value, SIZES).profile, np.uint8)
        )
        for one in (first, second)
    ]
    # 2 p (1 - p) = .39 of 256 bits differ where the noise is new, none where it is reused.
    assert 50 < int((bits[0] != bits[1]).sum()) < 150
    assert (first.seq, second.seq) == (1, 2)
    assert journal.spent(bytes(16))["cell"].nano == 4 * NANO


def test_a_clock_that_was_set_back_opens_no_second_release(journal: Journal) -> None:
    run(devices(3), journal)
    assert run(devices(3), journal, epoch=19_999)[1].before == 1


@pytest.mark.parametrize(
    ("mechanism", "nano", "atto"),
    [
        (MECHANISM, 2 * NANO, 0),
        (Jlt(64, Fraction(1, 2), Fraction(1, 10**6)), NANO // 2, 10**12),
    ],
    ids=lambda value: getattr(value, "id", ""),
)
def test_a_release_costs_one_epsilon_of_the_cell_whatever_the_profile_holds(
    journal: Journal, mechanism: ProfileMechanism, nano: int, atto: int
) -> None:
    run(devices(0, 200), journal, mechanism=mechanism)
    for number in (0, 1):
        (kind, spent), *others = journal.spent(bytes([number]) * 16).items()
        assert (kind, spent.nano, spent.atto, others) == ("cell", nano, atto, [])


# A profile costs the person what all of its bits can carry, not one item's epsilon.
PERSON = MECHANISM.profile_epsilon(MOST_ITEMS) or Fraction(0)


def test_a_budget_that_does_not_hold_it_keeps_the_profile_back(tmp_path: Path) -> None:
    assert MECHANISM.length * Fraction(2) / MECHANISM.hashes == PERSON
    with at(tmp_path / "j", epsilon=PERSON * 3 / 2) as journal:
        run(devices(3, 4), journal)
        sent, last = run(devices(3, 4), journal, epoch=20_001)
        assert sent == []
        assert (last.published, last.over) == (0, 2)
        assert journal.spent(bytes(16))["cell"].nano == 2 * NANO


def test_a_profile_counts_as_cells_do_in_the_budget(tmp_path: Path) -> None:
    device_id, scope = bytes(16), np.arange(2, dtype=np.uint64)
    line = device.ReportSettings("ratings", registry.parse("cell:5:1/2"))
    with at(tmp_path / "j", epsilon=PERSON + Fraction(1, 2), plan="adaptive") as journal:
        request = device.request(np.zeros(2, np.uint8), scope, line, device=device_id, epoch=20_000)
        journal.release(request)
        assert run(devices(3), journal)[1].over == 1
    with at(tmp_path / "j", epsilon=PERSON + 1) as journal:
        assert run(devices(3), journal)[1].published == 1
        assert {kind: (s.nano, s.reports) for kind, s in journal.spent(device_id).items()} == {
            "cell": (3 * NANO, 3)
        }
        journal.compact()
    with at(tmp_path / "j", epsilon=PERSON + 2) as journal:
        assert run(devices(3), journal, epoch=20_001)[1].over == 1
    spent = read_journal(tmp_path / "j").book.accounts[device_id].spent()
    assert {key: one.nano for key, one in spent.items()} == {
        ("rating", "cell"): NANO, ("profile", "cell"): 2 * NANO,
    }  # fmt: skip


def test_a_projection_of_many_items_fits_no_persons_budget(tmp_path: Path) -> None:
    coarse = Jlt(64, Fraction(1, 2), Fraction(3, 10**4))
    with at(tmp_path / "j") as journal:
        journal.terms = PersonBudget()
        sent, last = run(devices(3), journal, mechanism=coarse)
        assert (sent, last.over) == ([], 1)
        with pytest.raises(BudgetExhausted, match=r"budget is \(20, 1e-06\) in any 365 days"):
            journal.release(request(devices(3)[0], coarse, topic=TOPIC, epoch=20_003))
        assert journal.spent(bytes(16)) == {}


CAPPED = Blip(256, 2, Fraction(2), 6)


def test_a_default_budget_holds_a_capped_profile_of_any_size_at_the_same_cost(
    tmp_path: Path,
) -> None:
    with at(tmp_path / "j") as journal:
        journal.terms = PersonBudget()
        sent, last = run(devices(0, 3, 200), journal, mechanism=CAPPED)
        assert (last.published, last.over, last.capped) == (3, 0, 194)
        assert len({len(one.value) for one in sent}) == 1
        spent = {journal.spent(bytes([number]) * 16)["cell"] for number in range(3)}
        assert {(each.nano, each.reports) for each in spent} == {(2 * NANO, 1)}
    account = read_journal(tmp_path / "j").book.accounts
    (cost,) = {spending(each.used(), PersonBudget())[ALL] for each in account.values()}
    assert 5.99 < cost.zeros <= 6  # six items of epsilon 1, the empty profile too
    with at(tmp_path / "j") as journal:
        journal.terms = PersonBudget()
        for epoch in range(20_001, 20_010):
            run(devices(0, 3, 200), journal, epoch=epoch, mechanism=CAPPED)
        left = {journal.room(bytes([number]) * 16, CAPPED, 20_010) for number in range(3)}
        assert left == {0}
        counts = {journal.spent(bytes([number]) * 16)["cell"].reports for number in range(3)}
        assert counts == {largest_count(CAPPED.id, Fraction(20), Fraction(1, 10**6))}
        assert 3 <= counts.pop() <= 8


def test_the_charge_follows_the_cap(tmp_path: Path) -> None:
    rooms: list[int] = []
    for most in (1, 6, 20, 60, MOST_ITEMS):
        with at(tmp_path / f"j{most}") as journal:
            journal.terms = PersonBudget()
            rooms.append(journal.room(bytes(16), Blip(256, 2, Fraction(2), most), 20_000) or 0)
    assert rooms == sorted(rooms, reverse=True)
    assert rooms[0] > 2 * rooms[1] > 4 * rooms[2] > 0 == rooms[3] == rooms[4]


def test_an_over_full_profile_is_cut_to_the_same_items_each_time(journal: Journal) -> None:
    many, first = devices(50)[0], Blip(256, 2, Fraction(2), 6)
    (message,), last = run([many], journal, mechanism=first)
    assert last.capped == 44
    event = wire.decode_profile(message.key, message.value, {first.id: first.profile_bytes})
    released = np.frombuffer(event.profile, np.uint8)
    kept = first_items(many.raw_items, 6)
    assert event.mechanism == "blip:256:2:2:6"
    assert first.log_likelihood(released, kept) == first.log_likelihood(released, many.raw_items)
    shuffled = many.raw_items[np.random.default_rng(1).permutation(50)]
    np.testing.assert_array_equal(first.filter(shuffled), first.filter(kept))


def test_what_was_not_acknowledged_is_sent_again_as_the_same_bytes(tmp_path: Path) -> None:
    with at(tmp_path / "j") as journal:
        sent, _ = run(devices(3, 4), journal)
        journal.acknowledge(sent[0].number)
    with at(tmp_path / "j") as journal:
        assert journal.pending() == sent[1:]


def test_many_devices_go_in_several_records(journal: Journal) -> None:
    sent, last = run(devices(*[2] * 30), journal, together=8)
    assert len(sent) == last.published == 30


def test_noise_from_a_seed_marks_its_profiles_as_tests(tmp_path: Path) -> None:
    with at(tmp_path / "j", source=SeededSource(1), allow_tests=True) as journal:
        (message,), _ = run(devices(3), journal)
    with pytest.raises(wire.WireError, match="test") as caught:
        wire.decode_profile(message.key, message.value, SIZES)
    assert caught.value.reason is wire.Reason.TEST_EVENT
    assert wire.decode_profile(message.key, message.value, SIZES, accept_tests=True).test


# --- the scope and the cap ------------------------------------------------------------------------


def test_items_outside_the_public_scope_are_never_in_a_profile(journal: Journal) -> None:
    scope = np.arange(10, dtype=np.uint64)
    mechanism = Blip(256, 2, None)
    (message,), last = run(
        [RawProfile(bytes(16), np.array([5, 7, 99], np.uint64))],
        journal, mechanism=mechanism, scope=scope,
    )  # fmt: skip
    assert (last.outside, last.capped) == (1, 0)
    event = wire.decode_profile(message.key, message.value, {mechanism.id: 32})
    released = np.frombuffer(event.profile, np.uint8)
    assert mechanism.log_likelihood(released, np.array([5, 7], np.uint64)) == 0


def test_a_cap_keeps_to_items_that_the_profile_has_no_say_in(journal: Journal) -> None:
    scope = np.arange(1000, dtype=np.uint64)
    kept = kept_scope(scope, 100, journal.key, b"a" * 16)
    assert len(kept) == 100
    assert set(kept.tolist()) <= set(scope.tolist())
    # Another order is the same choice; another device or key another one.
    again = kept_scope(scope[::-1].copy(), 100, journal.key, b"a" * 16)
    assert sorted(again.tolist()) == sorted(kept.tolist())
    for key, device_id in ((journal.key, b"b" * 16), (bytes(32), b"a" * 16)):
        other = kept_scope(scope, 100, key, device_id)
        assert 0 < len(np.intersect1d(other, kept)) < 40
    assert kept_scope(scope, 1000, journal.key, b"a" * 16) is scope
    everything = [RawProfile(b"a" * 16, scope)]
    last = run(everything, journal, scope=scope, most=100)[1]
    assert (last.outside, last.capped) == (0, 900)


def test_one_item_more_changes_one_item_of_what_is_released_or_none(journal: Journal) -> None:
    scope = np.arange(60, dtype=np.uint64)
    kept = kept_scope(scope, 20, journal.key, b"a" * 16)
    for profile in (scope[:25], scope[10:50], scope[:0]):
        within = set(np.intersect1d(profile, kept).tolist())
        assert len(within) <= 20
        for item in scope[~np.isin(scope, profile)]:
            more = set(np.intersect1d(np.append(profile, item), kept).tolist())
            assert within <= more
            assert len(more - within) <= 1


def test_a_profile_over_the_cap_without_a_scope_is_refused_before_anything_is_paid(
    journal: Journal,
) -> None:
    with pytest.raises(ValueError, match="give the public scope"):
        run(devices(3, 50), journal, most=40)
    with pytest.raises(ValueError, match="twice"):
        run([*devices(3), RawProfile(b"a" * 16, np.array([1, 1], np.uint64))], journal)
    with pytest.raises(ValueError, match=f"1 to {MOST_ITEMS}"):
        run(devices(3), journal, most=0)
    assert journal.spent(bytes(16)) == {}
    assert journal.pending() == []


def test_the_longest_profiles_of_both_kinds_may_travel() -> None:
    longest = Blip(blip.LONGEST, 2, Fraction(1)), Jlt(jlt.LONGEST, Fraction(1), Fraction(1, 2))
    for mechanism in longest:
        assert mechanism.profile_bytes <= MAX_PROFILE_BYTES
    assert jlt.LONGEST * 4 <= MAX_PROFILE_BYTES


def test_the_profile_of_a_user_is_every_item_it_has_rated_once(journal: Journal) -> None:
    people = populate(
        dataset([7, 8, 7, 7, 8], [3, 3, 5, 3, 9], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]), journal.key
    )
    assert [sorted(one.raw_items.tolist()) for one in profiles_of(people)] == [[3, 5], [3, 9]]
    assert [one.device for one in profiles_of(people)] == list(people.devices)


def test_every_enrolled_account_releases_a_profile_whoever_is_in_the_file(tmp_path: Path) -> None:
    worlds = []
    for name, rows in (("one", (["ann"], [7])), ("other", (["bob", "bob"], [7, 8]))):
        with Journal.open(tmp_path / name, source=SeededSource(1), allow_tests=True) as journal:
            key = bytes(32)  # the same pseudonyms in both
            everyone = populate(dataset(["ann", "bob", "cleo"], [1, 1, 1], [3.0] * 3), key).devices
            journal.enrol(list(everyone), NO_LIMIT, 20_000, simulated=True)
            people = populate(dataset(*rows, [3.0] * len(rows[0])), key)
            sent, last = run(profiles_of(people, journal.enrolled()), journal)
            assert last.published == 3
            worlds.append([(message.device, message.seq, len(message.value)) for message in sent])
    assert worlds[0] == worlds[1]
    assert {device for device, *_ in worlds[0]} == set(everyone)
