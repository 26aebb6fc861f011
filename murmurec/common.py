"""What public functions and commands share: `research/`, and progress of long work in lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

LINE_SECONDS = 10.0
Progress = Callable[[int, int], object]


def progress_lines(
    what: str, now: Callable[[], float] = time.monotonic
) -> Callable[[int, int], None]:
    """Return a function that takes (done, total), and prints them on stderr every ten seconds."""
    printed = now()

    def advance(done: int, total: int) -> None:
        nonlocal printed
        if (seconds := now()) - printed >= LINE_SECONDS:
            printed = seconds
            print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)

    return advance


def research(module: str) -> Any:
    """Return a module of `research`, which an install may lack: the one place that imports them, by
    name. ModuleNotFoundError names the extra that installs it."""
    try:
        return import_module(f"research.{module}")
    except ModuleNotFoundError as missing:
        if missing.name != "research":
            raise
        raise ModuleNotFoundError(
            "this needs research: pip install 'murmurec[research]'", name="research"
        ) from None
