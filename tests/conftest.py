"""What every test may ask for: a real Kafka, topics of its own, and numbers with a printed seed.

The broker is the one that `murmurec demo` would use: the configured one, a local one, or a
container. It is started by the first test that asks and ended with the run. A test that needs it
never skips: without a broker it fails and says what to install.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from tests.fixtures.browser import browser, page

__all__ = ["browser", "page"]  # fixtures

# The first example of a compiled kernel takes seconds: a deadline would measure the compiler.
hypothesis.settings.register_profile("murmurec", max_examples=50, deadline=None, print_blob=True)
hypothesis.settings.load_profile("murmurec")


@dataclass(frozen=True)
class Kafka:
    """A running Kafka."""

    bootstrap: str

    @property
    def connection(self) -> Connection:
        """The connection to it."""
        return Connection(self.bootstrap)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Give a real Kafka for the whole run."""
    from stream_app.broker.resolve import running

    configured = os.environ.get("MURMUREC_BOOTSTRAP_SERVERS")
    home = tmp_path_factory.mktemp("broker")
    try:
        block = running(
            home, cache_dir(), configured=Connection(configured) if configured else None
        )
        broker = block.__enter__()
    except UserError as refusal:
        pytest.fail(
            f"{refusal}. Install Java 17 or later and Maven (Debian: apt-get install "
            "openjdk-17-jre-headless maven), start Docker, or set MURMUREC_BOOTSTRAP_SERVERS",
            pytrace=False,
        )
    try:
        yield Kafka(broker.bootstrap)
    finally:
        block.__exit__(None, None, None)


def cache_dir() -> Path:
    """Return where Kafka's jars are kept, as the command line would."""
    import platformdirs

    return Path(os.environ.get("MURMUREC_CACHE_DIR") or platformdirs.user_cache_dir("murmurec"))


@pytest.fixture
def prefix() -> str:
    """Give a topic prefix that nobody else has used."""
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def topics(kafka: Kafka, prefix: str) -> Iterator[str]:
    """Give a fresh prefix with every topic of the table; all are deleted afterwards."""
    from stream_app.kafka import clients
    from stream_app.kafka.topic_admin import create, delete
    from stream_app.wire import Topics

    admin = clients.admin(kafka.connection)
    table = Topics(prefix).table()
    create(admin, table)
    try:
        yield prefix
    finally:
        names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
        delete(admin, names)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Give a seed, new in every run and printed; MURMUREC_SEED repeats a failed run."""
    chosen = int(os.environ.get("MURMUREC_SEED") or secrets.randbits(32))
    print(f"{request.node.nodeid}: MURMUREC_SEED={chosen}")
    return chosen


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Give a generator of numbers for test data."""
    return np.random.default_rng(seed)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Clear every MURMUREC_* variable and go to an empty folder; call it to set some."""
    for name in list(os.environ):
        if name.startswith("MURMUREC_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put
