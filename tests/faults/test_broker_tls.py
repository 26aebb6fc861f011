"""Workers, their queries and their readers over TLS: with a certificate, and with a password."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from consumers.recommendations import Recommendations
from stream_app.kafka.clients import Connection
from tests.conftest import Kafka
from tests.faults.brokers import PASSWORD, Node, certificates, node, password
from tests.faults.conftest import Proof, sentence
from tests.fixtures.streams import events, publish
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[Node]:
    with node(tmp_path_factory.mktemp("tls") / "broker", keys=keys) as made:
        yield made


@pytest.fixture
def kafka(own: Node) -> Kafka:
    """Give the listener without TLS, for the devices of the test."""
    return Kafka(own.bootstrap)


def as_files(keys: Path) -> dict[str, str]:
    """Return the properties of a client with a certificate, as places of files."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(keys / "ca.crt"),
        "ssl.certificate.location": str(keys / "user.crt"),
        "ssl.key.location": str(keys / "user.encrypted.key"),
        "ssl.key.password": PASSWORD,
    }


def as_text(keys: Path) -> dict[str, str]:
    """Return the same with PEM text in place of files."""
    return {
        "security.protocol": "ssl",
        "ssl.ca.pem": (keys / "ca.crt").read_text(),
        "ssl.certificate.pem": (keys / "user.crt").read_text(),
        "ssl.key.pem": (keys / "user.encrypted.key").read_text(),
        "ssl.key.password": PASSWORD,
    }


def with_password(keys: Path) -> dict[str, str]:
    """Return the properties of a client with a password inside TLS."""
    return {
        **password(),
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": (keys / "ca.crt").read_text(),
    }


@pytest.mark.parametrize("properties", [as_files, as_text, with_password])
def test_a_worker_learns_and_answers_over_tls(
    properties: object,
    own: Node,
    keys: Path,
    start: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    topics: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert callable(properties)
    given: Mapping[str, str] = properties(keys)
    address = own.encrypted if properties is with_password else own.mutual
    records = [publish(event) for event in events(rng, 100)]
    with monkeypatch.context() as patch:
        patch.setenv("MURMUREC_KAFKA", json.dumps(given))
        worker = start("--bootstrap", address)
    send(records)
    state = worker.wait_for(ends_of(records))
    with Recommendations(Connection(address, given), topics) as ask:
        assert len(ask.best("0" * 32, 5, 30).items) == 5
    assert state["clock"]
    proof(state)
    assert "PRIVATE KEY" not in worker.log.read_text()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ssl.key.password": "wrong"}, "ssl.key.password"),
        ({"ssl.key.password": ""}, "ssl.key.password"),
        ({"ssl.keystore.location": "client.p12"}, "openssl pkcs12"),
    ],
)
def test_a_worker_names_what_it_cannot_use(
    changed: dict[str, str],
    said: str,
    own: Node,
    keys: Path,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("MURMUREC_KAFKA", json.dumps(as_files(keys) | changed))
        refused = sentence(start("--bootstrap", own.mutual, ready=False))
    assert said in refused or "ssl.key" in refused
