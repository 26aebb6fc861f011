"""The container's configuration, which needs no engine, and the sentence where none answers."""

from __future__ import annotations

import pytest

from stream_app.broker import local, resolve
from stream_app.errors import UserError


def test_clients_outside_get_the_port_of_the_host():
    lines = resolve.environment(40123, "id")
    assert lines["KAFKA_ADVERTISED_LISTENERS"].startswith("HOST://localhost:40123,")
    assert lines["CLUSTER_ID"] == "id"


def test_every_listener_has_a_protocol_and_one_node_needs_no_second_copy():
    lines = resolve.environment(1, "id")
    names = {part.partition(":")[0] for part in lines["KAFKA_LISTENERS"].split(",")}
    mapped = {
        part.partition(":")[0] for part in lines["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    }
    assert names == mapped
    copies = {value for name, value in lines.items() if name.endswith(("_FACTOR", "_MIN_ISR"))}
    assert copies == {"1"}


def test_the_container_agrees_with_the_local_broker_where_both_decide(tmp_path):
    lines = resolve.environment(1, "id")
    ours = local.properties(1, 2, tmp_path)
    shared = {name: f"KAFKA_{name.upper().replace('.', '_')}" for name in ours}
    both = {name: lines[variable] for name, variable in shared.items() if variable in lines}
    addresses = {"listeners", "advertised.listeners", "listener.security.protocol.map"}
    listeners = addresses | {"inter.broker.listener.name"}
    assert len(both) > 8
    for name in both.keys() - listeners:
        assert both[name] == ours[name], name


def test_where_no_engine_answers_it_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    with (
        pytest.raises(UserError, match="no container engine answers") as refused,
        resolve.run_container(notify=lambda line: None),
    ):
        pass
    assert "\n" not in str(refused.value)
