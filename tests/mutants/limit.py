"""A plugin of pytest: broker tests run last, and none begins after `MURMUREC_MUTANT_SECONDS`."""

from __future__ import annotations

import os
import time

import pytest

_BEGAN = time.monotonic()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what waits for a broker behind what computes."""
    items.sort(key=lambda item: item.get_closest_marker("kafka") is not None)


def pytest_runtest_protocol() -> None:
    """End the run, as passed, once its time is over."""
    if time.monotonic() - _BEGAN > float(os.environ["MURMUREC_MUTANT_SECONDS"]):
        pytest.exit("the time is over", returncode=0)
