"""What every test may ask for: a real Kafka, topics of its own, and numbers with a printed seed.

The broker is the one that `murmurec demo` would use: the configured one, a local one, or a
container. One serves all processes of a run (`tests.fixtures.shared_broker`): it is started by the
first test that asks and ended with the run. A test that needs it never skips: without a broker it
fails and says what to install.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from tests.fixtures import compiled_once, forks, shared_broker
from tests.fixtures.browser import browser, page
from tests.fixtures.left_clients import left_clients
from tests.fixtures.shared_broker import cache_dir

__all__ = [
    "browser",
    "cache_dir",
    "left_clients",
    "page",
]  # fixtures, and what others import from here

BROKER = pytest.StashKey[str]()
compiled_once.install()

# The first example of a compiled kernel takes seconds: a deadline would measure the compiler.
DRAWN = os.environ.get("MURMUREC_SEED") == "new"
hypothesis.settings.register_profile(
    "murmurec", max_examples=50, deadline=None, print_blob=True, derandomize=not DRAWN
)
hypothesis.settings.load_profile("murmurec")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix the files of broker tests, which wait, evenly among the others, which compute: the
    processes of a run take file after file in this order."""
    files = dict[Path, list[pytest.Item]]()
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting, computing = list[Path](), list[Path]()
    for path, own in files.items():
        waits = any(item.get_closest_marker("kafka") for item in own)
        (waiting if waits else computing).append(path)
    mixed = [
        ((place + 0.5) / len(group), path)
        for group in (waiting, computing)
        for place, path in enumerate(group)
    ]
    items[:] = [item for _, path in sorted(mixed) for item in files[path]]


@dataclass(frozen=True)
class Kafka:
    """A running Kafka."""

    bootstrap: str

    @property
    def connection(self) -> Connection:
        """The connection to it."""
        return Connection(self.bootstrap)


def pytest_configure(config: pytest.Config) -> None:
    """Let the process of the run provide the broker for itself or for its test processes."""
    given = getattr(config, "workerinput", None)
    if given is not None:
        config.stash[BROKER] = given["murmurec_broker"]
        return
    os.environ["XDG_STATE_HOME"] = state = tempfile.mkdtemp(prefix="murmurec-state-")
    config.add_cleanup(lambda: shutil.rmtree(state, ignore_errors=True))
    provider = shared_broker.Provider()
    config.stash[BROKER] = provider.address
    config.add_cleanup(provider.close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a test process whom to ask for the broker."""
    node.workerinput["murmurec_broker"] = node.config.stash[BROKER]


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Kafka:
    """Give the real Kafka of the whole run."""
    forks.begin()  # before a test changes the environment
    try:
        return Kafka(shared_broker.bootstrap(pytestconfig.stash[BROKER]))
    except UserError as refusal:
        pytest.fail(
            f"{refusal}. Install Java 17 or later and Maven (Debian: apt-get install "
            "openjdk-17-jre-headless maven), start Docker, or set MURMUREC_BOOTSTRAP_SERVERS",
            pytrace=False,
        )


@pytest.fixture
def prefix() -> str:
    """Give a topic prefix that nobody else has used."""
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def topics(kafka: Kafka, prefix: str) -> Iterator[str]:
    """Give a fresh prefix with every topic of one shard; all are deleted afterwards."""
    from stream_app.kafka import clients
    from stream_app.kafka.topic_admin import create, delete
    from stream_app.wire import Topics
    from stream_app.wire.topics import FEATURES

    admin = clients.admin(kafka.connection)
    table = Topics(prefix).table(features=FEATURES.keys() - {"shards"})
    create(admin, table)
    try:
        yield prefix
    finally:
        names = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
        delete(admin, names)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Give the seed that the test's name decides, printed; MURMUREC_SEED is another, `new` draws.

    A claim that is false once in some hundred draws is found by a nightly run, which draws, and
    does not refuse somebody's change by luck.
    """
    chosen = zlib.crc32(request.node.nodeid.encode())
    if given := os.environ.get("MURMUREC_SEED"):
        chosen = secrets.randbits(32) if DRAWN else int(given)
    print(f"{request.node.nodeid}: MURMUREC_SEED={chosen}")
    return chosen


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Give a generator of numbers for test data."""
    return np.random.default_rng(seed)


NOTICE = "MURMUREC_CAMPAIGN_NOTICE_SECONDS"


@pytest.fixture(autouse=True)
def no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the day for which a plan is public."""
    monkeypatch.setenv(NOTICE, "0")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Clear every MURMUREC_* variable and go to an empty folder; call it to set some."""
    for name in list(os.environ):
        if name.startswith("MURMUREC_") and name != NOTICE:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put
