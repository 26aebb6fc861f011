"""Examples of docstrings are collected from the modules that have some: a plugin of pytest, which
would import all 1,600 modules otherwise, in every process of a run."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

_EXAMPLE = b">>> "


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Leave a module without an example out."""
    found = yield
    if any(isinstance(each, DoctestModule) for each in found) and (
        _EXAMPLE not in file_path.read_bytes()
    ):
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found
