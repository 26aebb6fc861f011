"""Every command line in `deploy/` is one of this program, and every variable is a setting."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from stream_app.cli.app import app
from stream_app.settings import Settings
from tests.deploy.containers import DEPLOY, SERVICES, interpolated

KUBERNETES = DEPLOY / "kubernetes"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SECRET = "0123456789abcdef" * 4
WRONG: Any = typer.BadParameter.__base__  # the error of every wrong usage


@dataclass(frozen=True)
class Line:
    """One command line, where it stands, and the variables of MURMUREC_ under which it runs."""

    where: str
    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


def documents(folder: Path) -> list[dict[str, Any]]:
    """Return every resource of a folder of manifests."""
    return [
        each
        for file in sorted(folder.glob("*.yaml"))
        for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]


def in_script(script: str) -> list[list[str]]:
    """Return the calls of murmurec in a shell script, those of a loop once for each word."""
    found = []
    words: list[str] = [""]
    for line in interpolated(script).splitlines():
        if loop := re.match(r"\s*for role in (.+); do", line):
            words = loop[1].split()
        if call := re.match(r"\s*(?:exec )?murmurec (.+)", line):
            found += [shlex.split(call[1].replace("$role", word)) for word in words]
    return found


def of_compose() -> list[Line]:
    lines = []
    for name, service in SERVICES.items():
        if "build" not in service:
            continue
        own = {key: interpolated(text) for key, text in service["environment"].items()}
        scripts = service["command"] if "entrypoint" in service else ()
        calls = [call for script in scripts for call in in_script(script)] or [service["command"]]
        lines += [Line(f"compose: {name}", tuple(call), tuple(own.items())) for call in calls]
    return lines


def of_kubernetes() -> list[Line]:
    shared = dict(
        line.split("=", 1) for line in (KUBERNETES / "settings.env").read_text().splitlines()
    )
    lines = []
    for document in documents(KUBERNETES):
        if document["kind"] not in ("StatefulSet", "Deployment"):
            continue
        for container in document["spec"]["template"]["spec"]["containers"]:
            own = {each["name"]: each.get("value", SECRET) for each in container["env"]}
            own = {name: text.replace("$(KAFKA_PASSWORD)", SECRET) for name, text in own.items()}
            where = f"kubernetes: {container['name']}"
            lines.append(Line(where, tuple(container["args"]), tuple({**shared, **own}.items())))
    return lines


def unit(file: Path, instance: str = "a") -> dict[str, list[str]]:
    """Return the keys of a unit, with the values of each; of specifiers an example."""
    text = file.read_text(encoding="utf-8").replace("\\\n", "")
    for specifier, example in {"%d": "/run/c", "%S": "/var/lib", "%C": "/var/cache"}.items():
        text = text.replace(specifier, example)
    found: dict[str, list[str]] = {}
    for key, value in re.findall(
        r"^(\w+)=(.*)$", text.replace("%i", instance).replace("%l", "h"), re.M
    ):
        found.setdefault(key, []).append(value)
    return found


def of_systemd() -> list[Line]:
    lines = []
    for file in UNITS:
        keys = unit(file)
        (line,) = keys["ExecStart"]
        program, *words = shlex.split(line)
        assert program == "/opt/murmurec/bin/murmurec"
        own = tuple((n, v) for n, _, v in (each.partition("=") for each in keys["Environment"]))
        lines.append(Line(f"systemd: {file.name}", tuple(words), own))
    return lines


def of_images() -> list[Line]:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    calls = [json.loads(words) for words in re.findall(r"^CMD (.+)$", text, re.M)]
    calls += [shlex.split(words) for words in re.findall(r"^RUN murmurec (.+)$", text, re.M)]
    own = tuple(re.findall(r"\b(MURMUREC_\w+)=(\S+)", text))
    return [Line("Dockerfile", tuple(call), own) for call in calls]


LINES = [*of_compose(), *of_kubernetes(), *of_systemd(), *of_images()]
EVERY_LINE = pytest.mark.parametrize(
    "line", LINES, ids=lambda line: f"{line.where}: {' '.join(line.words)}"[:100]
)


def parse(words: tuple[str, ...]) -> str:
    """Return the name of the command that these words call; raises `WRONG` for wrong ones."""
    command: Any = typer.main.get_command(app)
    path, rest = "", list(words)
    while True:
        context = command.make_context(path or "murmurec", rest)
        if not isinstance(command, TyperGroup):
            return path.strip()
        name, found, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert found is not None
        path, command = f"{path} {name}", found


def test_every_part_has_command_lines() -> None:
    parts = {line.where.partition(":")[0] for line in LINES}
    assert parts == {"compose", "kubernetes", "systemd", "Dockerfile"}
    called = {parse(line.words) for line in LINES}
    assert called >= {"worker", "gateway", "topics apply", "acl", "replay"}
    assert called >= {"device run", "aggregate"}


@EVERY_LINE
def test_a_command_line_is_parsed(line: Line) -> None:
    assert parse(line.words)


@pytest.mark.parametrize("words", ["worker --no-such", "work", "aggregate", "device run --user"])
def test_a_wrong_command_line_is_refused(words: str) -> None:
    with pytest.raises(WRONG):
        parse(tuple(words.split()))


@EVERY_LINE
def test_a_variable_is_a_setting_with_a_value_that_is_accepted(line: Line) -> None:
    given = {name: text for name, text in line.environment if name.startswith("MURMUREC_")}
    given.pop("MURMUREC_CONFIG", None)  # the file of the secrets
    names = {name: name.removeprefix("MURMUREC_").removeprefix("TUNING_").lower() for name in given}
    Settings(**{names[name]: text for name, text in given.items()})
