"""The parties of a campaign as processes: keys made, `murmurec aggregate` running, ended after."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.broker.local import leashed
from stream_app.errors import UserError

ROLES = {"central": (Role.CENTRAL,), "split": (Role.A, Role.B)}


@dataclass
class PartyProcess:
    """One running aggregator; `public` is its public half in hex."""

    role: Role
    public: str
    log: Path
    process: subprocess.Popen[bytes]

    def check(self) -> None:
        """Raise UserError with the end of its log if the process has ended."""
        if self.process.poll() is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            raise UserError(
                f"party {self.role} ended with exit code {self.process.returncode}: "
                f"{' | '.join(lines[-3:]) or 'its log is empty'}"
            )


@contextmanager
def running(folder: Path, mode: str, arguments: Sequence[str]) -> Iterator[list[PartyProcess]]:
    """Run the parties of a mode for the length of the block; `arguments` name broker and topics."""
    found: list[PartyProcess] = []
    try:
        for role in ROLES[mode]:
            made, log = keys.make(folder, role), folder / f"{role}.log"
            command = [sys.executable, "-m", "stream_app.cli", "aggregate", "--party", role]
            command += ["--folder", str(folder), *arguments]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    leashed(command),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            found.append(PartyProcess(role, made.public.hex(), log, process))
        yield found
    finally:
        for each in found:
            each.process.terminate()
        for each in found:
            try:
                each.process.wait(8.0)
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
