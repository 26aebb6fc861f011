"""An answer as the asker reads it: the first k that were not rated, whatever the server knows."""

from __future__ import annotations

import pytest

from consumers.recommendations import _best, key_of
from stream_app.errors import Refusal
from stream_app.wire import Item, Recommendation, Status, key

NAMES: tuple[Item, ...] = (5, 7, "tt01", f"key:{key('tt02'):016x}", 9)


def answer(items: tuple[Item, ...], status: Status = Status.OK) -> Recommendation:
    rest = 100 - len(items)
    scores = tuple(5.0 - 0.1 * i for i in range(len(items)))
    return Recommendation(
        "0" * 16, status, items + (None,) * rest, scores + (None,) * rest, "exact", 3, "local"
    )


def test_an_answer_is_cut_to_what_was_asked() -> None:
    best = _best(answer(NAMES), 2, 0.1, ())
    assert best.items == NAMES[:2]
    assert best.scores == (5.0, 4.9)


def test_what_was_rated_is_left_out_before_the_answer_is_cut() -> None:
    rated = {7, key("tt01"), key("tt02")}
    assert _best(answer(NAMES), 2, 0.1, rated).items == (5, 9)
    assert _best(answer(NAMES), 10, 0.1, rated).items == (5, 9)
    assert _best(answer(NAMES), 10, 0.1, {5, 9}).items == NAMES[1:4]


def test_an_item_is_known_by_its_key_however_an_answer_names_it() -> None:
    assert [key_of(name) for name in NAMES] == [5, 7, key("tt01"), key("tt02"), 9]
    assert key_of("key:of a song") == key("key:of a song")


def test_an_answer_that_is_none_is_one_sentence() -> None:
    for status in (Status.BUSY, Status.REFUSED):
        with pytest.raises(Refusal):
            _best(answer((), status), 3, 0.1, ())
