"""A device imports and publishes without POSIX modules and without the packages of the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

POSIX = ("fcntl", "grp", "pwd", "resource", "termios")
SERVER = (
    *("aiokafka", "faust", "llvmlite", "mode", "numba", "platformdirs", "prometheus_client"),
    *("pydantic", "rich", "structlog", "typer", "uvloop", "yarl"),
)
PREPARE = """
import importlib, os, pkgutil, sys
from pathlib import Path

BLOCKED, PATH = set(sys.argv[2].split(",")), Path(sys.argv[1])
for name in BLOCKED:
    sys.modules.pop(name, None)
for name in ("O_CLOEXEC", "fdatasync"):
    delattr(os, name)  # Windows has none of them


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Refuse())
"""
IMPORT_ALL = """
import consumers, producers
for package in (producers, consumers):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        # An edge is a site's server, with packages of its own.
        if not module.name.startswith("producers.edge."):
            importlib.import_module(module.name)
            print(module.name)
"""
PUBLISH = """
from fractions import Fraction

from tests.producers.journals import rated
from producers.device.requests import ReportSettings
from producers.journal import Journal
from producers.journal.disk import Disk
from producers.publishing import OutboxRelay, Publisher
from producers.scale import Scale
from stream_app.errors import UserError
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from tests.producers.journals import at

try:
    at(PATH)
except UserError as error:
    print(error)


class Locks(Disk):
    held = set()

    def lock(self, handle):
        inode = os.fstat(handle).st_ino
        if inode in self.held:
            raise BlockingIOError(11, "held")
        self.held.add(inode)


class Record:
    def partition(self): return 0
    def offset(self): return 0


class Accepting:
    reports, values = [], []

    def produce(self, topic, *, key, value, headers, on_delivery):
        self.values.append(value)
        self.reports.append(on_delivery)

    def poll(self, timeout):
        while self.reports:
            self.reports.pop()(None, Record())
        return 0

    flush = poll


settings = ReportSettings("ratings", RandomizedResponse(5, Fraction(2)))
producer = Accepting()
with at(PATH, disk=Locks()) as journal, Publisher(producer, "ratings") as publisher:
    message = rated("ann", 1193, 4, settings, scale=Scale(), journal=journal, epoch=20_000)
    OutboxRelay(journal, publisher).send(message)
    publisher.close()
    assert publisher.accepted == 1, publisher
    assert not journal.pending()
    print(b"rr:5:2" in producer.values[0])
    try:
        at(PATH, disk=Locks())
    except UserError as error:
        print(error)
"""


def run(program: str, path: Path, blocked: tuple[str, ...]) -> list[str]:
    command = [sys.executable, "-c", PREPARE + program, str(path), ",".join(blocked)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("blocked", [POSIX, SERVER], ids=["POSIX", "server"])
def test_every_module_of_devices_and_readers_imports_without(
    blocked: tuple[str, ...], tmp_path: Path
) -> None:
    imported = run(IMPORT_ALL, tmp_path, blocked)
    assert {"producers.publishing", "producers.journal.disk", "producers.fleet.replay"} <= {
        *imported
    }
    assert "consumers.recommendations" in imported


def test_a_device_without_posix_modules_publishes_a_rating(tmp_path: Path) -> None:
    without_lock, published, held = run(PUBLISH, tmp_path / "device.journal", POSIX)
    assert without_lock.endswith(
        "this system cannot lock it; give another path (--journal), where a budget begins again"
    )
    assert published == "True"
    assert "another process is using it" in held
