"""The project's size, counted, against its ceilings (`ceilings.toml`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from stream_app.cli.app import app
from stream_app.cli.commands import shared_options
from stream_app.settings import GROUPS, Settings
from stream_app.wire import Topics
from tests import test_structure as structure
from tests.ceilings import ceiling

ROOT = Path(__file__).parents[1]
PRODUCT = ("stream_app", "producers", "consumers", "murmurec", "deploy")
SMALL = 50


def files(*tops: str) -> list[Path]:
    """Return the Python files below these folders."""
    return [path for top in tops for path in sorted((ROOT / top).rglob("*.py"))]


def lines(*tops: str) -> int:
    """Return how many lines the Python files below these folders have."""
    return sum(path.read_bytes().count(b"\n") for path in files(*tops))


def named_files() -> list[Path]:
    """Return the product's modules; an `__init__` is part of its package."""
    return [path for path in files(*PRODUCT) if path.name != "__init__.py"]


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


def documents() -> list[Path]:
    """Return every Markdown page of the project."""
    skipped = (".venv", ".pytest_cache", "vendor", "node_modules", "bench-report", "build")
    return [page for page in ROOT.rglob("*.md") if not {*skipped} & {*page.parts}]


COUNTS: dict[str, Callable[[], int]] = {
    "product_lines": lambda: lines(*PRODUCT),
    "research_lines": lambda: lines("research"),
    "modules": lambda: len(named_files()),
    "small_modules": lambda: sum(path.read_bytes().count(b"\n") < SMALL for path in named_files()),
    "single_importer_modules": single_importer_modules,
    "repeated_file_names": lambda: sum(
        count > 1 for count in Counter(path.name for path in named_files()).values()
    ),
    "packages": lambda: len({path.parent for path in files(*PRODUCT)}),
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
    "words": lambda: words(*documents()),
    "readme_words": lambda: words(ROOT / "README.md"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_below_its_ceiling(name: str) -> None:
    count, most = COUNTS[name](), ceiling(name)
    assert count <= most, f"{name}: {count}, and {most} at most: remove what it replaces"
