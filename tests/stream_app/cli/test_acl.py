"""`murmurec acl print`: the same rights in the form of Kafka's commands, of JSON and of Strimzi."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from stream_app.cli import run
from stream_app.kafka.acls import ROLES


@pytest.mark.parametrize("role", ROLES)
def test_a_kafka_user_of_strimzi_has_the_rights_of_its_role_and_no_others(
    role: str, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment(MURMUREC_PRIVACY_MODE="split")

    def printed(*form: str) -> str:
        assert run(["acl", "print", "--role", role, "--user", "ann", *form]) == 0
        return capsys.readouterr().out

    made = yaml.safe_load(printed("--format", "strimzi"))
    assert (made["kind"], made["metadata"]["name"]) == ("KafkaUser", "ann")
    found = {
        (*each["resource"].values(), operation)
        for each in made["spec"]["authorization"]["acls"]
        for operation in each["operations"]
    }
    wanted = {
        (
            row["kind"],
            row["name"],
            row["pattern"].replace("prefixed", "prefix"),
            "".join(word.capitalize() for word in row["operation"].split("_")),
        )
        for row in json.loads(printed("--json"))
    }
    assert found == wanted
    assert len(printed().splitlines()) == len(wanted)


def test_a_worker_of_shards_has_the_topics_of_each_and_the_one_between_them(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment(MURMUREC_SHARDS="2", MURMUREC_SHARD="1")
    assert run(["acl", "print", "--role", "worker", "--user", "ann", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    rights = {(row["name"], row["operation"]) for row in rows if row["kind"] == "topic"}
    names = ("shard-0.cuts", "shard-1.cuts", "shard-0.state", "shard-1.state", "exchange")
    for name in names:
        assert {(f"murmurec.{name}.v1", right) for right in ("READ", "WRITE")} <= rights
    assert not any(name in ("murmurec.cuts.v1", "murmurec.state.v1") for name, _ in rights)
    assert {row["name"] for row in rows if row["kind"] == "group"} == {"murmurec-worker"}


def test_a_name_that_kubernetes_would_refuse_is_refused(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    user = ["--user", "CN=tablets", "--format", "strimzi"]
    assert run(["acl", "print", "--role", "device", *user]) == 2
    assert "--user CN=tablets: a KafkaUser has" in capsys.readouterr().err
