"""One Kafka node (KRaft, loopback only) on this machine: ready in about 2 s, 160-200 MB.

`run` keeps it for the duration of a `with` block; the kernel ends it with its owner, even if the
owner is killed. Its folder holds

    server.properties, log4j2.properties   the configuration
    log/                                    the published records; survives a restart
    server.log                              Kafka's output
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException

from stream_app.broker import Broker
from stream_app.broker.jars import Notify, jars, java
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection

READY_SECONDS = 60.0
STOP_SECONDS = 10.0
_ATTEMPTS = 5
_FLAGS = (
    "-Xms64m",
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
    "-Dlog4j2.disable.jmx=true",
)
_LOG4J = """status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = OUT
"""
# Runs as an intermediate process, since preexec_fn is not safe with threads. It checks its parent,
# since the owner may end before prctl requests the signal.
_LEASH = (
    "import ctypes,os,sys;"
    "ctypes.CDLL(None,use_errno=True).prctl(1,9,0,0,0);"
    "os.getppid()==int(sys.argv[1]) or os._exit(1);"
    "os.execv(sys.argv[2],sys.argv[2:])"
)


def leashed(command: Sequence[str]) -> list[str]:
    """Return the command so that its process is killed when the thread that starts it ends."""
    return [sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), *command]


# The properties of a single node, on this machine or in a container.
ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "1000",
}


def properties(
    port: int, controller_port: int, data_dir: Path, overrides: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the server properties of one loopback node; `overrides` replace or add to them."""
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    return {
        **ONE_NODE,
        # Formatting with --standalone forbids controller.quorum.voters.
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data_dir / "log"),
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.num.partitions": "5",
        # The default takes 128 MiB of heap when the broker starts.
        "log.cleaner.dedupe.buffer.size": "2097152",
        # Without it the next start waits nine seconds until this node's session expires.
        "controlled.shutdown.enable": "true",
        "num.network.threads": "2",
        "num.io.threads": "2",
        **(overrides or {}),
    }


def cluster_id() -> str:
    """Return a new cluster id: 22 characters, base64url of a UUID."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Kafka's tool reads an id that begins with a dash (one in 64) as an option.
        if not made.startswith("-"):
            return made


def free_ports(count: int) -> list[int]:
    """Return distinct ports of the loopback address that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def to_stderr(line: str) -> None:
    """Print a line on stderr, so that stdout stays machine-readable."""
    print(line, file=sys.stderr, flush=True)


# --- for the duration of a block ----------------------------------------------------------------


@contextmanager
def run(
    data_dir: Path | None,
    cache_dir: Path,
    port: int | None = None,
    overrides: Mapping[str, str] | None = None,
    notify: Notify = to_stderr,
) -> Iterator[Broker]:
    """Run a broker for the duration of the block; without `data_dir` its data is deleted.

    The broker ends with the thread that started it: enter and leave the block in one thread.
    """
    program, library = java(), jars(cache_dir, notify)
    scratch = None if data_dir else Path(tempfile.mkdtemp(prefix="murmurec-broker-"))
    home = data_dir or scratch
    assert home is not None
    process: subprocess.Popen[bytes] | None = None
    try:
        process, broker = launch_ready(program, library, home, port, overrides, leash=True)
        yield broker
    finally:
        if process is not None:
            _end(process)
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def launch_ready(
    program: str,
    library: Path,
    home: Path,
    port: int | None,
    overrides: Mapping[str, str] | None,
    *,
    leash: bool,
) -> tuple[subprocess.Popen[bytes], Broker]:
    """Format if new, start and wait until ready; retries with another free port if one is taken."""
    if port is not None and not is_free(port):
        raise UserError(f"port {port} is in use: choose another with --port or leave it out")
    home.mkdir(parents=True, exist_ok=True)
    new = not _formatted(home)
    for attempt in range(_ATTEMPTS):
        chosen, controller = free_ports(2)
        # A node that died while starting stays registered for nine seconds; a log just formatted
        # is empty, so it is recreated instead.
        if new:
            shutil.rmtree(home / "log", ignore_errors=True)
        place = port or chosen
        process, broker = _launch(program, library, home, place, controller, overrides, leash)
        try:
            wait_until_ready(broker, process)
        except UserError:
            _end(process)
            assert broker.log is not None
            taken = "Address already in use" in broker.log.read_text(errors="replace")
            if not taken or port is not None or attempt == _ATTEMPTS - 1:
                raise
        except BaseException:
            _end(process)
            raise
        else:
            return process, broker
    raise AssertionError("the loop returns or raises")


def _formatted(home: Path) -> bool:
    return (home / "log" / "meta.properties").exists()


def _launch(
    program: str,
    library: Path,
    home: Path,
    port: int,
    controller: int,
    overrides: Mapping[str, str] | None,
    leash: bool,
) -> tuple[subprocess.Popen[bytes], Broker]:
    configuration, logging = home / "server.properties", home / "log4j2.properties"
    lines = properties(port, controller, home, overrides)
    configuration.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    logging.write_text(_LOG4J)
    flags = [program, *_FLAGS, f"-Dlog4j2.configurationFile={logging.as_uri()}"]
    flags += ["-cp", f"{library}/*"]
    if not _formatted(home):
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id(), "-c", str(configuration)]
        done = subprocess.run(
            [*flags, *tool, "--standalone"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise UserError(f"Kafka could not format {home}: {_tail(done.stdout + done.stderr)}")
    command = [*flags, "kafka.Kafka", str(configuration)]
    if leash:
        command = leashed(command)
    log = home / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=home,
        )
    return process, Broker(f"127.0.0.1:{port}", "local", process.pid, log)


def is_ready(
    broker: Broker, seconds: float, process: subprocess.Popen[bytes] | None = None
) -> bool:
    """Return whether the broker lists itself in so many seconds, and before its process ends."""
    deadline = time.monotonic() + seconds
    admin = clients.admin(Connection(broker.bootstrap, {"reconnect.backoff.max.ms": "200"}))
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            if admin.list_topics(timeout=1).brokers:
                return True
        if process is not None and process.poll() is not None:
            break
    return False


def wait_until_ready(broker: Broker, process: subprocess.Popen[bytes]) -> None:
    """Return when the broker lists itself; raises `UserError` as soon as its process has ended."""
    if is_ready(broker, READY_SECONDS, process):
        return
    assert broker.log is not None
    last_line = _tail(broker.log.read_text(errors="replace"))
    ended = process.poll() is not None
    failure = "ended while starting" if ended else f"was not ready after {READY_SECONDS:.0f} s"
    raise UserError(f"the local Kafka {failure}; its log {broker.log} ends: {last_line}")


def _tail(text: str) -> str:
    """Return the last line that reports an error, or else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line]
    return (errors or lines or ["nothing"])[-1][:300]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
