"""A small typed expression over what the catalogue knows of an item.

    category = "Shoes" and price <= 50 and not label in ("sale", "used") and available

    expression   choice ("or" choice)*
    choice       part ("and" part)*
    part         "not" part | "(" expression ")" | FIELD OPERATOR VALUE
                 | FIELD "in" "(" VALUE ("," VALUE)* ")"
                 | FIELD                      one that is true or false
    FIELD        category, label (several: one of them suffices), domain, title, price, year,
                 added (a time), age_days, available, attributes.NAME
    OPERATOR     = != < <= > >=          texts have = and != alone
    VALUE        "text", 'text', a number, true, false

What is not known of an item is neither equal nor unequal to anything, above or below it. An
attribute is compared with a value of its own kind alone. Texts are compared as they are written.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from producers.edge.catalogue.item_row import ItemRow
from producers.edge.events import event

MAX_CHARACTERS = 10_000
MAX_DEPTH = 50
NUMBERS = ("price", "year", "age_days", "added")
TEXTS = ("category", "label", "domain", "title")
FIELDS = (*TEXTS, *NUMBERS, "available", "attributes.NAME")
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_.]))
    |(?P<name>[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)?)
    |(?P<sign>!=|<=|>=|[=<>(),]))""",
    re.VERBOSE,
)
_MINUTE = 60_000
_WORDS = {"and", "or", "not", "in", "true", "false"}

Test = Callable[[ItemRow, int], bool]
_Get = Callable[[ItemRow, int], Any]


class Filter:
    """A parsed expression, at the minute of its making where it asks for an age; two of the same
    text and minute are equal."""

    def __init__(self, text: str, test: Test, minute: int) -> None:
        self._key, self._test = (text, minute), test

    def allows(self, row: ItemRow) -> bool:
        """Return whether the item may be in a list with this filter."""
        return self._test(row, self._key[1] * _MINUTE)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self._key == other._key

    def __hash__(self) -> int:
        return self._key.__hash__()


def parse(text: str, now_ms: int | None = None) -> Filter:
    """Return the filter of an expression; ValueError names the place of what is wrong, and nothing
    of the text."""
    test, needs_time = _parsed(text)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    return Filter(text, test, now // _MINUTE if needs_time else 0)


@lru_cache(256)
def _parsed(text: str) -> tuple[Test, bool]:
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"filter: is above {MAX_CHARACTERS:,} characters; shorten it")
    parser = _Parser(text)
    test = parser.expression(0)
    if parser.kind != "end":
        raise parser.wrong("and, or, or the end")
    return test, parser.needs_time


class _Parser:
    """Reads one token ahead: `kind` and `word` are of the next one."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0
        self.needs_time = False
        self._advance()

    def _advance(self) -> None:
        rest = len(self._text) - len(self._text[self._end :].lstrip())
        self._start = rest
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            self.kind, self.word = ("end", "") if rest == len(self._text) else ("none", "")
            return
        self.kind, self._end = str(found.lastgroup), found.end()
        self.word = found[self.kind]
        if self.kind == "name" and self.word.lower() in _WORDS:
            self.kind = self.word = self.word.lower()
        elif self.kind == "sign":
            self.kind = self.word

    def _takes(self, *kinds: str) -> str | None:
        if self.kind not in kinds:
            return None
        word = self.word
        self._advance()
        return word

    def wrong(self, expected: str) -> ValueError:
        return ValueError(f"filter: expected {expected} at character {self._start + 1}")

    def expression(self, depth: int) -> Test:
        tests = [self._choice(depth)]
        while self._takes("or"):
            tests.append(self._choice(depth))
        return tests[0] if len(tests) == 1 else lambda row, now: any(t(row, now) for t in tests)

    def _choice(self, depth: int) -> Test:
        tests = [self._part(depth)]
        while self._takes("and"):
            tests.append(self._part(depth))
        return tests[0] if len(tests) == 1 else lambda row, now: all(t(row, now) for t in tests)

    def _part(self, depth: int) -> Test:
        if depth > MAX_DEPTH:
            raise ValueError(f"filter: is nested more than {MAX_DEPTH} deep; simplify it")
        if self._takes("not"):
            inner = self._part(depth + 1)
            return lambda row, now: not inner(row, now)
        if self._takes("("):
            inner = self.expression(depth + 1)
            if not self._takes(")"):
                raise self.wrong("and, or, or )")
            return inner
        return self._comparison()

    def _comparison(self) -> Test:
        field = self.word
        is_attribute = field.startswith("attributes.")
        if self.kind != "name" or not (is_attribute or field in FIELDS[:-1]):
            raise self.wrong(f"not, ( or a field, one of {', '.join(FIELDS)},")
        self._advance()
        get = self._getter(field)
        if self._takes("in"):
            if not self._takes("("):
                raise self.wrong("( and values")
            wanted = [self._value(field)]
            while self._takes(","):
                wanted.append(self._value(field))
            if not self._takes(")"):
                raise self.wrong(", or )")
            tests = [_compared(get, "=", each) for each in wanted]
            return lambda row, now: any(test(row, now) for test in tests)
        is_text = field in TEXTS
        if (sign := self._takes(*(("=", "!=") if is_text else _OPERATORS))) is not None:
            start = self._start
            value = self._value(field)
            if isinstance(value, str | bool) and sign not in ("=", "!="):
                self._start = start
                raise self.wrong(f"a number after {sign}")
            return _compared(get, sign, value)
        if field == "available" or is_attribute:
            return _compared(get, "=", True)
        raise self.wrong("= or !=, or in" if is_text else "an operator = != < <= > >=, or in")

    def _getter(self, field: str) -> _Get:
        if field == "age_days":
            self.needs_time = True
            return lambda row, now: (now - row.added) / event.DAY
        if field in ("category", "label"):
            name = "categories" if field == "category" else "labels"
            return lambda row, _: getattr(row, name)
        if field.startswith("attributes."):
            name = field.partition(".")[2]
            return lambda row, _: row.attributes.get(name)
        return lambda row, _: getattr(row, field)

    def _value(self, field: str) -> str | float | bool:
        start, kind, word = self._start, self.kind, self.word
        free = field.startswith("attributes.")
        if kind == "text" and (free or field in TEXTS or field == "added"):
            self._advance()
            found = re.sub(r"\\(.)", r"\1", word[1:-1])
            if field != "added":
                return found
            try:
                return event.milliseconds(f"{found}T00:00:00Z" if len(found) == 10 else found)
            except ValueError:
                self._start = start
                raise self.wrong('a day as in "2026-05-01", or a time with its zone,') from None
        if kind == "number" and (free or field in NUMBERS):
            self._advance()
            return event.milliseconds(float(word)) if field == "added" else float(word)
        if kind in ("true", "false") and (free or field == "available"):
            self._advance()
            return kind == "true"
        kinds = {"available": "true or false", **dict.fromkeys(NUMBERS, "a number")}
        raise self.wrong(
            kinds.get(field, "a value" if free else 'a text in quotes, as in "Shoes",')
        )


def _compared(get: _Get, sign: str, wanted: str | float | bool) -> Test:
    compare = _OPERATORS[sign]
    if isinstance(wanted, str):

        def texts(row: ItemRow, now: int) -> bool:
            found = get(row, now)
            if isinstance(found, tuple):  # several: one of them, or none of them
                return (wanted in found) is (sign == "=")
            return isinstance(found, str) and compare(found, wanted)

        return texts
    is_bool = isinstance(wanted, bool)

    def numbers(row: ItemRow, now: int) -> bool:
        found = get(row, now)
        if found is None or isinstance(found, bool) is not is_bool:
            return False
        return isinstance(found, int | float) and compare(found, wanted)

    return numbers
