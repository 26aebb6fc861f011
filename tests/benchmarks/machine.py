"""The machine and the software that figures were measured on, as `bench.json` states them."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
from llvmlite.binding import get_host_cpu_features

ROOT = Path(__file__).parents[2]
FLAGS = {"avx2": "avx2", "avx512": "avx512f", "neon": "neon"}  # ours: LLVM's
OURS = ("numpy", "numba", "msgspec")
PEERS = (
    "river", "scikit-surprise", "implicit", "faiss-cpu", "hnswlib", "rbloom", "datasketches",
    "opendp", "orjson", "pysimdjson",
)  # fmt: skip
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


class Machine(msgspec.Struct, frozen=True):
    """Hardware as the operating system shows it; `memory_bytes` is all of it, used or not."""

    processor: str
    flags: dict[str, bool]
    cores: int
    memory_bytes: int
    system: str

    def __str__(self) -> str:
        held = ", ".join(flag for flag, there in self.flags.items() if there) or "no vectors"
        return f"{self.processor} ({held}), {self.cores} cores, {self.memory_bytes / 2**30:.0f} GiB"


class Conditions(msgspec.Struct, frozen=True):
    """What is known before the first figure; a package that is not installed has the version null.

    began: UTC; load_average: of the last 1, 5, 15 minutes; threads: what the environment sets.
    """

    machine: Machine
    python: str
    packages: dict[str, str | None]
    commit: str
    began: str
    load_average: list[float]
    threads: dict[str, str]


def conditions() -> Conditions:
    """Return the conditions of a run that begins now."""
    return Conditions(
        machine=machine(),
        python=platform.python_version(),
        packages={name: _version(name) for name in (*OURS, *PEERS)},
        commit=commit(),
        began=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        load_average=[round(load, 2) for load in os.getloadavg()],
        threads={name: os.environ[name] for name in THREADS if name in os.environ},
    )


def machine() -> Machine:
    """Return this machine."""
    features = get_host_cpu_features()
    return Machine(
        processor=_processor(),
        flags={ours: bool(features.get(llvm)) for ours, llvm in FLAGS.items()},
        cores=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        system=f"{platform.system()} {platform.machine()}",
    )


def commit(root: Path = ROOT) -> str:
    """Return the commit that is checked out, with "+" where files differ from it; "" elsewhere."""

    def asked(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        changed = asked("status", "--porcelain", "--untracked-files=no")
        return asked("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (names or [platform.processor() or platform.machine()])[0]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
