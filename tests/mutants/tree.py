"""A copy of the project, in which one mutant at a time is applied and pytest runs.

A run has a process group, a folder for temporary files and 60 seconds of its own; what it leaves
running is killed. numba's cache lies in the copy, named by the sources of the kernels, so a mutant
never runs code that was compiled of another.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.changes import Change
from tests.run import children

ROOT = Path(__file__).parents[2]
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:::.*?)?)(?: - .*)?$", re.MULTILINE)
_PASSED, _NOT_FOUND, _NO_TESTS, _LATE = 0, 4, 5, -1
_WARM_SECONDS = 600.0


def copy(folder: Path) -> None:
    """Copy what git does not ignore, as it is on the disk, into a folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


@dataclass
class Tree:
    """A copy in `folder`; a run takes `seconds` at most."""

    folder: Path
    seconds: float = 60.0
    _passing: dict[str, bool] = field(default_factory=dict)

    def check(self) -> None:
        """Raise RuntimeError where even an own test of the mutants fails."""
        code, failed = self._run(["tests/mutants/test_mutants.py", "-k", "compile"], _WARM_SECONDS)
        if code != _PASSED:
            raise RuntimeError(f"pytest ends with {code} in a copy without any change {failed}")

    def noticed(self, file: str, change: Change, tests: list[str]) -> str:
        """Return what notices a change of a file: a test, `late`, or nothing."""
        if not tests:
            return ""
        path = self.folder / file
        before, times = path.read_bytes(), path.stat()
        for _ in range(3):
            path.write_bytes(change.applied(before))
            try:
                code, failed = self._run([*self._left_out(), *tests], self.seconds)
            finally:
                path.write_bytes(before)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            if code in (_PASSED, _NO_TESTS):
                return ""
            # A test that fails without the change notices nothing, and what is compiled by the
            # first run without it costs the second no time.
            by = failed or ("" if code == _LATE else tests[0])
            if self._passes(by) if by else not self._warmed(tests):
                return by or "late"
        return ""

    def _left_out(self) -> list[str]:
        return [f"--deselect={test}" for test, passes in self._passing.items() if not passes]

    def _passes(self, test: str) -> bool:
        """Return whether a test passes without any change."""
        if test not in self._passing:
            code, _ = self._run([test], _WARM_SECONDS)
            self._passing[test] = code in (_PASSED, _NO_TESTS, _NOT_FOUND)
        return self._passing[test]

    def _warmed(self, tests: list[str]) -> bool:
        """Run tests without any change, and return whether that is the first time."""
        key = " ".join(tests)
        if key in self._passing:
            return False
        self._passing[key] = True
        self._run(tests, _WARM_SECONDS)
        return True

    def _run(self, arguments: list[str], seconds: float) -> tuple[int, str]:
        """Run pytest up to the first failure; return its exit code and the test that failed."""
        with suppress(FileExistsError):
            (self.folder / "tmp").mkdir()
        others = set(children(os.getpid()))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        process = subprocess.Popen(
            [*command, "-p", "tests.mutants.limit", *arguments],
            cwd=self.folder,
            env={
                **{name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"},
                "PYTHONPATH": str(self.folder),
                "TMPDIR": str(self.folder / "tmp"),
                "COLUMNS": "1000",
                "MURMUREC_MUTANT_SECONDS": str(seconds * 2 / 3),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return _LATE, ""
        finally:
            _end(process, others)
            shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        failed = _FAILED.search(output)
        return process.returncode, failed[1] if failed else ""


def _end(process: subprocess.Popen[str], others: set[int]) -> None:
    """Kill a run and what it has left, whose parent is this process as soon as it is an orphan."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    while left := set(children(os.getpid())) - others:
        for child in left:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
    process.wait()
