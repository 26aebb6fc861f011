"""What the public may know of an item, and what must not be shown any more."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.catalogue import Catalogue
from stream_app.wire import CatalogueEntry, encode_message, key


def learned(*entries: CatalogueEntry) -> Catalogue:
    catalogue = Catalogue()
    for entry in entries:
        catalogue.learn(str(entry.item).encode(), encode_message(entry))
    return catalogue


def test_items_have_their_names_and_titles_back() -> None:
    catalogue = learned(CatalogueEntry(5, "Five"), CatalogueEntry("käse", "Cheese"))
    assert (catalogue.name(5), catalogue.title(5)) == (5, "Five")
    assert (catalogue.name(key("käse")), catalogue.title(key("käse"))) == ("käse", "Cheese")


def test_an_unknown_item_is_shown_by_its_key() -> None:
    assert Catalogue().name(7) == 7
    assert Catalogue().title(7) == ""
    assert Catalogue().name(key("brot")) == f"key:{key('brot'):016x}"


def test_a_withdrawn_item_comes_back_when_it_is_published_again() -> None:
    keys = np.array([5, 6], np.uint64)
    catalogue = learned(CatalogueEntry(5, withdrawn=True))
    assert catalogue.withdrawn(keys).tolist() == [True, False]
    catalogue.learn(b"5", encode_message(CatalogueEntry(5)))
    assert catalogue.withdrawn(keys).tolist() == [False, False]


def test_a_tombstone_forgets_its_entry() -> None:
    catalogue = learned(CatalogueEntry("x", "X", withdrawn=True), CatalogueEntry(5, "Five"))
    catalogue.learn(b"x", None)
    catalogue.learn(b"5", b"")
    catalogue.learn(b"never there", None)
    assert catalogue.entries == {}
    assert not catalogue.withdrawn(np.array([key("x")], np.uint64)).any()


@pytest.mark.parametrize("value", [b"junk", b"{}", b'{"item":-1,"v":1}', b'{"item":1,"v":2}'])
def test_a_bad_record_is_counted_and_changes_nothing(value: bytes) -> None:
    catalogue = learned(CatalogueEntry(5, "Five"))
    catalogue.learn(b"5", value)
    assert catalogue.set_aside == 1
    assert catalogue.title(5) == "Five"
