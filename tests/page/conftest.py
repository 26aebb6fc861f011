"""One deployment for all files, and visitors: pages of a browser that report what goes wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Kafka
from tests.page.visitor import Visitor, visiting
from tests.page.world import World, world

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Visit = Callable[..., Visitor]


@pytest.fixture(scope="session")
def demo(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a deployment with a worker, whose gateway is that of a demo."""
    prefix = f"test-{secrets.token_hex(6)}"
    with world(kafka.connection, prefix, tmp_path_factory.mktemp("demo"), demo=True) as made:
        yield made


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Give a function that opens a page as a new visitor; the test fails where a page of it wrote
    an error or a warning, or asked another host for anything."""
    with ExitStack() as stack:
        yield lambda url, **options: stack.enter_context(visiting(browser, url, **options))


@pytest.fixture(scope="module")
def rated(browser: Browser, demo: World) -> Iterator[tuple[Visitor, list[dict[str, Any]]]]:
    """Give a visitor who rated ten films, all of them confirmed, and the records of the device."""
    with visiting(browser, demo.gateway.url) as visitor:
        visitor.rate_ten()
        visitor.all_confirmed(10)
        yield visitor, visitor.records()
