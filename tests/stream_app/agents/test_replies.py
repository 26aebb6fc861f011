"""Every reply of a worker has one length in bytes, whatever the list."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.agents.queries import answers
from stream_app.agents.runtime import Runtime
from stream_app.monitoring.metric_table import LISTED_BY
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems
from stream_app.wire import (
    LIST_LENGTH,
    MAX_SEQ,
    CatalogueEntry,
    Recommendation,
    Status,
    decode_message,
    encode_message,
    key,
)
from tests.stream_app.agents.lines import runtime_alone

TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30
)
NAMES = st.one_of(st.integers(0, 2**63 - 1), TEXT)
RATIO = st.one_of(st.none(), st.floats(0, 1))


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return runtime_alone()


@st.composite
def lists(draw: st.DrawFn, items: list[int]) -> RankedItems:
    """A list of listed and unlisted items, of any length, by any method."""
    listed = st.sampled_from(items) if items else st.nothing()
    chosen = draw(st.lists(listed, max_size=LIST_LENGTH if items else 0))
    unlisted = draw(st.lists(st.integers(0, 2**64 - 1), max_size=LIST_LENGTH - len(chosen)))
    count = len(chosen) + len(unlisted)
    scores = draw(st.lists(st.floats(1, 5), min_size=count, max_size=count))
    method = draw(st.sampled_from(LISTED_BY)) + draw(st.sampled_from(["", "/exact", "/qolsh"]))
    keys = st.one_of(st.none(), listed, st.integers(0, 2**64 - 1))
    because = draw(st.one_of(st.just([]), st.lists(keys, min_size=count, max_size=count)))
    return RankedItems(
        np.array([*chosen, *unlisted], np.uint64), np.array(scores), method,
        draw(st.integers(0, MAX_SEQ)), draw(RATIO), draw(RATIO),
        tuple(because), draw(st.sampled_from([None, False, True])),
    )  # fmt: skip


def listing(names: list[int | str], titles: list[str]) -> Catalogue:
    """Return a catalogue of items with titles."""
    catalogue = Catalogue()
    for name, title in zip(names, titles, strict=False):
        genres = tuple(word for word in title.split() if word.isprintable())[:1]
        entry = CatalogueEntry(name, title, genres, len(title) or None)
        catalogue.learn(str(name).encode(), encode_message(entry))
    return catalogue


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_every_reply_has_one_length_whatever_the_list(
    runtime: Runtime, data: st.DataObject
) -> None:
    names = data.draw(st.lists(NAMES, max_size=20))
    runtime.catalogue = listing(names, data.draw(st.lists(TEXT, min_size=20, max_size=20)))
    size = answers.reply_bytes(runtime.catalogue)
    correlation_id = data.draw(st.text("0123456789abcdef", min_size=16, max_size=64))
    answer = data.draw(lists([key(name) for name in names]))
    reply = answers.recommendation(runtime, correlation_id, answer)
    value = answers.encoded_reply(reply, runtime.catalogue)
    assert len(value) == size
    assert decode_message(Recommendation, value) == reply
    for status, reason in ((Status.REFUSED, "x" * 240), (Status.BUSY, None)):
        value = answers.encoded_refusal(runtime, correlation_id, status, reason)
        assert len(value) == size
        found = decode_message(Recommendation, value)
        assert (found.id, found.status, found.reason) == (correlation_id, status, reason)
        assert {*found.items, *found.scores, *found.because} == {None}


def test_a_text_item_of_the_longest_kind_fits_a_reply(runtime: Runtime) -> None:
    """Every byte of an id may be a control character, which takes six bytes in JSON."""
    names: list[int | str] = [f"{number:03}".ljust(128, "\x01") for number in range(LIST_LENGTH)]
    runtime.catalogue = listing(names, ["\x01" * 500] * LIST_LENGTH)
    items = np.array([key(name) for name in names], np.uint64)
    answer = RankedItems(
        items, np.full(LIST_LENGTH, 1.2345), "blend/qolsh", MAX_SEQ, 1 / 3, 2 / 3,
        tuple(items.tolist()),
    )  # fmt: skip
    reply = answers.recommendation(runtime, "f" * 64, answer)
    value = answers.encoded_reply(reply, runtime.catalogue)
    assert decode_message(Recommendation, value) == reply


def test_a_removed_entry_does_not_make_replies_shorter() -> None:
    catalogue = listing(["x" * 100, 7], ["a long title", ""])
    before = answers.reply_bytes(catalogue)
    catalogue.learn(b"x" * 100, None)
    catalogue.learn(b"7", encode_message(CatalogueEntry(7, "b")))
    assert answers.reply_bytes(catalogue) == before
    assert before > answers.reply_bytes(Catalogue())


def test_the_reference_states_the_size_of_a_reply() -> None:
    reference = (Path(__file__).parents[3] / "docs" / "reference.md").read_text(encoding="utf-8")
    stated = re.search(r"([\d,]+) and 200 times the longest id of the catalogue \((\d+)", reference)
    assert stated
    fixed, shortest = (int(number.replace(",", "")) for number in stated.groups())
    assert answers.reply_bytes(Catalogue()) == fixed + 2 * LIST_LENGTH * shortest
