"""Queries over HTTP: the query that each becomes, and one sentence for each that makes no sense."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from stream_app.cli.reader.query_answers import Asked, _path
from stream_app.gateway.list_pages import NO_ID, list_query, similar_query
from stream_app.wire import Query, parse_item
from tests.fixtures.awkward_ids import PAIRS

USER = "1" * 32


def a_query(user: str | None = USER, k: int = 10, **options: Any) -> Query:
    return Query(NO_ID, user, k, 0, **options)


def test_a_query_over_http_is_the_query_over_kafka() -> None:
    assert list_query(USER, []) == a_query()
    assert list_query(USER, [("k", "3")]) == a_query(k=3)
    for visit in ("next", "now"):
        assert list_query(USER, [("for", visit)]) == a_query(for_=visit)
    assert similar_query([("item", "5")]) == a_query(None, similar_to=5)
    for each in dict.fromkeys(each for pair in PAIRS for each in pair):
        asked = urlsplit(_path(Asked(None, 10, 1.0, None, similar_to=parse_item(each))))
        query = similar_query(parse_qsl(asked.query, keep_blank_values=True))
        assert str(query.similar_to) == each
    assert similar_query([("k", "100"), ("item", "tt01")]) == a_query(None, 100, similar_to="tt01")


@pytest.mark.parametrize(
    ("user", "given", "sentence"),
    [
        ("ann", [], "32 hex"),
        ("", [], "32 hex"),
        ("A" * 32, [], "lower case"),
        ("1" * 33, [], "32 hex"),
        ("1" * 31 + "\n", [], "32 hex"),
        ("\u0661" * 32, [], "32 hex"),
        (USER, [("k", "0")], "1 to 100"),
        (USER, [("k", "-1")], "1 to 100"),
        (USER, [("k", "101")], "1 to 100"),
        (USER, [("k", str(10**9))], "1 to 100"),
        (USER, [("k", "10x")], "1 to 100"),
        (USER, [("k", "1\n")], "1 to 100"),
        (USER, [("k", "")], "1 to 100"),
        (USER, [("k", "\u0661")], "1 to 100"),
        (USER, [("k", "3"), ("k", "3")], "k: give it once"),
        (USER, [("private", "1")], "give k, for"),
        (USER, [("K", "1")], "give k, for"),
        (USER, [("item", "5")], "give k, for"),
        (USER, [("for", "later")], "for: give next or now"),
        (USER, [("for", "")], "for: give next or now"),
        (USER, [("for", "Now")], "for: give next or now"),
        (USER, [("for", "now"), ("for", "now")], "for: give it once"),
        (None, [("item", "5"), ("for", "now")], "give item, k"),
        (None, [], "item"),
        (None, [("item", "")], "1 to 128 bytes"),
        (None, [("item", "x" * 129)], "1 to 128 bytes"),
        (None, [("item", "\ud800")], "valid Unicode"),
        (None, [("item", "5"), ("item", "6")], "item: give it once"),
        (None, [("item", "5"), ("private", "1")], "give item, k"),
        (None, [("item", "5"), ("k", "0")], "1 to 100"),
    ],
    ids=str,
)
def test_a_bad_query_over_http_is_refused_in_one_sentence(
    user: str | None, given: list[tuple[str, str]], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        similar_query(given) if user is None else list_query(user, given)


def test_a_sentence_does_not_repeat_what_was_sent() -> None:
    sent = "qx7zq" * 5
    for name in (sent, "k", "private", "for"):
        given = [(name, "1" if name == sent else sent)]
        with pytest.raises(ValueError, match=":") as refused:
            list_query(USER, given)
        assert sent not in str(refused.value)
    with pytest.raises(ValueError, match="user:") as refused:
        list_query(sent, [])
    assert sent not in str(refused.value)
    with pytest.raises(ValueError, match="item") as refused:
        similar_query([("item", sent * 10)])
    assert sent not in str(refused.value)
