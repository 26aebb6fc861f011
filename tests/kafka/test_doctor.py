"""`murmurec doctor` on a real deployment: silent where nothing is wrong, and each planted fault."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from stream_app.broker.local import free_ports
from stream_app.cli import run
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import end_offset
from stream_app.operations.watching.examination import STALL_SECONDS, examine
from stream_app.settings import Settings
from stream_app.wire import Topics
from tests.fixtures.gateway_beside import served
from tests.fixtures.signed_devices import signed, signing_key
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka
FAR = 3600.0


def faults(
    settings: Settings, *urls: str, gateways: Sequence[str] = (), later: float = 0.0
) -> dict[str, str]:
    """Return the fault of each part, as it would be seen `later` seconds from now."""
    connection = Connection(settings.servers)
    now = lambda: time.time() + later  # noqa: E731
    found = examine(settings, connection, urls, gateways, now, cached=True)
    return {each.part: each.sentence for each in found if not each.well}


def test_a_deployment_without_faults_and_the_same_with_a_second_clock(
    start: Start,
    send: Send,
    settings: Settings,
    topics: str,
    rng: np.random.Generator,
    capsys: pytest.CaptureFixture[str],
) -> None:
    worker = start()
    records = [publish(event) for event in events(rng, 50)]
    send(records)
    worker.wait_for(ends_of(records))
    where = ["--bootstrap", settings.servers, "--prefix", topics]
    capsys.readouterr()
    assert run(["doctor", "--worker", worker.url, "--json", *where]) == 0
    parts = [each["part"] for each in json.loads(capsys.readouterr().out)]
    assert parts == [
        *("broker", "rights", "topics", "cut log", "settings", "kernels", "devices"),
        *(f"worker {worker.url}", "clock", "design", "releases", "machines", "checkpoint"),
    ]
    assert not faults(settings, later=FAR)  # nothing waits, however old the newest cut is
    assert "behind the one here" in faults(settings, worker.url, later=FAR)["machines"]
    second = start("--group", f"{topics}-other")
    assert "same --group" in faults(settings, worker.url, second.url)["clock"]
    assert run(["doctor", "--worker", worker.url, "--worker", second.url, *where]) == 1
    captured = capsys.readouterr()
    assert "FAULT" in captured.out
    assert "Traceback" not in captured.out + captured.err


def test_what_devices_use_and_workers_reject_is_named_and_a_gateway_that_allows_it(
    start: Start,
    send: Send,
    settings: Settings,
    topics: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    worker = start()
    with served(settings.servers, topics) as gateway:
        assert not faults(settings, worker.url, gateways=(gateway.url,))
    other = "rr:5:7"
    records = [publish(event) for event in events(rng, 3, mechanism=other)]
    records.append(replace(records[0], value=records[0].value.replace(b"rr:5:7", b"\x1b[2J--")))
    (event,) = events(rng, 1, mechanism="rr:5:6")
    records.append(signed(event, signing_key(1), topic=Topics(topics).ratings))
    send(records)
    worker.wait_for(ends_of(records))
    rejected = Topics(topics).rejected
    until(
        lambda: end_offset(Connection(settings.servers), rejected) == len(records),
        "the rejections are published",
    )
    monkeypatch.setenv("MURMUREC_MECHANISMS", ",".join((*settings.mechanisms[1:], other)))
    capsys.readouterr()
    with served(settings.servers, topics) as gateway:
        asked = ["--worker", worker.url, "--gateway", gateway.url]
        where = ["--bootstrap", settings.servers, "--prefix", topics]
        assert run(["doctor", "--json", *asked, *where]) == 1
    rows = json.loads(capsys.readouterr().out)
    found = {each["part"]: each["sentence"] for each in rows if not each["well"]}
    assert found.keys() == {"settings", "devices", f"gateway {gateway.url}"}
    assert "5 of the newest 1,000 rejections" in found["devices"]
    assert found["devices"].count("another") == 1
    for name in (other, "rr:5:6"):
        assert name in found["devices"]
    assert f"allows {other}, which workers reject" in found[f"gateway {gateway.url}"]
    later = faults(settings, gateways=(gateway.url,), later=2 * 86_400)
    assert later.keys() == {f"gateway {gateway.url}"}
    assert "start the worker or gateway" in later[f"gateway {gateway.url}"]


def test_records_that_no_worker_takes_and_a_topic_that_loses_records(
    send: Send, settings: Settings, topics: str, rng: np.random.Generator
) -> None:
    assert not faults(settings)
    send([publish(event) for event in events(rng, 20)])
    assert "start one with murmurec worker" in faults(settings)["cut log"]
    names, admin = Topics(topics), clients.admin(Connection(settings.servers))
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, names.ratings, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([changed]).values():
        future.result(timeout=PATIENCE_SECONDS)
    found = faults(settings)
    assert set(found) == {"topics", "cut log"}
    assert "murmurec topics apply" in found["topics"]
    admin.delete_topics([names.queries])[names.queries].result(timeout=PATIENCE_SECONDS)


def test_an_absent_broker_and_an_absent_worker_are_named(
    settings: Settings, topics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    found = faults(settings, nowhere, "localhost:8470")
    assert "start the worker" in found[f"worker {nowhere}"]
    assert "http://127.0.0.1:8470" in found["worker localhost:8470"]
    closed = f"127.0.0.1:{free_ports(1)[0]}"
    assert run(["doctor", "--bootstrap", closed, "--prefix", topics]) == 1
    assert closed in capsys.readouterr().out
    assert STALL_SECONDS < FAR
