"""What public functions and commands share: `research/`, and progress of long work in lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from stream_app.errors import UserError

LINE_SECONDS = 10.0
Progress = Callable[[int, int], object]


def progress_lines(what: str, now: Callable[[], float] = time.monotonic) -> Callable[..., None]:
    """Return a function that takes (done, total), and what is in work where that changes, and
    prints them on stderr every ten seconds, with the time left where parts are named."""
    began = printed = now()
    first: float | None = None  # what was done before

    def advance(done: float, total: int, part: str = "") -> None:
        nonlocal printed, first
        first = done if first is None else first
        if (seconds := now()) - printed >= LINE_SECONDS:
            printed = seconds
            left = (seconds - began) * (total - done) / max(done - first, 1) / 60
            known = f", {max(1, round(left)):,} min left" if first + 1 <= done < total else ""
            named = f", {part}{known}" if part else ""
            print(f"{what}: {int(done):,} of {total:,}{named}", file=sys.stderr, flush=True)

    return advance


def research(module: str) -> Any:
    """Return a module of `research`, which a checkout has and no install.

    The one place that imports them, by name.
    """
    try:
        return import_module(f"research.{module}")
    except ModuleNotFoundError as missing:
        if missing.name != "research":
            raise
        raise UserError(
            "this needs a checkout of murmurec: no install has research/, the systems of the papers"
        ) from None
