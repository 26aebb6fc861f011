"""The size of the project: what is counted, and the ceilings of `ceilings.toml`.

    python -m tests.ceilings [--write]     print counts and ceilings, or set the ceilings

A sum counts wherever a file lies, so that a move lowers none.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from stream_app.cli.app import app
from stream_app.cli.commands import shared_options
from stream_app.settings import GROUPS, Settings
from stream_app.wire import Topics
from tests import test_structure as structure
from tests.fixtures.trees import nodes

ROOT = Path(__file__).parents[1]
CEILINGS = Path(__file__).with_name("ceilings.toml")
PRODUCT = ("stream_app", "producers", "consumers", "murmurec", "deploy")
# Folders of tools and of what they build; `vendor` holds the work of others.
_SKIPPED = {".venv", ".git", "vendor", "node_modules", "build", "dist", "bench-report"}
_TEXT = {".py", ".md", ".js", ".css", ".html", ".toml"}
SMALL = 50


@cache
def files(suffix: str, *tops: str) -> tuple[Path, ...]:
    """Return the project's files with a suffix, below these folders or everywhere."""
    found = [path for top in tops or (".",) for path in (ROOT / top).rglob(f"*{suffix}")]
    parts = [path.relative_to(ROOT).parts for path in found]
    kept = [
        ROOT.joinpath(*each)
        for each in parts
        if not _SKIPPED & {*each} and not any(p.endswith("_cache") for p in each)
    ]
    return tuple(sorted(path for path in kept if path.is_file()))


def lines(suffix: str, *tops: str) -> int:
    """Return how many lines these files have."""
    return sum(path.read_bytes().count(b"\n") for path in files(suffix, *tops))


def statements(*tops: str) -> int:
    """Return how many statements the Python files below these folders have, docstrings left out."""
    return sum(map(_statements, files(".py", *tops)))


@cache
def _statements(path: Path) -> int:
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in nodes(_tree(path)))


def docstring_lines(*tops: str) -> int:
    """Return how many lines of these folders' Python files are docstrings."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in files(".py", *tops)
        for node in nodes(_tree(path))
        if isinstance(node, ast.stmt) and _is_text(node)
    )


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def named_files() -> list[Path]:
    """Return the product's modules; an `__init__` is part of its package."""
    return [path for path in files(".py", *PRODUCT) if path.name != "__init__.py"]


def single_importer_modules() -> int:
    """Return how many modules of the product exactly one other imports."""
    importers = Counter(
        name for names in structure.imports(structure.project()).values() for name in names
    )
    return sum(count == 1 for count in importers.values())


def shown() -> tuple[int, int]:
    """Return how many commands there are, and how many options their help shows: shared ones are
    one line."""
    pending: list[Any] = [get_command(app)]  # Typer's copy of Click has no types
    commands = options = 0
    while pending:
        command = pending.pop()
        if subcommands := getattr(command, "commands", None):
            pending += subcommands.values()
            continue
        commands += 1
        options += sum(
            each.param_type_name == "option" and not each.hidden for each in command.params
        ) - len(shared_options(command.params))
    return commands, options


def words(*pages: Path) -> int:
    """Return how many words, separated by white space, the pages have."""
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def golden_bytes() -> int:
    """Return the size of what tests compare with: data and pictures, not what others made."""
    data = [path for path in files("", "tests") if path.suffix not in {*_TEXT, ".pyc", ".nbi"}]
    vectors = ROOT / "deploy" / "web" / "vectors.json"
    return sum(path.stat().st_size for path in (*data, vectors))


COUNTS: dict[str, Callable[[], int]] = {
    "product_lines": lambda: lines(".py", *PRODUCT),
    "research_lines": lambda: lines(".py", "research"),
    "tests_lines": lambda: lines(".py", "tests"),
    "python_lines": lambda: lines(".py"),
    "product_statements": lambda: statements(*PRODUCT),
    "python_statements": statements,
    "javascript_lines": lambda: lines(".js"),
    "golden_bytes": golden_bytes,
    "modules": lambda: len(named_files()),
    "small_modules": lambda: sum(path.read_bytes().count(b"\n") < SMALL for path in named_files()),
    "single_importer_modules": single_importer_modules,
    "repeated_file_names": lambda: sum(
        count > 1 for count in Counter(path.name for path in named_files()).values()
    ),
    "packages": lambda: len({path.parent for path in files(".py", *PRODUCT)}),
    "rooms": lambda: len(structure.LAYER),
    "arrows": lambda: len(
        [pair for pair in structure.arrows(structure.project()) if not structure.OVER_ALL & {*pair}]
    ),
    "commands": lambda: shown()[0],
    "options": lambda: shown()[1],
    "settings": lambda: len(Settings.model_fields) - len(GROUPS["tuning"].model_fields),
    "tuning": lambda: len(GROUPS["tuning"].model_fields),
    "topics": lambda: len(Topics().table(features=())),
    "feature_topics": lambda: len(Topics().table()) - len(Topics().table(features=())),
    "words": lambda: words(*files(".md")),
    "readme_words": lambda: words(ROOT / "README.md"),
}


def ceiling(name: str) -> int:
    """Return what a count may be."""
    return int(tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["ceilings"][name])


def main(write: bool) -> None:
    """Print every count beside its ceiling, and how many lines are docstrings; or set ceilings."""
    text = CEILINGS.read_text(encoding="utf-8")
    for name, count in COUNTS.items():
        found = count()
        print(f"{name:24} {found:>9,} {ceiling(name):>9,}")
        text = re.sub(rf"(?m)^{name} = [\d_]+", f"{name} = {found:_}", text)
    for tops in (PRODUCT, ("research",), ("tests",)):
        print(f"docstring lines of {tops[0] if len(tops) == 1 else 'the product'}: ", end="")
        print(f"{docstring_lines(*tops):,}")
    if write:
        CEILINGS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main("--write" in sys.argv[1:])
