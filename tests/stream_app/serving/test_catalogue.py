"""The public names of items, and the items that must no longer be shown."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.serving.catalogue import Catalogue
from stream_app.wire import CatalogueEntry, Reason, Unlisted, encode_message, key, key_of


def learned(*entries: CatalogueEntry) -> Catalogue:
    catalogue = Catalogue()
    for entry in entries:
        catalogue.learn(str(entry.item).encode(), encode_message(entry))
    return catalogue


def test_items_are_shown_with_their_names_and_titles() -> None:
    catalogue = learned(CatalogueEntry(5, "Five"), CatalogueEntry("käse", "Cheese"))
    assert (catalogue.name(5), catalogue.title(5)) == (5, "Five")
    assert (catalogue.name(key("käse")), catalogue.title(key("käse"))) == ("käse", "Cheese")


def test_genres_and_years_are_known() -> None:
    catalogue = learned(CatalogueEntry(5, "Five", ("Drama",), 1995))
    assert (catalogue.entry(5).genres, catalogue.entry(5).year) == (("Drama",), 1995)
    assert (catalogue.entry(6).genres, catalogue.entry(6).year) == ((), None)


def test_an_entry_under_the_key_of_another_item_is_rejected() -> None:
    """Compaction keeps both, and a tombstone of the item would leave it."""
    catalogue = learned(CatalogueEntry(5, "Five"))
    for record_key in (b"6", b"", None, b"05"):
        catalogue.learn(record_key, encode_message(CatalogueEntry(5, "Forged", ("War",), 1900)))
    assert (catalogue.title(5), catalogue.rejected) == ("Five", {Reason.KEY_MISMATCH: 4})


def test_an_unknown_item_is_shown_by_its_key() -> None:
    assert Catalogue().name(7) == 7
    assert Catalogue().title(7) == ""
    assert Catalogue().name(key("brot")) == Unlisted(f"{key('brot'):016x}")


def test_an_item_whose_id_reads_like_a_key_is_called_by_its_id() -> None:
    name = "key:0123456789abcdef"
    catalogue = learned(CatalogueEntry(name, "A film"))
    assert catalogue.name(key(name)) == name
    assert key_of(name) == key(name)
    shown = catalogue.name(key("brot"))
    assert key_of(shown) == key("brot") != key_of(str(shown))


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
    assert catalogue.rejected.total() == 1
    assert catalogue.title(5) == "Five"


def test_a_tombstone_forgets_the_number_and_the_string_of_its_name() -> None:
    catalogue = learned(CatalogueEntry(5), CatalogueEntry("5"), CatalogueEntry(50))
    catalogue.learn(b"5", None)
    assert set(catalogue.entries) == {50}
    catalogue.learn(b"050", None)  # not how 50 is written
    catalogue.learn(None, None)
    catalogue.learn(b"x" * 10_000, None)
    catalogue.learn(b"\xff", None)
    assert (set(catalogue.entries), catalogue.rejected.total()) == ({50}, 0)


class Counting(dict[int, CatalogueEntry]):
    """Entries that count how often they are walked through."""

    walks = 0

    def items(self):  # type: ignore[no-untyped-def]
        self.walks += 1
        return super().items()

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.walks += 1
        return super().__iter__()


def test_no_record_makes_the_catalogue_walk_through_the_others() -> None:
    catalogue = Catalogue(Counting())
    for i in range(50):
        catalogue.learn(b"%d" % i, encode_message(CatalogueEntry(i, withdrawn=i % 2 == 0)))
        catalogue.learn(b"%d" % (i - 5), None)
    assert isinstance(catalogue.entries, Counting)
    assert catalogue.entries.walks == 0
    keys = np.arange(60, dtype=np.uint64)
    assert np.flatnonzero(catalogue.withdrawn(keys)).tolist() == [46, 48]


def test_a_change_while_the_withdrawn_items_are_collected_is_seen_by_the_next_query() -> None:
    catalogue = learned(CatalogueEntry(5, withdrawn=True))

    class Interrupted(set[int]):
        """Another thread learns just after its members were copied."""

        def __iter__(self):  # type: ignore[no-untyped-def]
            members = list(super().__iter__())
            catalogue._gone = set(members)
            catalogue.learn(b"6", encode_message(CatalogueEntry(6, withdrawn=True)))
            return iter(members)

    catalogue._gone = Interrupted(catalogue._gone)
    keys = np.array([5, 6, 2**64 - 1], np.uint64)
    assert catalogue.withdrawn(keys).tolist() == [True, False, False]
    assert catalogue.withdrawn(keys).tolist() == [True, True, False]
