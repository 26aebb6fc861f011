"""The processes of a demo, or beside an edge: worker and gateway, watched over HTTP, with logs.

Each is ended with its block or with this process. The page is there before the worker has compiled.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from stream_app.broker import Broker
from stream_app.broker.local import free_ports, leashed
from stream_app.cli.output import notice
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_admin
from stream_app.kafka.clients import Connection
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings
from stream_app.wire import Topics

_READY_SECONDS = 300.0
_STATE_SECONDS = 30.0
_START_SECONDS = 60.0
_END_SECONDS = 8.0
# Strengths of protection between which a visitor of the page chooses, as epsilons.
_CHOICES = ("1/2", "1", "2", "4")
_CHOICE_LEVELS = 5


@dataclass
class WorkerProcess:
    """A running worker; `url` is its admin port, `token` what this port asks for."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    token: str | None = None

    def get(self, path: str, seconds: float = 10.0) -> bytes:
        """Return the body of a page of any status; OSError without an answer."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as reply:
                return bytes(reply.read())
        except urllib.error.HTTPError as error:
            return bytes(error.read())

    def state(self, patience_seconds: float = _STATE_SECONDS) -> dict[str, Any]:
        """Return the page /state; a worker that waits for records of a cut, and answers with that
        sentence alone, is asked again. OSError with the sentence where it is the answer for so
        long."""
        deadline = time.monotonic() + patience_seconds
        while True:
            found: dict[str, Any] = json.loads(self.get("/state", _STATE_SECONDS))
            if "cut" in found:
                return found
            if time.monotonic() >= deadline:
                raise OSError(f"/state: {found.get('error', found)}")
            time.sleep(0.2)

    def metrics(self) -> dict[str, float]:
        """Return every sample of /metrics, as `name` or `name{label=value,...}`, labels sorted."""
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(self.get("/metrics").decode()):
            for sample in family.samples:
                labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
                name = sample.name.removeprefix("murmurec_")
                found[f"{name}{{{labels}}}" if labels else name] = sample.value
        return found

    def check(self) -> None:
        """Raise UserError with the last lines of the log if the process has ended."""
        check(self.process, "the worker", self.log)

    def wait_until_ready(self) -> None:
        """Return when /readyz reports it; the first start on a machine compiles the kernels."""
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            self.check()
            if not (waits := self.waits_for()):
                return
            time.sleep(0.1)
        raise UserError(
            f"the worker was not ready within {_READY_SECONDS:.0f} s: {waits}; {self._log_ends()}"
        )

    def waits_for(self, seconds: float = 2.0) -> str:
        """Return what /readyz waits for, or why it does not say so; empty when it is ready."""
        try:
            found = json.loads(self.get("/readyz", seconds))
        except (OSError, ValueError) as error:
            return f"/readyz did not answer ({error})"
        return "" if found.get("ready") else str(found.get("waiting_for") or found)

    def _log_ends(self) -> str:
        return f"its log {self.log} ends: {last_lines(self.log)}"

    def wait_for(self, end_offsets: Sequence[int], seconds: float = 120.0) -> dict[str, Any]:
        """Return the state when every record below `end_offsets` is applied; UserError with the end
        of the log where the worker ends instead."""
        deadline, seen = time.monotonic() + seconds, "nothing"
        while time.monotonic() < deadline:
            self.check()
            try:
                found = self.state(patience_seconds=0.0)
            except OSError as error:  # it is ending, answers late or waits for records of a cut
                seen = str(error)
            else:
                done = found["positions"]
                if all(place >= end for place, end in zip(done, end_offsets, strict=True)):
                    return found
                seen = f"it has read up to {done} of {list(end_offsets)}"
            time.sleep(0.2)
        waits = self.waits_for() or "nothing: it is ready"
        raise UserError(
            f"the worker did not apply the whole log within {seconds:.0f} s: {seen}; it waits for "
            f"{waits}; {self._log_ends()}"
        )


@contextmanager
def running(
    arguments: Sequence[str],
    port: int,
    folder: Path,
    token: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[WorkerProcess]:
    """Run `murmurec worker` with these arguments for the length of the block; `token` is the
    `admin_token` of its configuration, `environment` comes on top of this process's."""
    log = folder / "worker.log"
    command = ["worker", "--admin-port", str(port), *arguments]
    with started(command, log, environment) as process:
        yield WorkerProcess(process, f"http://127.0.0.1:{port}", log, token)


def with_topics(settings: Settings, broker: Broker) -> Settings:
    """Create the topics of a deployment on a broker; return the settings that name it."""
    topics = Topics(settings.topic_prefix, settings.shards).table(
        settings.partitions,
        settings.ratings_retention_seconds,
        settings.query_partitions,
        settings.features,
    )
    topic_admin.create(clients.admin(Connection(broker.bootstrap, settings.kafka)), topics)
    return settings.model_copy(update={"bootstrap_servers": broker.bootstrap})


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that no process is left running."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def open_page(url: str) -> None:
    """Open a page in a browser, or say that there is none."""
    if not webbrowser.open(url):
        notice("warning: no browser was found to open the page with")


def allowed_mechanisms(mechanism: Mechanism) -> tuple[str, ...]:
    """Return what a demo with this mechanism accepts, its own first; beside randomized response of
    five levels also stronger and weaker ones, so that a visitor of the page can choose."""
    family, *rest = mechanism.id.split(":")
    if family != "rr" or rest[0] != str(_CHOICE_LEVELS):
        return (mechanism.id,)
    choices = (registry.parse(f"rr:{_CHOICE_LEVELS}:{epsilon}").id for epsilon in _CHOICES)
    return (mechanism.id, *(choice for choice in choices if choice != mechanism.id))


@dataclass
class GatewayProcess:
    """A running gateway; `url` is the address of its page."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def check(self) -> None:
        """Raise UserError with the last lines of the log if the process has ended."""
        check(self.process, "the gateway", self.log)

    def wait_until_live(self) -> None:
        """Return when the page can be loaded."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            self.check()
            try:
                with urllib.request.urlopen(f"{self.url}livez", timeout=2.0):
                    return
            except OSError:
                time.sleep(0.05)
        raise UserError(f"no page within {_START_SECONDS:.0f} s; the gateway's log: {self.log}")


def campaigns_of(settings: Settings) -> dict[str, str]:
    """Return the environment of a process that takes part in campaigns as these settings say, and
    not as those of the user; a plan is followed at once."""
    scope = settings.campaign_scope
    return {
        "MURMUREC_PRIVACY_MODE": settings.privacy_mode,
        "MURMUREC_CAMPAIGN_KEYS": ",".join(settings.campaign_keys),
        "MURMUREC_CAMPAIGN_SCOPE": "" if scope is None else str(scope),
        "MURMUREC_CAMPAIGN_NOTICE_SECONDS": "0",
    }


@contextmanager
def gateway_running(
    settings: Settings, worker_url: str, folder: Path, *more: str
) -> Iterator[GatewayProcess]:
    """Run `murmurec gateway`, with more arguments, on a free port for the length of the block. A
    free port is another origin for a browser: a page of an earlier demo left no device for this
    one."""
    port, log = free_ports(1)[0], folder / "gateway.log"
    options = {
        "--bootstrap": settings.servers,
        "--prefix": settings.topic_prefix,
        "--host": "127.0.0.1",
        "--port": str(port),
    }
    arguments = ["gateway", *(word for option in options.items() for word in option), *more]
    for mechanism in settings.mechanisms:
        arguments += ["--allow", mechanism]
    environment = {"MURMUREC_GATEWAY_WORKER": worker_url}
    with started(arguments, log, environment | campaigns_of(settings)) as process:
        gateway = GatewayProcess(process, f"http://127.0.0.1:{port}/", log)
        gateway.wait_until_live()
        yield gateway


@contextmanager
def started(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `murmurec` with these arguments for the length of the block; `environment` comes on top
    of this process's."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            leashed([sys.executable, "-m", "stream_app.cli", *arguments]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it where it has not ended in time."""
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def check(process: subprocess.Popen[bytes], name: str, log: Path) -> None:
    """Raise UserError with the last lines of the log if the process has ended."""
    if process.poll() is not None:
        raise UserError(f"{name} ended with exit code {process.returncode}: {last_lines(log)}")


def last_lines(log: Path) -> str:
    """Return the last three lines of a log as part of a sentence."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return " | ".join(lines[-3:]) or "its log is empty"
