"""`research/`, which an install may lack: the one place that imports its modules, by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def research(module: str) -> Any:
    """Return a module of `research`; ModuleNotFoundError names the extra that installs it."""
    try:
        return import_module(f"research.{module}")
    except ModuleNotFoundError as missing:
        if missing.name != "research":
            raise
        raise ModuleNotFoundError(
            "this needs research: pip install 'murmurec[research]'", name="research"
        ) from None
