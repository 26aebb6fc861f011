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


def test_a_name_that_kubernetes_would_refuse_is_refused(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    user = ["--user", "CN=tablets", "--format", "strimzi"]
    assert run(["acl", "print", "--role", "device", *user]) == 2
    assert "--user CN=tablets: a KafkaUser has" in capsys.readouterr().err
