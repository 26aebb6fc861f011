"""The places of a module that can be broken, and what each becomes.

    operator   `<` `<=`, `==` `!=`, `in` `not in`, `is` `is not`, `and` `or`, `+` `-`, `*` `//` ...
    constant   a number one larger, True and False exchanged
    order      two adjacent calls exchanged
    drop       a call, an assignment to a part of an object, a `raise` or an early `return` left out

Annotations, decorators, docstrings, texts and the message of a `raise` stay as they are.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_EXCHANGED = {
    **{ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")},
    **{ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in")},
    **{ast.NotIn: ("not in", "in"), ast.And: ("and", "or"), ast.Or: ("or", "and")},
    **{ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is")},
    **{ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.Pow: ("**", "*")},
    **{ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "+")},
    **{ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<")},
    **{ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.BitXor: ("^", "&")},
}
_UNREAD = {"annotation", "returns", "decorator_list", "bases", "keywords", "type_params"}
_TEXTS = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Raise)


@dataclass(frozen=True)
class Change:
    """Bytes `start` to `end` of a source become `new`."""

    kind: str
    line: int
    start: int
    end: int
    new: bytes

    def applied(self, source: bytes) -> bytes:
        """Return the broken source."""
        return source[: self.start] + self.new + source[self.end :]

    def differs(self, source: bytes) -> bool:
        """Return whether the broken source compiles, to something else."""
        try:
            return ast.dump(ast.parse(self.applied(source))) != ast.dump(ast.parse(source))
        except SyntaxError:
            return False


def changes(source: bytes) -> list[Change]:
    """Return every change of a source, a few of which do not compile."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    tree = ast.parse(source)
    return [
        Change(kind, bisect(lines, start), start, end, new)
        for node in _read(tree)
        for kind, start, end, new in (*_of(node, source, lines), *_of_body(node, source, lines))
    ]


def _read(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run and are no text."""
    if isinstance(node, _TEXTS) or (
        isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    ):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in _UNREAD or isinstance(node, ast.Call):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _read(child)


Found = Iterator[tuple[str, int, int, bytes]]


def _span(node: ast.AST, lines: list[int]) -> tuple[int, int]:
    return (
        lines[node.lineno - 1] + node.col_offset,
        lines[node.end_lineno - 1] + node.end_col_offset,
    )


def _of(node: ast.AST, source: bytes, lines: list[int]) -> Found:
    """Yield the operator or the constant that a node is."""
    pairs: list[tuple[ast.AST, ast.AST, ast.AST]] = []
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        pairs = [(op, *two) for op, two in zip(node.ops, pairwise(operands), strict=True)]
    elif isinstance(node, ast.BoolOp):
        pairs = [(node.op, *node.values[:2])]
    elif isinstance(node, ast.BinOp):
        pairs = [(node.op, node.left, node.right)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        new = repr(not node.value if isinstance(node.value, bool) else node.value + 1)
        yield "constant", *_span(node, lines), new.encode()
    for operator, left, right in pairs:
        if type(operator) in _EXCHANGED:
            old, new = _EXCHANGED[type(operator)]
            start, end = _span(left, lines)[1], _span(right, lines)[0]
            between = source[start:end].decode()
            old = r"\s+".join(map(re.escape, old.split()))
            yield "operator", start, end, re.sub(old, new, between, count=1).encode()


def _of_body(node: ast.AST, source: bytes, lines: list[int]) -> Found:
    """Yield the statements below a node that can be left out or exchanged."""
    for body in (getattr(node, name, ()) for name in ("body", "orelse", "finalbody")):
        if not isinstance(body, list):  # of a lambda
            continue
        for statement in filter(_acts, body):
            yield "drop", *_span(statement, lines), b"pass"
        for one, two in pairwise(body):
            if all(isinstance(each, ast.Expr) and _acts(each) for each in (one, two)):
                (start, middle), (after, end) = _span(one, lines), _span(two, lines)
                parts = source[after:end], source[middle:after], source[start:middle]
                yield "order", start, end, b"".join(parts)


def _acts(statement: ast.AST) -> bool:
    if isinstance(statement, ast.Assign):
        return isinstance(statement.targets[0], ast.Attribute | ast.Subscript)
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call | ast.Await)
    return isinstance(statement, ast.AugAssign | ast.Raise)
