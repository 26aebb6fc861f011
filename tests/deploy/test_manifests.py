"""Compose file and manifests hold to their schemas, and what is generated to its tables."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from deploy import manifests
from stream_app.agents import application
from stream_app.gateway import serving
from stream_app.settings import load
from stream_app.wire import Topics
from tests.deploy.containers import COMPOSE, DEPLOY, SERVICES
from tests.deploy.test_commands import KUBERNETES, UNITS, documents, unit

SCHEMAS = Path(__file__).parents[1] / "vendor" / "schemas"
DOCUMENTS = documents(KUBERNETES)
RESOURCES = [each for each in DOCUMENTS if each["kind"] != "Kustomization"]
EVERY_RESOURCE = pytest.mark.parametrize(
    "resource", RESOURCES, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}"
)


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    return found


def of_kind(resource: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a resource."""
    version, kind = resource["apiVersion"], resource["kind"]
    custom = schema("custom-resources.json").get(f"{version}/{kind}")
    if custom is not None:
        return dict(custom)
    group = (
        version.replace(".k8s.io", "").replace("/", ".") if "/" in version else f"core.{version}"
    )
    core = schema("kubernetes.json")
    return core | {"$ref": f"#/$defs/io.k8s.api.{group.replace('/', '.')}.{kind}"}


def problems(document: Any, rules: dict[str, Any]) -> list[str]:
    """Return what is wrong with a document."""
    validator = jsonschema.Draft201909Validator(rules)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


# --- schemas ----------------------------------------------------------------------------------


def test_compose_holds_to_the_specification() -> None:
    assert problems(COMPOSE, schema("compose-spec.json")) == []


@EVERY_RESOURCE
def test_a_manifest_holds_to_its_schema(resource: dict[str, Any]) -> None:
    assert problems(resource, of_kind(resource)) == []


@EVERY_RESOURCE
def test_an_unknown_field_is_refused(resource: dict[str, Any]) -> None:
    if resource["kind"] in ("ConfigMap", "Secret"):
        return
    wrong = copy.deepcopy(resource)
    wrong["spec"]["replica"] = 2
    assert problems(wrong, of_kind(wrong))


@pytest.mark.parametrize(("service", "key"), [("worker", "volume"), ("kafka", "healthchek")])
def test_an_unknown_key_of_a_service_is_refused(service: str, key: str) -> None:
    wrong = copy.deepcopy(COMPOSE)
    wrong["services"][service][key] = []
    assert problems(wrong, schema("compose-spec.json"))


# --- kustomize --------------------------------------------------------------------------------


def kustomization() -> dict[str, Any]:
    (found,) = [each for each in DOCUMENTS if each["kind"] == "Kustomization"]
    return found


def test_every_manifest_is_named_and_every_name_is_a_file() -> None:
    files = {file.name for file in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization()["resources"]) == files
    (settings,) = kustomization()["configMapGenerator"]
    assert all((KUBERNETES / name).exists() for name in settings["envs"])
    used = {
        source["configMapRef"]["name"]
        for pod in pods()
        for source in pod["containers"][0]["envFrom"]
    }
    assert used == {settings["name"]}
    names = [(each["kind"], each["metadata"]["name"]) for each in RESOURCES]
    assert len(set(names)) == len(names)


def test_kustomize_builds_it() -> None:
    tool = shutil.which("kustomize") or shutil.which("kubectl")
    if tool is None:
        pytest.skip("no kustomize and no kubectl on the PATH (that of Debian 12 is too old)")
    step = "build" if Path(tool).name == "kustomize" else "kustomize"
    done = subprocess.run(
        [tool, step, str(KUBERNETES)], capture_output=True, text=True, timeout=60, check=False
    )
    if 'unknown field "envs"' in done.stderr:
        pytest.skip("this kubectl is older than 1.21, whose kustomize is of 2018")
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) == len(RESOURCES) + 1  # the settings
    for resource in built:
        assert problems(resource, of_kind(resource)) == []


# --- what is generated ------------------------------------------------------------------------


@pytest.mark.parametrize("name", manifests.manifests())
def test_a_generated_manifest_is_what_the_table_gives(name: str) -> None:
    written = (KUBERNETES / name).read_text(encoding="utf-8")
    assert written == manifests.manifests()[name], "run `python deploy/manifests.py`"


def test_users_of_kafka_have_the_topics_and_the_group_of_the_settings() -> None:
    settings = load(topic_prefix="shop", privacy_mode="split")
    users = list(yaml.safe_load_all("---\n".join(manifests.kafka_users(settings))))
    resources = [acl["resource"] for each in users for acl in each["spec"]["authorization"]["acls"]]
    assert {each["name"] for each in resources if each["type"] == "group"} == {
        settings.worker_group
    }
    names = {each.name for each in Topics("shop").table()} | {"shop."}
    assert {each["name"] for each in resources if each["type"] == "topic"} <= names
    assert "murmurec-aggregator" in {each["metadata"]["name"] for each in users}


def test_the_rules_of_kubernetes_are_those_of_prometheus() -> None:
    (rule,) = [each for each in RESOURCES if each["kind"] == "PrometheusRule"]
    assert rule["spec"] == yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))
    expressions = " ".join(each["expr"] for each in rule["spec"]["groups"][0]["rules"])
    jobs = set(re.findall(r'job="([^"]*)"', expressions))
    monitors = [each["spec"] for each in RESOURCES if each["kind"] == "PodMonitor"]
    assert {each["jobLabel"] for each in monitors} == {"app.kubernetes.io/name"}
    assert {each["selector"]["matchLabels"]["app.kubernetes.io/name"] for each in monitors} == jobs


# --- what a pod may -----------------------------------------------------------------------------


def pods() -> list[dict[str, Any]]:
    kinds = ("StatefulSet", "Deployment")
    return [each["spec"]["template"]["spec"] for each in RESOURCES if each["kind"] in kinds]


def test_every_pod_is_locked_down_and_bounded() -> None:
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False  # variables that look like settings
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"].keys() == {"requests", "limits"}


def test_probes_ask_the_port_that_the_process_listens_on() -> None:
    for pod in pods():
        (container,) = pod["containers"]
        (port,) = container["ports"]
        given = {each["name"]: each.get("value") for each in container["env"]}
        part = "ADMIN" if container["name"] == "worker" else "GATEWAY"
        assert str(port["containerPort"]) == given[f"MURMUREC_{part}_PORT"]
        for probe in ("startup", "liveness", "readiness"):
            path = "/readyz" if probe == "readiness" else "/livez"
            assert container[f"{probe}Probe"]["httpGet"] == {"path": path, "port": port["name"]}


def test_every_supervisor_gives_the_same_time_to_stop() -> None:
    """Six times what a worker takes that hands over (`application._STOP_SECONDS`)."""
    graces = {pod["terminationGracePeriodSeconds"] for pod in pods()}
    graces |= {int(second) for file in UNITS for second in unit(file)["TimeoutStopSec"]}
    composed = [SERVICES[name]["stop_grace_period"] for name in ("worker", "gateway")]
    assert {int(each.removesuffix("s")) for each in composed} | graces == {30}
    assert 6 * max(application._STOP_SECONDS, serving._STOP_SECONDS) <= 30


def test_a_role_at_kafka_is_the_user_that_the_pod_logs_in_as() -> None:
    users = {each["metadata"]["name"] for each in RESOURCES if each["kind"] == "KafkaUser"}
    for pod in pods():
        (container,) = pod["containers"]
        given = {each["name"]: each for each in container["env"]}
        secret = given["KAFKA_PASSWORD"]["valueFrom"]["secretKeyRef"]["name"]
        assert f"sasl.username={secret}," in given["MURMUREC_KAFKA"]["value"]
        assert secret in users


# --- the secrets of compose -----------------------------------------------------------------------


def test_secrets_are_drawn_once_and_are_those_of_the_file(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "compose-secrets.sh", tmp_path)
    drawn = tmp_path / "secrets"

    def draw() -> str:
        return subprocess.run(
            ["sh", script], check=True, capture_output=True, text=True, timeout=30
        ).stdout

    assert draw() == "deploy/secrets: drawn\n"
    held = {file.name: file.read_text() for file in drawn.iterdir()}
    assert "nothing was drawn" in draw()
    assert {file.name: file.read_text() for file in drawn.iterdir()} == held
    assert drawn.stat().st_mode & 0o777 == 0o700
    used = {each["file"].removeprefix("./secrets/") for each in COMPOSE["secrets"].values()}
    assert used <= held.keys()
    passwords = dict(line.split() for line in held["kafka-users"].splitlines())
    assert len(set(passwords.values())) == len(passwords)
    for role, password in passwords.items():
        settings = load(drawn / f"{role}.toml")
        assert settings.kafka["sasl.username"] == role
        assert settings.kafka["sasl.password"] == password
        token = held["admin-token"] if role in ("worker", "gateway") else None
        assert settings.admin_token == token
    assert len(held["state-secret"]) == 64


@pytest.mark.parametrize("name", ["HUP", "INT", "TERM"])
def test_nothing_is_left_of_secrets_whose_drawing_is_interrupted(tmp_path: Path, name: str) -> None:
    number = getattr(signal, f"SIG{name}")
    script = shutil.copy(DEPLOY / "compose-secrets.sh", tmp_path)
    (tmp_path / "bin").mkdir()
    step = tmp_path / "bin" / "chmod"  # after the files are written
    step.write_text(f"#!/bin/sh\nkill -{name} $PPID\n")
    step.chmod(0o755)
    path = f"{step.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", script], env={"PATH": path}, check=False, capture_output=True, timeout=30,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # it may be ignored here
    )  # fmt: skip
    assert done.returncode == 1
    assert {each.name for each in tmp_path.iterdir()} == {"bin", Path(script).name}


def test_no_secret_is_in_the_compose_file_and_each_that_is_listed_is_used() -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert not re.search(r"password=|_TOKEN:|_SECRET:", text)
    assert {name for each in SERVICES.values() for name in each.get("secrets", ())} == set(
        COMPOSE["secrets"]
    )
    ignored = (DEPLOY.parent / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "deploy/secrets/" in ignored
