"""Every page of k items has one length in bytes, whatever the list and how long it is."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from stream_app.gateway.contract.bodies import ItemList
from stream_app.gateway.list_pages import encoded, page, page_bytes
from stream_app.gateway.reads.catalogue_view import ServedCatalogue
from stream_app.monitoring.metric_table import LISTED_BY
from stream_app.serving.catalogue import Catalogue
from stream_app.wire import (
    LIST_LENGTH,
    MAX_SEQ,
    CatalogueEntry,
    Item,
    Recommendation,
    Status,
    encode_message,
    json_bytes,
    unlisted,
)
from stream_app.wire.messages import ENVELOPE_BYTES, longest_name_of, reply_bytes

TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30
)
NAMES = st.one_of(st.integers(0, 2**63 - 1), TEXT)
RATIO = st.one_of(st.none(), st.floats(0, 1))
USER = "f" * 32


@st.composite
def replies(draw: st.DrawFn, names: list[Item]) -> Recommendation:
    """Answers of any length, by any method, of listed and unlisted items."""
    listed = st.sampled_from(names) if names else st.nothing()
    unknown = st.integers(2**63, 2**64 - 1).map(unlisted)
    anything = st.one_of(listed, unknown, st.integers(0, 2**63 - 1))
    items = draw(st.lists(anything, max_size=LIST_LENGTH))
    scores = draw(st.lists(st.floats(1, 5), min_size=len(items), max_size=len(items)))
    because = draw(st.lists(st.one_of(st.none(), anything), max_size=len(items)))
    missing = (None,) * (LIST_LENGTH - len(items))
    shown = (round(score, 4) for score in scores)
    method = draw(st.sampled_from(LISTED_BY)) + draw(st.sampled_from(["", "/exact", "/qolsh"]))
    return Recommendation(
        "f" * 64, Status.OK, (*items, *missing), (*shown, *missing), method,
        draw(st.integers(0, MAX_SEQ)), "local+central", draw(st.booleans()), draw(RATIO),
        draw(RATIO), tuple(because), None, draw(st.sampled_from([UNSET, "next", "now"])),
    )  # fmt: skip


def listing(names: list[Item], titles: list[str]) -> ServedCatalogue:
    """Return a catalogue of items with titles."""
    catalogue = ServedCatalogue()
    for name, title in zip(names, titles, strict=False):
        genres = tuple(word for word in title.split() if word.isprintable())[:1]
        entry = CatalogueEntry(name, title, genres, len(title) or None)
        catalogue.learn(str(name).encode(), encode_message(entry))
    return catalogue


@settings(deadline=None, max_examples=200)
@given(st.data(), st.integers(1, LIST_LENGTH))
def test_every_page_of_k_items_has_one_length(data: st.DataObject, k: int) -> None:
    names = data.draw(st.lists(NAMES, max_size=20))
    titles = listing(names, data.draw(st.lists(TEXT, min_size=20, max_size=20)))
    shown = page(USER, k, data.draw(replies(names)), titles)
    value = encoded(shown, titles, k)
    assert len(value) == page_bytes(titles, k)
    assert msgspec.json.decode(value, type=ItemList) == shown


def test_a_worker_whose_catalogue_is_newer_makes_pages_of_one_length_too() -> None:
    """The gateway has read none of it; the size of a reply is public."""
    names: list[Item] = [f"{number:03}".ljust(128, "\x01") for number in range(LIST_LENGTH)]
    size, titles = reply_bytes(max(map(json_bytes, names))), ServedCatalogue()
    full = Recommendation(
        "f" * 64, Status.OK, tuple(names), (1.2345,) * LIST_LENGTH, "blend/qolsh", MAX_SEQ,
        "local", because=tuple(names),
    )  # fmt: skip
    nothing = (None,) * LIST_LENGTH
    empty = replace(full, items=nothing, scores=nothing, because=())
    for k in (1, 7, LIST_LENGTH):
        values = [encoded(page(USER, k, reply, titles), titles, k, size) for reply in (full, empty)]
        assert [len(value) for value in values] == [page_bytes(titles, k, size)] * 2


def test_the_size_of_a_reply_gives_the_longest_id_of_its_worker() -> None:
    assert [longest_name_of(reply_bytes(longest)) for longest in (26, 27, 770)] == [26, 27, 770]


def test_a_gateway_makes_room_for_what_a_worker_does() -> None:
    """Both read the same topic; the worker's replies, and so its ids, are bounded by the same."""
    ours, worker = ServedCatalogue(), Catalogue()
    for titles in (ours, worker):
        assert (titles.longest_name, titles.longest_title, titles.longest_text) == (26, 4, 8)
        value = encode_message(CatalogueEntry("x" * 40, "two", ("a", "b"), 1999))
        titles.learn(b"x" * 40, value)
        titles.learn(b"x" * 40, None)
    sizes = (ours.longest_name, ours.longest_title, ours.longest_text)
    assert sizes == (worker.longest_name, worker.longest_title, worker.longest_text)
    assert sizes > (26, 4, 8)
    assert ours.row(2**64 - 1).title == ""


def test_the_longest_page_fits_its_length_and_little_more() -> None:
    """Every byte of an id may be a control character, which takes six bytes in JSON."""
    names: list[Item] = [f"{number:03}".ljust(128, "\x01") for number in range(LIST_LENGTH)]
    titles = listing(names, ["\x01" * 500] * LIST_LENGTH)
    reply = Recommendation(
        "f" * 64, Status.OK, tuple(names), (1.2345,) * LIST_LENGTH, "blend/qolsh", MAX_SEQ,
        "local+central", False, 1 / 3, 2 / 3, tuple(names), "x" * 240,
    )  # fmt: skip
    shown = page(USER, LIST_LENGTH, reply, titles)
    value = encoded(shown, titles, LIST_LENGTH)
    assert len(value) == page_bytes(titles, LIST_LENGTH)
    rows = page_bytes(titles, LIST_LENGTH) - ENVELOPE_BYTES
    assert rows - 3 * LIST_LENGTH < len(msgspec.json.encode(shown.items)) <= rows


def test_the_longest_genres_fit_a_page() -> None:
    titles = ServedCatalogue()
    genres = tuple(f"{number:02}" + "\u1e9e" * 48 for number in range(16))
    for number in range(LIST_LENGTH):
        value = encode_message(CatalogueEntry(number, "", genres, 9999))
        titles.learn(str(number).encode(), value)
    reply = Recommendation(
        "f" * 64, Status.OK, tuple(range(LIST_LENGTH)), (1.2345,) * LIST_LENGTH, "blend/qolsh",
        MAX_SEQ, "local",
    )  # fmt: skip
    shown = page(USER, LIST_LENGTH, reply, titles)
    assert shown.items[0].genres == genres
    assert shown.items[0].year == 9999
    assert len(encoded(shown, titles, LIST_LENGTH)) == page_bytes(titles, LIST_LENGTH)


def test_a_removed_entry_does_not_make_pages_shorter() -> None:
    titles = listing(["x" * 100, 7], ["a long title", ""])
    before = page_bytes(titles, 10)
    titles.learn(b"x" * 100, None)
    titles.learn(b"7", encode_message(CatalogueEntry(7, "b")))
    assert page_bytes(titles, 10) == before > page_bytes(ServedCatalogue(), 10)


def test_a_page_has_the_first_k_items_and_what_each_is_for() -> None:
    titles = listing([5, "tt01"], ["Five", "One"])
    reply = Recommendation(
        "f" * 64, Status.OK, ("tt01", None, 7, 5), (4.5, None, 4.0, 3.5), "blend", 3, "local",
        because=(5, None, None, "tt01"),
    )  # fmt: skip
    shown = page(None, 2, reply, titles)
    assert [(row.item, row.title, row.score) for row in shown.items] == [
        ("tt01", "One", 4.5),
        (7, "", 4.0),
    ]
    assert [(row.because, row.because_title) for row in shown.items] == [
        (5, "Five"),
        (None, None),
    ]
    assert (shown.user, shown.method, shown.as_of) == (None, "blend", 3)
    assert shown.for_ is None
    assert page(USER, 2, replace(reply, for_="now"), titles).for_ == "now"
