"""A small typed expression over what the catalogue knows of an item.

    category = "Shoes" and price <= 50 and not label in ("sale", "used") and available

    expression   choice ("or" choice)*
    choice       part ("and" part)*
    part         "not" part | "(" expression ")" | FIELD OPERATOR VALUE
                 | FIELD "in" "(" VALUE ("," VALUE)* ")"
                 | FIELD                      one that is true or false
    FIELD        category, label (several: one of them suffices), title, price, year,
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from producers.datasets.item_files import ItemRow
from producers.edge.events import event

MAX_CHARACTERS = 10_000
MAX_DEPTH = 50
MAX_COMPARISONS = 100  # each is made with up to every item of the catalogue
NUMBERS = ("price", "year", "age_days", "added")
TEXTS = ("category", "label", "title")
FIELDS = (*TEXTS, *NUMBERS, "available", "attributes.NAME")
_PLURALS = {"category": "categories", "label": "labels"}
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    **{"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le},
    **{">": operator.gt, ">=": operator.ge},
}
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_.]))
    |(?P<word>(?i:and|or|not|in|true|false)(?![A-Za-z0-9_.-])|!=|<=|>=|[=<>(),])
    |(?P<field>[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)?)
    |(?P<none>\S)|(?P<end>$))""",
    re.VERBOSE,
)
_MINUTE = 60_000

Test = Callable[[ItemRow, int], bool]


@dataclass(frozen=True)
class Filter:
    """A parsed expression, at the minute of its making where it asks for an age; two of the same
    text and minute are equal."""

    text: str
    minute: int
    test: Test = field(compare=False, repr=False)

    def allows(self, row: ItemRow) -> bool:
        """Return whether the item may be in a list with this filter."""
        return self.test(row, self.minute * _MINUTE)


def parse(text: str, now_ms: int | None = None) -> Filter:
    """Return the filter of an expression; ValueError names the place of what is wrong, and nothing
    of the text."""
    test, needs_time = _parsed(text)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    return Filter(text, now // _MINUTE if needs_time else 0, test)


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
    """Reads one token ahead: `kind` and `word` are of the next one.

    Not Python's own parser: 200 brackets overflow the stack of a small thread.
    """

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.finditer(text)
        self.needs_time, self._comparisons = False, 0
        self._advance()

    def _advance(self) -> None:
        found = next(self._tokens)
        group = str(found.lastgroup)
        self.word, self._start = found[group], found.start(group)
        self.kind = self.word.lower() if group == "word" else group

    def _takes(self, *kinds: str) -> str | None:
        kind = self.kind
        if kind not in kinds:
            return None
        self._advance()
        return kind

    def wrong(self, expected: str) -> ValueError:
        return ValueError(f"filter: expected {expected} at character {self._start + 1}")

    def expression(self, depth: int, word: str = "or") -> Test:
        tests, joined = list[Test](), any if word == "or" else all
        while not tests or self._takes(word):
            tests.append(self.expression(depth, "and") if word == "or" else self._part(depth))
        return tests[0] if len(tests) == 1 else lambda row, now: joined(t(row, now) for t in tests)

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
        name = self.word
        is_attribute = name.startswith("attributes.")
        if self.kind != "field" or not (is_attribute or name in FIELDS[:-1]):
            raise self.wrong(f"not, ( or a field, one of {', '.join(FIELDS)},")
        self._advance()
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise ValueError(f"filter: compares more than {MAX_COMPARISONS} times; use in (...)")
        self.needs_time |= name == "age_days"
        if self._takes("in"):
            if not self._takes("("):
                raise self.wrong("( and values")
            values = [self._value(name)]
            while self._takes(","):
                values.append(self._value(name))
            if not self._takes(")"):
                raise self.wrong(", or )")
            return _one_of(name, values)
        if (sign := self._takes(*(("=", "!=") if name in TEXTS else _OPERATORS))) is not None:
            start, value = self._start, self._value(name)
            if isinstance(value, str | bool) and sign not in ("=", "!="):
                self._start = start
                raise self.wrong(f"a number after {sign}")
            return _compared(name, sign, value)
        if name == "available" or is_attribute:
            return _compared(name, "=", True)
        is_text = name in TEXTS
        raise self.wrong("= or !=, or in" if is_text else "an operator = != < <= > >=, or in")

    def _value(self, name: str) -> str | float | bool:
        kind, word, is_free = self.kind, self.word, name.startswith("attributes.")
        found: str | float | bool | None = None
        if kind == "text" and (is_free or name in (*TEXTS, "added")):
            found = re.sub(r"\\(.)", r"\1", word[1:-1])
        elif kind == "number" and (is_free or name in NUMBERS):
            found = float(word)
        elif kind in ("true", "false") and (is_free or name == "available"):
            found = kind == "true"
        if found is None:
            kinds = {"available": "true or false", **dict.fromkeys(NUMBERS, "a number")}
            free = "a value" if is_free else 'a text in quotes, as in "Shoes",'
            raise self.wrong(kinds.get(name, free))
        if name == "added":
            try:
                is_day = isinstance(found, str) and len(found) == 10
                found = event.milliseconds(f"{found}T00:00:00Z" if is_day else found)
            except ValueError:
                raise self.wrong('a day as in "2026-05-01", or a time with its zone,') from None
        self._advance()
        return found


def _compared(name: str, sign: str, wanted: str | float | bool) -> Test:
    get, compare = _getter(name), _OPERATORS[sign]
    kinds = (int, float) if type(wanted) in (int, float) else (type(wanted),)

    def test(row: ItemRow, now: int) -> bool:
        found = get(row, now)
        if isinstance(found, tuple):  # several: one of them, or none of them
            return isinstance(wanted, str) and (wanted in found) is (sign == "=")
        return type(found) in kinds and compare(found, wanted)

    return test


def _one_of(name: str, values: Sequence[str | float | bool]) -> Test:
    get, wanted = _getter(name), frozenset(values)
    tests = [_compared(name, "=", value) for value in values]

    def test(row: ItemRow, now: int) -> bool:
        found = get(row, now)
        known = found if isinstance(found, tuple) else (found,)
        # A text or number that no value equals is told by one look; equal ones may differ in kind.
        return not wanted.isdisjoint(known) and any(each(row, now) for each in tests)

    return test


def _getter(name: str) -> Callable[[ItemRow, int], Any]:
    if name == "age_days":
        return lambda row, now: (now - row.added) / event.DAY
    if name.startswith("attributes."):
        key = name.partition(".")[2]
        return lambda row, _: row.attributes.get(key)
    held = _PLURALS.get(name, name)
    return lambda row, _: getattr(row, held)
