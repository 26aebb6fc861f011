"""Every kind of wrong body gets its reason, and spoils no other row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.edge.events import strict_json
from producers.edge.events.event import Event, Refused, item_id, user_id
from producers.edge.events.event_decoding import MAX_ROWS, decode
from producers.edge.events.feedback_types import FeedbackTypes

NOW = 1_790_000_000_000
TYPES = FeedbackTypes()
GOOD: dict[str, Any] = {"user": "cust-44", "item": "SKU-2571", "type": "view", "time": NOW}
SECRET = "Secr3t"


def decoded(body: bytes, content_type: str = "application/json") -> list[Event | Refused]:
    return decode(body, content_type, NOW, TYPES)


def reasons(body: bytes, content_type: str = "application/json") -> list[str]:
    return [
        row.reason if isinstance(row, Refused) else "taken" for row in decoded(body, content_type)
    ]


def row(**changed: Any) -> bytes:
    return json.dumps({**GOOD, **changed}).encode()


def without(field: str) -> bytes:
    return json.dumps({name: value for name, value in GOOD.items() if name != field}).encode()


WRONG = {
    "nothing": (b"", "empty"),
    "an empty list": (b"[]", "empty"),
    "no JSON": (b"user=a&item=b", "not_json"),
    "half of an object": (b'{"user":"a"', "not_json"),
    "two objects in a line": (b'{"user":"a"} {"user":"b"}', "not_json"),
    "UTF-16": (json.dumps(GOOD).encode("utf-16"), "not_utf8"),
    "Latin-1": ('{"user":"Zoë","item":"b","type":"view"}'.encode("latin-1"), "not_utf8"),
    "lists in lists": (b"[" * 30_000, "nested"),
    "objects in objects": (b'{"a":' * 30_000 + b"1" + b"}" * 30_000, "nested"),
    "too many rows": (b"[" + b",".join([b"1"] * (MAX_ROWS + 1)) + b"]", "too_many_rows"),
    "a million brackets": (b"[" + b",".join([b"{}"] * 1_000_000) + b"]", "too_many_rows"),
    "a number": (b"4", "not_an_object"),
    "text": (b'"a"', "not_an_object"),
    "a list in a list": (b"[[1]]", "not_an_object"),
    "a field twice": (b'{"user":"a","user":"b","item":"c","type":"view"}', "field_repeated"),
    "another field": (row(vlaue=3), "field_unknown"),
    "no user": (without("user"), "user_missing"),
    "no item": (without("item"), "item_missing"),
    "null as user": (row(user=None), "user_missing"),
    "an empty user": (row(user=""), "user_invalid"),
    "a user of a megabyte": (row(user="u" * 1_000_000), "user_invalid"),
    "a user of 1,025 bytes": (row(user="u" * 1_025), "user_invalid"),
    "a user with NUL": (row(user="a\0b"), "user_invalid"),
    "half a character": (b'{"user":"a\\ud800","item":"b","type":"view"}', "user_invalid"),
    "a boolean user": (row(user=True), "user_invalid"),
    "a user with a fraction": (row(user=1.5), "user_invalid"),
    "a user of 5,000 digits": (
        b'{"user":' + b"7" * 5_000 + b',"item":"b","type":"view"}',
        "user_invalid",
    ),
    "a list as item": (row(item=["a"]), "item_invalid"),
    "an object as item": (row(item={"id": "a"}), "item_invalid"),
    "an item of 129 bytes": (row(item="i" * 129), "item_invalid"),
    "an item of 43 characters with 129 bytes": (row(item="€" * 43), "item_invalid"),
    "no type": (without("type"), "type_missing"),
    "an unknown type": (row(type="teleport"), "type_unknown"),
    "a type in capitals": (row(type="VIEW"), "type_unknown"),
    "a number as type": (row(type=3), "type_unknown"),
    "a rating without a value": (row(type="rating"), "value_missing"),
    "a rating off the scale": (row(type="rating", value=6), "value_off_scale"),
    "a rating between the steps": (row(type="rating", value=3.7), "value_off_scale"),
    "a rating as text": (row(type="rating", value="4"), "value_invalid"),
    "a boolean value": (row(value=True), "value_invalid"),
    "NaN": (b'{"user":"a","item":"b","type":"view","value":NaN}', "value_invalid"),
    "Infinity": (b'{"user":"a","item":"b","type":"rating","value":-Infinity}', "value_invalid"),
    "beyond a float": (b'{"user":"a","item":"b","type":"view","value":1e999}', "value_invalid"),
    "both ways of a rating": (row(rating=4), "type_twice"),
    "a time in two days": (row(time=NOW + 2 * 86_400_000), "time_future"),
    "a time in 5,000 years": (row(time=1e17), "time_future"),
    "a time before 1970": (row(time="1969-12-31T23:59:59Z"), "time_invalid"),
    "a negative time": (row(time=-5), "time_invalid"),
    "a time without a zone": (row(time="2026-05-01T12:00:00"), "time_invalid"),
    "a day that is none": (row(time="2026-02-30T12:00:00Z"), "time_invalid"),
    "a date in words": (row(time="yesterday"), "time_invalid"),
    "a boolean time": (row(time=True), "time_invalid"),
    "an object as time": (row(time={"seconds": 4}), "time_invalid"),
    "an empty key": (row(key=""), "key_invalid"),
    "a key of 300 bytes": (row(key="k" * 300), "key_invalid"),
    "a number as key": (row(key=4), "key_invalid"),
    "a key with half a character": (row(key="\ud800"), "key_invalid"),
    "a list id of 40 bytes": (row(list="l" * 40), "list_invalid"),
}


@pytest.mark.parametrize(("body", "reason"), WRONG.values(), ids=WRONG)
def test_a_wrong_body_gets_its_reason(body: bytes, reason: str):
    assert reasons(body) == [reason]


ROWS = {name: body for name, (body, reason) in WRONG.items() if body[:1] == b"{" and reason not in (
    "not_json", "not_utf8", "nested")}  # fmt: skip


@pytest.mark.parametrize("body", ROWS.values(), ids=ROWS)
def test_a_wrong_row_spoils_no_other(body: bytes):
    good = row()
    for whole, kind in (
        (b"[" + good + b"," + body + b"," + good + b"]", "application/json"),
        (good + b"\n" + body + b"\n\n" + good, "application/x-ndjson"),
        (good + b"\n" + body + b"\n" + good, ""),
    ):
        first, wrong, last = decoded(whole, kind)
        assert isinstance(first, Event)
        assert first == last
        assert isinstance(wrong, Refused)
        assert wrong.row == 2


@pytest.mark.parametrize("line", [b"\xff\xfe", b"{", b"[" * 5_000, b"{} {}"])
def test_a_line_that_is_no_json_spoils_no_other(line: bytes):
    found = decoded(row() + b"\n" + line + b"\n" + row(), "application/x-ndjson")
    assert [isinstance(each, Event) for each in found] == [True, False, True]


def test_a_refusal_holds_nothing_that_was_sent():
    wrong = [
        row(user=f"{SECRET}\0"), row(item=[SECRET]), row(type=SECRET), row(value=SECRET),
        row(type="rating", value=4.7771), row(time=SECRET), row(key=[SECRET]), row(list=SECRET * 9),
        json.dumps({**GOOD, SECRET: 1}).encode(), SECRET.encode(), f'{{"{SECRET}'.encode(),
    ]  # fmt: skip
    for body in wrong:
        (found,) = decoded(body)
        assert isinstance(found, Refused)
        assert SECRET not in found.sentence
        assert "4.777" not in found.sentence
    assert SECRET not in repr(decoded(row(user=SECRET, item=SECRET, key=SECRET))[0])


def test_forms_of_one_time_are_one():
    at = 1_777_636_800_250
    forms = [at, at / 1000, str(at), "2026-05-01T12:00:00.25Z", "2026-05-01t14:00:00.250+02:00"]
    assert {
        each.at for form in forms for each in decoded(row(time=form)) if isinstance(each, Event)
    } == {at}


def test_a_time_up_to_a_day_ahead_is_taken_and_no_time_is_now():
    assert reasons(row(time=NOW + 86_400_000)) == ["taken"]
    assert [each.at for each in decoded(without("time")) if isinstance(each, Event)] == [NOW]


def test_a_rating_is_type_and_value_in_one_field():
    (found,) = decoded(b'{"user":7,"item":"007","rating":4}')
    assert found == Event("7", "007", "rating", 4.0, NOW)


def test_an_integer_as_id_is_its_decimal_text_and_a_fraction_is_none():
    for number in (2**53 + 1, 2**63, 2**64 + 1, 10**40, -1):
        body = b'{"user":%d,"item":%d,"type":"view"}' % (number, number)
        assert [(each.user, each.item) for each in decoded(body)] == [(str(number),) * 2]
    for number in (b"1.0", b"1e3", b"7.5"):
        assert reasons(b'{"user":"a","item":' + number + b',"type":"view"}') == ["item_invalid"]


def test_a_pretty_object_and_a_byte_order_mark_are_read():
    assert reasons(b"\xef\xbb\xbf" + json.dumps(GOOD, indent=2).encode(), "") == ["taken"]
    assert reasons(b"\xef\xbb\xbf" + row() + b"\r\n" + row(), "text/plain") == ["taken"] * 2


def test_the_token_is_that_of_the_event_or_of_its_key():
    def token(**changed: Any) -> bytes:
        (found,) = decoded(row(**changed))
        assert isinstance(found, Event)
        return found.token

    assert token() == token(value=4, list="l")
    assert token(user=7) == token(user="7")
    assert (
        len(
            {
                token(),
                token(user=" cust-44"),
                token(user="b"),
                token(item="b"),
                token(type="like"),
                token(time=1),
            }
        )
        == 6
    )
    assert token(key="k") == token(key="k", user="b", item="c") != token()
    assert token(user="ab", item="c") != token(user="a", item="bc")


NUMBERS = [
    "0",
    "-0",
    "1e2",
    "-1.5e-7",
    "1e999",
    "NaN",
    "Infinity",
    "9" * 300,
    "9" * 301,
    "9" * 5_000,
]
NAMES = ['"a"', '"b"', '"\\u0061"', '"\\""', '"\\ud800"', '"\\ud83d\\ude00"', '""', '"é"']
VALUES = st.recursive(
    st.sampled_from([*NUMBERS, *NAMES, "true", "null", "nul", "1 "]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda found: f"[{', '.join(found)}]"),
        st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=3).map(
            lambda found: f"{{{','.join(f'{name} : {value}' for name, value in found)}}}"
        ),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_fast_json_is_what_the_strict_reader_reads(text: str):
    def read(reader: Any) -> Any:
        try:
            return repr(reader(text))
        except ValueError:
            return "none"

    assert read(strict_json.read) == read(strict_json._strict.decode)


@given(st.text(max_size=20))
def test_an_id_is_the_text_that_was_sent(text: str):
    for form in (user_id, item_id):
        if text and "\0" not in text:
            assert form(text) == text
        else:
            with pytest.raises(ValueError, match=r"empty|NUL"):
                form(text)


@given(st.binary(max_size=200), st.sampled_from(["", "application/json", "application/x-ndjson"]))
def test_no_bytes_end_it(body: bytes, kind: str):
    assert decoded(body, kind)
