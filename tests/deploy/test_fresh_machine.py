"""`make demo` and `make test` on a Debian that has python3, make and git, and install the rest.

The root is made by debootstrap from this machine's mirror, with its certificates and its way to the
network. It shares processes and devices with this machine, and nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import platformdirs
import pytest

from stream_app.broker import KAFKA_VERSION

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
_ENTER = """
mount --rbind /proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" make -C /srv "$@"
"""
_NETWORK = re.compile(r".*_proxy|pip_(?!find_links).*|ssl_cert_.*", re.IGNORECASE)
_CERTIFICATES = ("etc/ssl/certs", "usr/local/share/ca-certificates")


def mirror(suite: str) -> str:
    """Return the address from which this machine has the packages of a suite."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    for line in subprocess.check_output(command, text=True).splitlines():
        address, release, component = line.rsplit(" ", 2)
        if (release, component) == (suite, "main"):
            return address
    pytest.skip(f"apt names no mirror of {suite} here")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Give the root of a bare Debian with this project in /srv."""
    if os.geteuid() != 0:
        pytest.skip("only root makes the root of another system")
    if shutil.which("debootstrap") is None:
        pytest.skip("debootstrap is not on the PATH (Debian: apt-get install debootstrap)")
    suite, root = platform_suite(), tmp_path / "root"
    bare = ["debootstrap", "--variant=minbase", "--include=python3,make,git", suite, str(root)]
    subprocess.run([*bare, mirror(suite)], check=True)
    for place in _CERTIFICATES:
        shutil.copytree(Path("/", place), root / place, dirs_exist_ok=True)
    dumped = subprocess.check_output(["apt-config", "dump"], text=True)
    proxies = re.findall(r"(?m)^Acquire::.*proxy.*$", dumped, re.IGNORECASE)
    (root / "etc/apt/apt.conf.d/99proxy").write_text("\n".join([*proxies, ""]))
    if Path("/etc/pip.conf").exists():
        shutil.copy("/etc/pip.conf", root / "etc/pip.conf")
    tracked = subprocess.check_output(["git", "-C", ROOT, "ls-files"], text=True).split("\n")
    for name in filter(None, tracked):
        (root / "srv" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, root / "srv" / name, follow_symlinks=False)
    return root


def platform_suite() -> str:
    """Return the code name of this machine's Debian."""
    found = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.M)
    assert found is not None
    return found[1]


def make(root: Path, target: str, arguments: str) -> str:
    """Return what a target prints in the root, where it ends well."""
    kept = {name: value for name, value in os.environ.items() if _NETWORK.fullmatch(name)}
    environment = kept | {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin"}
    enter = ["unshare", "--mount", "--propagation", "private", "bash", "-ec", _ENTER, str(root)]
    done = subprocess.run(
        [*enter, target, f"ARGS={arguments}"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_bare_debian_runs_the_demo_and_the_tests(machine: Path) -> None:
    small = "--ratings 4000 --seconds 2 --epsilon 20"
    kept = machine / "root/.cache/murmurec" / f"kafka-{KAFKA_VERSION}"
    own = Path(platformdirs.user_cache_dir("murmurec")) / kept.name
    if own.is_dir():  # then Maven has nothing to fetch, and is not installed
        shutil.copytree(own, kept)
        shown = make(machine, "demo", small)
        assert "Installing python3-venv default-jre-headless (" in shown
        assert "recomputed from the log" in shown
        shutil.rmtree(kept)
    shown = make(machine, "demo", small)
    assert re.search(r"Installing .*maven \(", shown)
    assert "Fetching Apache Kafka" in shown
    assert "recomputed from the log" in shown
    shown = make(machine, "test", "tests/kafka/test_start_up.py")
    assert re.search(r"Installing .*prometheus .*chromium fonts-dejavu-core \(", shown)
    assert " passed" in shown
