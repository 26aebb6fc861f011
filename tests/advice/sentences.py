"""Every string of the product that names a command, an option or a setting, found in its source.

sentence   a string literal with what is put into it as `…`; neither docstrings nor pieces
command    `murmurec WORD ... --option`, up to the end of a clause
option     `--name`, elsewhere
setting    MURMUREC_NAME; `name = value`; `set name to value`; `raise name`
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("stream_app", "producers", "consumers", "murmurec")
HOLE = "…"
_NAMES = re.compile(r"murmurec [a-z-]|(?<![\w-])--[a-z]|MURMUREC_|\b[a-z]+_[a-z_]+\b|\b\w+ = \w")
_COMMAND = re.compile(r"\bmurmurec ((?:[\w./:=…<>-]+ ?)+)")
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")
_WORD = re.compile(r"\b(?:set|raise|lower|leave|turn on) ([a-z]+(?:_[a-z]+)+)\b")
_VARIABLE = re.compile(r"\bMURMUREC_[A-Z_]+\b")
_VALUE = re.compile(r"\b([a-z][a-z_]*) = ([\w.:/-]+)|\bset ([a-z][a-z_]*) to ([\w.:/-]+)")


@dataclass(frozen=True)
class Sentence:
    """One string and its place."""

    module: str
    line: int
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """The words after each `murmurec`."""
        return [found.split() for found in _COMMAND.findall(self.text)]

    @property
    def options(self) -> set[str]:
        """The options that are named."""
        return set(_OPTION.findall(self.text))

    @property
    def variables(self) -> set[str]:
        """The environment variables of settings that are named."""
        return set(_VARIABLE.findall(self.text))

    @property
    def names(self) -> set[str]:
        """The names that are to be changed."""
        return set(_WORD.findall(self.text))

    @property
    def values(self) -> list[tuple[str, str]]:
        """The names that are to have a value."""
        found = _VALUE.findall(self.text)
        return [(a or c, (b or d).rstrip(".:")) for a, b, c, d in found]


@cache
def sentences() -> tuple[Sentence, ...]:
    """Return the strings of the product that name a command, an option or a setting."""
    found = []
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found += [Sentence(module, *each) for each in _strings(ast.parse(path.read_text()))]
    return tuple(each for each in found if _NAMES.search(each.text))


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every string but docstrings, with its line; a formatted one as a whole."""
    open_nodes: list[ast.AST] = [tree]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else HOLE for p in node.values]
            yield node.lineno, "".join(map(str, parts))
            open_nodes += [part for part in node.values if isinstance(part, ast.FormattedValue)]
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        elif isinstance(node, ast.keyword) and node.arg in _HELP:
            continue
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "option":
            continue  # its help
        elif not isinstance(node, _NAME):
            open_nodes += ast.iter_child_nodes(node)


_HELP = ("help", "description", "epilog", "doc")  # say what an option is; test_main.py runs them
_NAME = ast.Name | ast.Attribute | ast.operator | ast.expr_context | ast.arguments
