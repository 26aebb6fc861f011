"""What a release sums: lists of devices over the items of the catalogue, and what forbids it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.errors import UserError
from stream_app.models.cooccurrence.co_ratings import CoRatings
from stream_app.operations.similarities.lists import PublicItems, check_state, lists_of
from stream_app.privacy import registry
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import CatalogueEntry, Event, key
from tests.fixtures.replicas import SMALL, applied, played
from tests.fixtures.streams import events, publish

CO = replace(
    SMALL,
    mechanisms=(registry.parse("none:5:inf"),),
    co_ratings=True,
    list_scope=tuple(range(1, 64)),
    head_items=64,
    recent_items=32,
    held_out=0.0,
)


def event(device: int, items: list[int], levels: list[int], seq: int = 1) -> Event:
    reports = np.array(levels, np.uint8)
    return Event(
        device.to_bytes(16, "little"), seq, "none:5:inf", 0, np.array(items, np.uint64), reports
    )


def catalogue(*entries: CatalogueEntry) -> PublicItems:
    found = {key(entry.item): entry for entry in entries}
    return PublicItems.of_scope(sorted(found), found)


ITEMS = catalogue(
    CatalogueEntry(9, domain="films"), CatalogueEntry(3, domain="books"), CatalogueEntry(5),
    CatalogueEntry(4, withdrawn=True), CatalogueEntry(33, domain="books"),
)  # fmt: skip


def lists(replica: Replica) -> list[tuple[list[int], list[float]]]:
    return [(places.tolist(), values.tolist()) for places, values in lists_of(replica, ITEMS)]


def replica_of(*made: Event, spec: StateSpec = CO) -> Replica:
    replica = Replica(spec)
    for each in made:
        applied(replica, each)
    return replica


def test_items_are_those_of_the_scope_that_are_not_withdrawn_in_the_order_of_keys() -> None:
    assert ITEMS.keys.tolist() == [3, 5, 9, 33]
    assert ITEMS.domains == ["books", "", "films", "books"]
    assert PublicItems.of_scope((4, 7), {}).keys.tolist() == [4, 7]


def test_the_digest_of_the_items_names_their_keys_and_domains() -> None:
    same = PublicItems(ITEMS.keys.copy(), list(ITEMS.domains))
    assert same.digest == ITEMS.digest
    assert PublicItems(ITEMS.keys, ["books", "", "films", ""]).digest != ITEMS.digest
    assert PublicItems(ITEMS.keys + np.uint64(1), ITEMS.domains).digest != ITEMS.digest


def test_a_list_holds_the_catalogued_items_that_a_device_rated_and_their_stars() -> None:
    replica = replica_of(
        event(1, [9, 4, 3], [4, 0, 2]), event(2, [1000], [3]), event(3, [5], [0]),
        event(1, [9], [1], seq=2),
    )  # fmt: skip
    assert lists(replica) == [([2, 0], [2.0, 3.0]), ([1], [1.0])]


def test_a_forgotten_device_has_no_list() -> None:
    replica = replica_of(event(1, [9, 3], [4, 2]), event(3, [5], [0]))
    replica.forget((1).to_bytes(16, "little"))
    assert lists(replica) == [([1], [1.0])]


def test_one_device_changes_its_own_list_and_no_other(rng: np.random.Generator) -> None:
    made = events(rng, 80, mechanism="none:5:inf", items=50)
    public = PublicItems(np.arange(1, 50, dtype=np.uint64), [""] * 49)
    gone = made[0].device

    def contents(kept: list[Event]) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
        replica = played([publish(each) for each in kept], np.random.default_rng(1), CO)
        check_state(replica)
        found = lists_of(replica, public)
        return sorted((tuple(places.tolist()), tuple(values.tolist())) for places, values in found)

    whole, without = contents(made), contents([each for each in made if each.device != gone])
    for each in without:
        whole.remove(each)
    assert len(whole) == 1


def test_a_state_without_co_ratings_is_refused() -> None:
    with pytest.raises(UserError, match=r"co_ratings is off.*set co_ratings = true and run"):
        check_state(Replica(replace(CO, co_ratings=False, list_scope=())))


def test_a_state_without_a_public_scope_is_refused() -> None:
    with pytest.raises(UserError, match=r"list_scope is unset.*murmurec items list --ids"):
        check_state(Replica(replace(CO, list_scope=())))


def test_made_up_items_forbid_no_release_and_change_none() -> None:
    held = replace(CO, head_items=63, items_most=70)
    flood = event(7, list(range(1000, 1200)), [4] * 200)
    found = replica_of(event(1, [9, 3], [4, 2]), flood, event(3, [5, 1001], [0, 1]), spec=held)
    check_state(found)
    assert lists(found) == [([2, 0], [5.0, 3.0]), ([1], [1.0])]


def test_a_state_of_more_devices_than_have_a_list_is_refused() -> None:
    replica = replica_of(event(1, [1], [4]), event(2, [1], [4]))
    replica.pairs.co_ratings = CoRatings(replica.channels, 64, 32, most_devices=1)
    replica.pairs.co_ratings.extend(2)
    with pytest.raises(UserError, match=r"2 devices are known, more than can have a list"):
        check_state(replica)


def test_a_state_from_which_devices_are_being_evicted_is_refused() -> None:
    replica = replica_of(event(1, [1], [4]), event(2, [1], [4]))
    replica.marks.accept((5, 9))
    with pytest.raises(UserError, match=r"are being evicted.*run the command again"):
        check_state(replica)
    replica.end_round(replica.cut + 1, replica.end_offsets)
    check_state(replica)


def test_a_state_in_which_the_model_decides_what_counts_is_refused() -> None:
    with pytest.raises(UserError, match=r"clip is 4.*taught the model; unset clip"):
        check_state(Replica(replace(CO, clip=4.0)))


def test_a_scope_that_no_table_is_over_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"has 1 items that are not withdrawn: .* is over 2 or more"
    ):
        catalogue(CatalogueEntry(1), CatalogueEntry(2, withdrawn=True))
    with pytest.raises(UserError, match=r"has 17 domains"):
        catalogue(*(CatalogueEntry(n, domain=f"d{n}") for n in range(17)))
