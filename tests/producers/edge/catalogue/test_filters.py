"""A filter allows what a plain evaluation of its expression allows, and says where it is wrong."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.datasets.item_files import ItemRow
from producers.edge.catalogue.filters import MAX_CHARACTERS, MAX_COMPARISONS, MAX_DEPTH, parse
from tests.producers.edge import stores

DAY = 86_400_000
NOW = stores.NOW // 60_000 * 60_000  # a filter asks for an age at its minute
SHOE = ItemRow(
    item="shoe",
    title='A "fine" shoe',
    categories=("Shoes", "Sport"),
    labels=("new",),
    attributes={"size": 42.0, "colour": "red", "vegan": True, "sizes": ("41", "42")},
    price=49.9,
    year=2024,
    added=NOW - 10 * DAY,
)
BARE = ItemRow(item="bare", available=False, added=NOW)


@pytest.mark.parametrize(
    ("text", "shoe", "bare"),
    [
        ('category = "Shoes"', True, False),
        ('category != "Shoes"', False, True),
        ("category in ('Hats', \"Sport\")", True, False),
        ('not label = "sale"', True, True),
        ('title = "A \\"fine\\" shoe"', True, False),
        ("price <= 50", True, False),
        ("price > 50 or price <= 50", True, False),  # a price that is not known is neither
        ("not price > 50", True, True),
        ("year in (2023, 2024)", True, False),
        ("age_days < 7", False, True),
        ("age_days >= 10", True, False),
        ('added > "2026-09-20"', False, True),
        ('added < "2026-09-21T13:00:00Z"', True, False),
        ("available", True, False),
        ("available = false", False, True),
        ("attributes.size >= 42", True, False),
        ('attributes.size = "42"', False, False),
        ('attributes.colour = "red" and attributes.vegan', True, False),
        ("attributes.vegan = 1", False, False),
        ('attributes.sizes = "41"', True, False),
        ('attributes.sizes != "43"', True, False),
        ("attributes.none = true", False, False),
        ("NOT available AND price < 1 OR available", True, False),
        ('(category = "Shoes" or price < 9) and not (year < 2000 or label = "old")', True, False),
    ],
)
def test_what_an_expression_allows(text: str, shoe: bool, bare: bool):
    found = parse(text, NOW)
    assert (found.allows(SHOE), found.allows(BARE)) == (shoe, bare)


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("", 1, "a field, one of category, label"),
        ("colour = 'red'", 1, "attributes.NAME"),
        ("price", 6, "an operator"),
        ("price = ", 9, "a number"),
        ("price = 'cheap'", 9, "a number"),
        ("price = 1e5", 9, "a number"),
        ("price < true", 9, "a number"),
        ("category < 'a'", 10, "= or !="),
        ("category = Shoes", 12, "a text in quotes"),
        ("category = 5", 12, "a text in quotes"),
        ("category = 'Shoes", 12, "a text in quotes"),
        ("category in 'Shoes'", 13, "( and values"),
        ("category in ('Shoes'", 21, ", or )"),
        ("attributes.size > 'x'", 19, "a number after >"),
        ("available = 1", 13, "true or false"),
        ("added > 'soon'", 9, 'a day as in "2026-05-01"'),
        ("price < 5 price > 3", 11, "and, or, or the end"),
        ("(price < 5", 11, "and, or, or )"),
        ("price < 5 and", 14, "a field"),
        ("not", 4, "a field"),
        ("price < 5; drop", 10, "and, or, or the end"),
        ("attributes.", 1, "a field"),
        ("__class__ = 1", 1, "a field"),
        ("attributes.__class__.x = 1", 21, "and, or, or the end"),
    ],
)
def test_a_wrong_expression_says_where(text: str, place: int, expected: str):
    with pytest.raises(ValueError, match="filter: expected ") as refusal:
        parse(text)
    assert str(refusal.value).endswith(f"at character {place}")
    assert expected in str(refusal.value)


def test_an_expression_has_limits_and_its_refusal_holds_nothing_of_it():
    with pytest.raises(ValueError, match="shorten it"):
        parse("(" * (MAX_CHARACTERS + 1))
    for deep in ("(" * (MAX_DEPTH + 2), "not " * (MAX_DEPTH + 2)):
        with pytest.raises(ValueError, match="nested more than"):
            parse(deep + "available")
    assert parse("available" + " and available" * (MAX_COMPARISONS - 1)).allows(SHOE)
    with pytest.raises(ValueError, match="compares more than 100 times"):
        parse("available" + " and available" * MAX_COMPARISONS)
    assert parse(f"price in ({', '.join(map(str, range(900)))}, 49.9)").allows(SHOE)
    with pytest.raises(ValueError, match="filter") as refusal:
        parse("secret = 'Secr3t'")
    assert "ecr" not in str(refusal.value)


def test_equal_texts_are_equal_filters_and_an_age_is_of_its_minute():
    assert parse("price < 5", 0) == parse("price < 5", NOW)
    assert len({parse("price < 5"), parse("price < 5"), parse("price < 6")}) == 2
    young = parse("age_days < 1", NOW)
    assert young == parse("age_days < 1", NOW + 500)
    assert young != parse("age_days < 1", NOW + 60_000)
    assert not parse("age_days < 1", NOW + 2 * DAY).allows(BARE)


TEXTS = {"category": "categories", "label": "labels", "title": "title"}
NUMBERS = ("price", "year", "age_days", "attributes.size")
OPERATORS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
             ">": operator.gt, ">=": operator.ge}  # fmt: skip
words = st.sampled_from(["a", "b", 'c "c', "d'\\"])
numbers = st.integers(-3, 3).map(float) | st.sampled_from([0.5, 2.25])
tests = st.one_of(
    st.tuples(st.just("text"), st.sampled_from(list(TEXTS)), st.sampled_from(["=", "!="]), words),
    st.tuples(
        st.just("number"), st.sampled_from(NUMBERS), st.sampled_from(list(OPERATORS)), numbers
    ),
    st.tuples(st.just("in"), st.sampled_from(list(TEXTS)), st.lists(words, min_size=1, max_size=3)),
    st.just(("available",)),
)
expressions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=8,
)
maybe = st.none() | numbers
rows = st.builds(
    ItemRow,
    item=st.just("x"),
    title=words,
    categories=st.lists(words, max_size=2).map(tuple),
    labels=st.lists(words, max_size=2).map(tuple),
    attributes=st.dictionaries(st.just("size"), numbers | words | st.booleans(), max_size=1),
    price=maybe,
    year=st.none() | st.integers(-3, 3),
    added=st.integers(-3, 3).map(lambda days: NOW - days * DAY),
    available=st.booleans(),
)


def written(node: Any) -> str:
    """Return an expression as a person writes it."""

    def quoted(word: str) -> str:
        escaped = word.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    match node:
        case ("text", field, sign, word):
            return f"{field}{sign}{quoted(word)}"
        case ("number", field, sign, number):
            return f"{field} {sign} {number:g}"
        case ("in", field, found):
            return f"{field} in ({', '.join(map(quoted, found))})"
        case ("not", inner):
            return f"not ({written(inner)})"
        case ("and" | "or" as word, parts):
            return "(" + f" {word} ".join(map(written, parts)) + ")"
    return "available"


def plainly(node: Any, row: ItemRow) -> bool:
    match node:
        case ("text", field, sign, word):
            found = getattr(row, TEXTS[field])
            if isinstance(found, tuple):
                return (word in found) == (sign == "=")
            return found is not None and OPERATORS[sign](found, word)
        case ("number", field, sign, number):
            found = {
                "price": row.price,
                "year": row.year,
                "age_days": (NOW - row.added) / DAY,
                "attributes.size": row.attributes.get("size"),
            }[field]
            return type(found) in (int, float) and OPERATORS[sign](found, number)
        case ("in", field, words_found):
            return any(plainly(("text", field, "=", word), row) for word in words_found)
        case ("not", inner):
            return not plainly(inner, row)
        case ("and", parts):
            return all(plainly(part, row) for part in parts)
        case ("or", parts):
            return any(plainly(part, row) for part in parts)
    return row.available


@settings(max_examples=300)
@given(expressions, st.lists(rows, min_size=1, max_size=5))
def test_a_filter_allows_what_a_plain_evaluation_allows(node: Any, found: list[ItemRow]):
    read = parse(written(node), NOW)
    assert [read.allows(row) for row in found] == [plainly(node, row) for row in found]


TOKENS = ["price", "category", "not", "and", "or", "in", *"()<=,", '"a"', "5", "available"]


@given(st.text(max_size=40) | st.lists(st.sampled_from(TOKENS), max_size=12).map(" ".join))
def test_any_text_is_a_filter_or_is_refused(text: str):
    try:
        found = parse(text, NOW)
    except ValueError:
        return
    assert isinstance(found.allows(SHOE), bool)
