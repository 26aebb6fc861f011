"""Services of `compose.yaml` as processes, where no container engine runs.

A `Machine` is a network namespace: every port is free there, and /etc/hosts gives the services
their names. A service gets what its container would: a root of its own that it cannot write, with
the volumes, secrets, tmpfs and environment of the file, the user of the image without capabilities
and without a way to new ones. What stands for an image is a folder of `bin` with the commands that
entry points and health checks call. Limits of memory and processors are not set.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stream_app.broker import local
from tests.faults.brokers import NoMountError

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
_SYSTEM = ("bin", "dev", "lib", "lib64", "proc", "sbin", "sys", "usr")


@dataclass(frozen=True)
class Image:
    """What a service finds in its image: commands, other files, environment, user, entry point."""

    commands: Mapping[str, str]  # path in the container -> the text of a script
    binds: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = "65534:65534"
    entrypoint: tuple[str, ...] = ()


def dockerfile() -> tuple[dict[str, str], str, tuple[str, ...]]:
    """Return environment, user and entry point that both of our images have."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    stage = text.partition(" AS runtime\n")[2]
    words = [shlex.split(line) for line in re.findall(r"^ENV (.+)$", stage, re.M)]
    environment = dict(word.split("=", 1) for line in words for word in line)
    environment["PATH"] = environment["PATH"].replace("$PATH", "/usr/bin:/bin")
    (user,) = re.findall(r"^USER (\S+)$", stage, re.M)
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", stage, re.M)
    return environment, user, tuple(json.loads(entry))


def interpolated(text: str) -> str:
    """Return a value of the file as compose passes it where the caller's environment is empty."""
    text = re.sub(r"\$\{[A-Z_]+:?-([^}]*)\}", r"\1", text)
    assert not re.search(r"(?<!\$)\$(?!\$)", text), text
    return text.replace("$$", "$")


class Machine:
    """One network with loopback alone; `folder` keeps volumes and output of its services."""

    def __init__(self, folder: Path, holder: int, images: Mapping[str, Image]) -> None:
        self._folder, self._holder, self._images = folder, holder, images
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def volume(self, name: str, user: str) -> Path:
        """Return the folder of a named volume, which belongs to the user of the service."""
        place = self._folder / "volumes" / name
        place.mkdir(parents=True, exist_ok=True)
        for each in (place, *place.rglob("*")):
            os.chown(each, *(int(number) for number in user.split(":")))
        return place

    def log(self, service: str) -> str:
        """Return what a service printed."""
        return (self._folder / f"{service}.log").read_text(encoding="utf-8", errors="replace")

    def start(self, service: str) -> subprocess.Popen[bytes]:
        """Start a service with the entry point and command of the file."""
        wanted, image = SERVICES[service], self._images[service]
        entry = wanted.get("entrypoint") or image.entrypoint
        command = [interpolated(word) for word in (*entry, *wanted.get("command", ()))]
        with (self._folder / f"{service}.log").open("ab") as log:
            process = subprocess.Popen(
                self._contained(service, command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.processes[service] = process
        return process

    def healthy(self, service: str) -> bool:
        """Run the health check of the file beside a service, and return whether it passes."""
        kind, *command = SERVICES[service]["healthcheck"]["test"]
        assert kind == "CMD"
        inside = ["/usr/bin/nsenter", f"--target={self.processes[service].pid}", "--net", "--mount"]
        user, _, group = self._user(service).partition(":")
        environment = [f"{name}={text}" for name, text in self._environment(service).items()]
        inside += ["--root", f"--setuid={user}", f"--setgid={group}", "/usr/bin/env", "--chdir=/"]
        done = subprocess.run(
            [*inside, "-i", *environment, *command],
            check=False,
            capture_output=True,
            timeout=60,
        )
        return done.returncode == 0

    def run(self, service: str, *command: str) -> tuple[int, str]:
        """Run a command in another container of a service; return its code and its output."""
        done = subprocess.run(
            self._contained(service, command), check=False, capture_output=True, timeout=120
        )
        return done.returncode, (done.stdout + done.stderr).decode()

    def _user(self, service: str) -> str:
        return str(SERVICES[service].get("user", self._images[service].user))

    def _environment(self, service: str) -> dict[str, str]:
        own = SERVICES[service].get("environment", {})
        given = {name: interpolated(text) for name, text in own.items()}
        return {"PATH": "/usr/bin:/bin", **self._images[service].environment, **given}

    def _contained(self, service: str, command: Any) -> list[str]:
        wanted, image = SERVICES[service], self._images[service]
        binds = {target: str(source) for target, source in image.binds.items()}
        writable = {}
        for volume in wanted.get("volumes", ()):
            source, target, *mode = volume.split(":")
            if mode:
                binds[target] = str((DEPLOY / source).resolve())
            else:
                writable[target] = str(self.volume(source, self._user(service)))
        for secret in wanted.get("secrets", ()):
            file = Path(COMPOSE["secrets"][secret]["file"]).name
            binds[f"/run/secrets/{secret}"] = str(self._folder / "secrets" / file)
        names = ("localhost", socket.gethostname(), *SERVICES)
        plan = {
            "root": tempfile.mkdtemp(dir=self._folder),
            "system": _SYSTEM,
            "commands": dict(image.commands),
            "binds": binds,
            "writable": writable,
            "tmpfs": [mount.partition(":")[0] for mount in wanted.get("tmpfs", ())],
            "hosts": "".join(f"127.0.0.1 {name}\n" for name in names),
            "user": self._user(service),
            "environment": self._environment(service),
            "command": list(command),
        }
        entered = ["/usr/bin/nsenter", f"--net=/proc/{self._holder}/ns/net"]
        apart = ["/usr/bin/unshare", "--mount", "--propagation", "private"]
        inside = [sys.executable, "-I", str(Path(__file__).with_name("contained.py"))]
        return local.leashed([*entered, *apart, *inside, json.dumps(plan)])


@contextmanager
def machine(folder: Path, images: Mapping[str, Image]) -> Iterator[Machine]:
    """Give a machine for the length of the block; raises NoMountError where that is forbidden."""
    script = "ip link set lo up && echo up && exec cat"
    holder = subprocess.Popen(
        local.leashed(["/usr/bin/unshare", "--net", "--mount", "sh", "-c", script]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stderr is not None
    made = Machine(folder, holder.pid, images)
    try:
        if holder.stdout.readline() != b"up\n":
            holder.kill()
            raise NoMountError(holder.stderr.read().decode().strip() or "unshare gave no answer")
        yield made
    finally:
        for process in made.processes.values():
            process.kill()
            process.wait()
        holder.kill()
        holder.wait()
        for pipe in (holder.stdin, holder.stdout, holder.stderr):
            pipe.close()


def own_image() -> Image:
    """Return what stands for an image of ours: this environment under the image's paths."""
    environment, user, entry = dockerfile()
    # A virtual environment names its place: the commands call the one that runs this test.
    places = dict.fromkeys((sys.base_prefix, sys.prefix, str(ROOT)))
    commands = {
        "/opt/murmurec/bin/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        "/opt/murmurec/bin/murmurec": f'#!/bin/sh\nexec {sys.executable} -m stream_app.cli "$@"\n',
    }
    return Image(commands, {each: Path(each) for each in places}, environment, user, entry)


def kafka_image(jars: Path, tools: Path) -> Image:
    """Return what stands for Apache Kafka's image: its commands, over the jars of the tests."""
    program = shutil.which("java")
    classes = {
        "kafka-storage": "kafka.tools.StorageTool",
        "kafka-server-start": "kafka.Kafka",
        "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    }
    flags = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC $KAFKA_HEAP_OPTS $KAFKA_LOG4J_OPTS"
    commands = {
        f"/opt/kafka/bin/{name}.sh": f"#!/bin/sh\nexec {program} {flags} "
        f"-cp '/opt/kafka/libs/*:/opt/kafka/tools/*' {main} \"$@\"\n"
        for name, main in classes.items()
    }
    return Image(commands, {"/opt/kafka/libs": jars, "/opt/kafka/tools": tools}, user="1000:1000")
