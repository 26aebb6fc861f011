"""A copy of the tracked files, in which one mutant at a time is applied and pytest runs.

    copy     git ls-files as they are on the disk, changes that are not committed included
    applied  the mutant's text for the length of a block; then the old bytes and the old time, so
             that compiled code of the untouched file stays valid
    run      pytest in a process group of its own, which imports the copy: so do its children

numba's cache lies beside the kernels of the copy, in a folder that is named by a digest of their
sources (`stream_app/kernels/__init__.py`), so a mutant never runs compiled code of another.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
PASSED, FAILED, NOTHING_CHOSEN = 0, 1, 5
LATE = -1
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:::.*?)?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """How pytest ended: its exit code, `LATE` beyond the time, and the tests that failed."""

    code: int
    failed: tuple[str, ...] = ()
    output: str = ""


def copy(folder: Path) -> None:
    """Copy the tracked files of the project into a folder."""
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


@dataclass(frozen=True)
class Tree:
    """A copy in `folder`; a run up to the first failure may take `seconds`, and `options` of pytest
    choose the tests."""

    folder: Path
    seconds: float
    options: Sequence[str] = ()

    @contextmanager
    def applied(self, mutant: Mutant) -> Iterator[None]:
        """Apply a mutant for the length of the block."""
        path = self.folder / mutant.file
        before, times = path.read_bytes(), path.stat()
        path.write_bytes(mutant.mutated(before.decode()).encode())
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def run(self, arguments: Sequence[str], *, to_the_end: bool = False) -> Run:
        """Run pytest with these arguments up to the first failure, or `to_the_end`."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        patience = None if to_the_end else self.seconds
        process = subprocess.Popen(
            [*command, *self.options, *([] if to_the_end else ["-x"]), *arguments],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            output, _ = _ended(process)
            return Run(LATE, output=output)
        except BaseException:
            _ended(process)
            raise
        return Run(process.returncode, tuple(_FAILED.findall(output)), output)

    def _environment(self) -> dict[str, str]:
        ours = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        return {**ours, "PYTHONPATH": str(self.folder), "COLUMNS": "1000"}


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Kill a run and what it has started, and return what it wrote."""
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()
