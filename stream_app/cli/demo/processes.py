"""A process of the demo: started with a log of its own, and ended with the block or the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from stream_app.broker.local import leashed
from stream_app.errors import UserError

_END_SECONDS = 8.0


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
