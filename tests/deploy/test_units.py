"""The units of systemd are whole, keep secrets to themselves, and start again when they should."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.deploy.test_commands import UNITS, unit
from tests.fixtures.programs import program

EVERY_UNIT = pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)


@pytest.fixture
def copies(tmp_path: Path) -> list[str]:
    """Give the units with a program that is there, as systemd-analyze asks for."""
    for file in UNITS:
        text = file.read_text(encoding="utf-8")
        (tmp_path / file.name).write_text(text.replace("/opt/murmurec/bin/murmurec", "/bin/true"))
    return [str(tmp_path / file.name) for file in UNITS]


def analyzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    tool = program("systemd-analyze", package="systemd")
    return subprocess.run(
        [tool, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_systemd_accepts_every_unit(copies: list[str]) -> None:
    done = analyzed("verify", "--man=no", *copies)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_finds_every_unit_little_exposed(copies: list[str]) -> None:
    done = analyzed("security", "--offline=true", "--threshold=20", "--no-pager", *copies)
    assert done.returncode == 0, done.stdout + done.stderr  # 2.0 of 10


@EVERY_UNIT
def test_a_unit_starts_again_and_writes_its_own_folder_alone(file: Path) -> None:
    keys = unit(file)
    # The gateway keeps nothing; nobody else may read what a unit keeps.
    assert ("User" in keys) == ("StateDirectory" in keys)
    assert keys.get("DynamicUser") == (None if "User" in keys else ["yes"])
    for key, value in {
        "Type": "exec",
        "Restart": "on-failure",
        "RestartForceExitStatus": "75",
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
    }.items():
        assert keys[key] == [value], key
    assert int(keys["TimeoutStopSec"][0]) >= 10
    for mode in keys.get("StateDirectoryMode", ()):
        assert mode == "0700"
    assert len(keys.get("StateDirectory", ())) == len(keys.get("StateDirectoryMode", ()))


@EVERY_UNIT
def test_secrets_come_as_credentials(file: Path) -> None:
    keys = unit(file)
    loaded = {each.partition(":")[0] for each in keys["LoadCredential"]}
    environment = dict(each.split("=", 1) for each in keys["Environment"])
    words = [*environment.values(), *shlex.split(keys["ExecStart"][0])]
    assert not [word for word in words if word.startswith("/etc")]  # root's alone
    assert environment["MURMUREC_CONFIG"] == "/run/c/config.toml"
    used = {match for each in words for match in re.findall(r"^/run/c/(.+)$", each)}
    assert used == loaded
    assert not [name for name in environment if re.search("PASSWORD|TOKEN|SECRET$|KAFKA", name)]


@pytest.mark.parametrize("party", ["a", "b", "central"])
def test_every_user_is_made_and_owns_its_folder_alone(party: str) -> None:
    """Journals and keys are made by hand before the first start, as the user of their unit."""
    folder = UNITS[0].parent
    users = re.findall(
        r'^u (\S+) - "[^"]*" (\S+)$', (folder / "murmurec.sysusers.conf").read_text(), re.M
    )
    rule = re.compile(r"^d (\S+) 0700 (\S+) \2$", re.M)
    made = {
        owner: path for path, owner in rule.findall((folder / "murmurec.tmpfiles.conf").read_text())
    }
    owners: dict[str, str] = {}
    for file in UNITS:
        keys = unit(file, party)
        for user in keys.get("User", ()):
            state, *others = " ".join(keys["StateDirectory"]).split()
            assert all(f"/var/lib/{other}" in " ".join(keys["Environment"]) for other in others)
            assert (user, f"/var/lib/{state}") in users
            assert owners.setdefault(state, user) == user
            if file.name != "murmurec-worker.service":
                assert made[user] == f"/var/lib/{state}"
                assert f"/var/lib/{state}" in " ".join(keys["Environment"])
    assert len(set(owners.values())) == len(owners)
    assert set(made) < {user for user, _ in users}
