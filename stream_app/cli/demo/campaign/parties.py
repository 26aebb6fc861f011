"""The parties of a campaign as processes: keys made, `murmurec aggregate` running, ended after."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.cli.demo import processes

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
        processes.check(self.process, f"party {self.role}", self.log)


def started(stack: ExitStack, folder: Path, mode: str, broker: Sequence[str]) -> list[PartyProcess]:
    """Run the parties of a mode until the stack ends; `broker` names broker and topics."""
    found = []
    for role in ROLES[mode]:
        made, log = keys.make(folder, role), folder / f"{role}.log"
        arguments = ["aggregate", "--party", role, "--folder", str(folder), *broker]
        process = stack.enter_context(processes.started(arguments, log))
        found.append(PartyProcess(role, made.public.hex(), log, process))
    return found
