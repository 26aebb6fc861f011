"""A local broker in the background: `murmurec broker start`, `status`, `stop`, `logs`.

    DATA/broker/state.json   pid, the kernel's start time of that pid, address, log file

The start time distinguishes the broker from a later process with the same pid; only a process that
matches both is signalled.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from stream_app.broker import Broker
from stream_app.broker.jars import Notify, jars, java, locked
from stream_app.broker.local import STOP_SECONDS, is_free, launch_ready, to_stderr
from stream_app.errors import UserError
from stream_app.kafka import durable_file

USUAL_PORT = 9092


@dataclass(frozen=True)
class _State:
    pid: int
    started: str
    bootstrap: str
    log: str


def start_detached(
    data_dir: Path, cache_dir: Path, port: int | None = None, notify: Notify = to_stderr
) -> Broker:
    """Start the broker, or return the running one; its data survives a restart."""
    home = data_dir / "broker"
    with locked(home / "lock", "data", "MURMUREC_DATA_DIR"):
        running = status(data_dir)
        if running is not None:
            return _agreed(running, port)
        program, library = java(), jars(cache_dir, notify)
        # The last port first, so that addresses configured elsewhere stay valid.
        candidates = [_last_port(home), USUAL_PORT]
        place = port or next((p for p in candidates if p and is_free(p)), None)
        process, broker = launch_ready(program, library, home, place, None, leash=False)
        _write(home, process, broker)
        return broker


def status(data_dir: Path) -> Broker | None:
    """Return the broker in the background, None if none runs."""
    state = _read(data_dir / "broker")
    if state is None or started_at(state.pid) != state.started:
        return None
    return Broker(state.bootstrap, "local", state.pid, Path(state.log))


def stop(data_dir: Path) -> bool:
    """End the broker in the background; returns False if none runs."""
    home = data_dir / "broker"
    if _read(home) is None:
        return False
    with locked(home / "lock", "data", "MURMUREC_DATA_DIR"):
        state, running = _read(home), status(data_dir)
        if state is None or running is None or running.pid is None:
            return False
        if _ended(running.pid, state.started):
            return True
    raise UserError(f"process {running.pid} does not end: look at {running.log}")


def log_file(data_dir: Path) -> Path:
    """Return the log file of the background broker; refuses if no broker was ever started."""
    log = data_dir / "broker" / "server.log"
    if not log.exists():
        raise UserError(f"there is no log at {log}: start a broker with murmurec broker start")
    return log


def started_at(pid: int) -> str | None:
    """Return the kernel's start time of a living process; None for an ended one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie has ended and waits for its parent.
    return None if fields[0] == "Z" else fields[19]


def _ended(pid: int, started: str) -> bool:
    """End this process and return whether it ended, including all its threads."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        # The pidfd fixes the process: a reuse of the pid after this check cannot be signalled.
        if started_at(pid) != started:
            return True
        for signal_ in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal_)
            if select.select([process], [], [], STOP_SECONDS)[0]:
                # Only a child of this process must be reaped here.
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                return True
        return False
    finally:
        os.close(process)


def _agreed(running: Broker, port: int | None) -> Broker:
    if port is not None and running.bootstrap != f"127.0.0.1:{port}":
        raise UserError(
            f"a broker already runs at {running.bootstrap}, not on port {port}: "
            "stop it first (murmurec broker stop) or leave --port out"
        )
    return running


def _write(home: Path, process: subprocess.Popen[bytes], broker: Broker) -> None:
    started = started_at(process.pid)
    if started is None:
        raise UserError(f"the local Kafka ended at once; look at {broker.log}")
    state = _State(process.pid, started, broker.bootstrap, str(broker.log))
    # The broker outlives this process; a set returncode suppresses Popen's ResourceWarning.
    process.returncode = 0
    durable_file.replace(
        home / "state.json", json.dumps(asdict(state)).encode(), durable_file.SHARED
    )


def _read(home: Path) -> _State | None:
    """Return the recorded state; None if the file is absent or invalid."""
    try:
        return _State(**json.loads((home / "state.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _last_port(home: Path) -> int | None:
    state = _read(home)
    return int(state.bootstrap.rpartition(":")[2]) if state else None
