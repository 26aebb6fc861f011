"""The wheel, installed into an environment of its own, gives the public names.

The environment sees the wheel and the third-party packages that its metadata ask for, linked from
the ones that run this test: nothing is fetched, and nothing of the checkout can be imported.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path, PurePath

import pytest
from packaging.requirements import Requirement

from stream_app import __version__

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    (built,) = folder.glob("murmurec-*.whl")
    return built


def needed(
    own: metadata.Distribution,
    name: str,
    extras: frozenset[str],
    found: dict[str, metadata.Distribution],
) -> None:
    """Enter into `found` what a distribution needs, itself left out; `own` is the wheel's."""
    distribution = own if name == "murmurec" else metadata.distribution(name)
    for text in distribution.requires or ():
        requirement = Requirement(text)
        wanted = [{"extra": extra} for extra in extras or {""}]
        if requirement.marker and not any(requirement.marker.evaluate(e) for e in wanted):
            continue
        key = requirement.name.lower()
        if key == "murmurec":
            needed(own, key, frozenset(requirement.extras), found)
        elif key not in found:
            found[key] = metadata.distribution(key)
            needed(own, key, frozenset(requirement.extras), found)


def installed(wheel: Path, folder: Path, extras: frozenset[str]) -> Path:
    """Return the Python of a new environment with the wheel and what it needs."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps",
         "--no-index", str(wheel)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    found: dict[str, metadata.Distribution] = {}
    (own,) = metadata.distributions(name="murmurec", path=[str(site)])
    needed(own, "murmurec", extras, found)
    for distribution in found.values():
        for top in {file.parts[0] for file in distribution.files or () if ".." not in file.parts}:
            source, target = Path(str(distribution.locate_file(top))), site / top
            if source.exists() and not target.exists():
                target.symlink_to(source)
    return python


def run(python: Path, code: str, folder: Path) -> str:
    done = subprocess.run(
        [str(python), "-I", "-c", code],
        check=False, cwd=folder, capture_output=True, text=True, timeout=600,
        env={"HOME": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_packages_of_its_own_and_none_of_the_checkout(wheel: Path) -> None:
    """Every package is typed, and its description can be read without the repository."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(described).decode()
    version = __version__
    tops = {name.partition("/")[0] for name in names}
    packages = {"murmurec", "stream_app", "producers", "consumers"}
    assert tops == {*packages, f"murmurec-{version}.dist-info"}
    assert {f"{package}/py.typed" for package in packages} <= names
    assert not [name for name in names if "test" in PurePath(name).parts[-1]]
    header, _, description = text.partition("\n\n")
    extras = re.findall(r"^Provides-Extra: (.+)$", header, re.M)
    assert extras == ["dev", "edge", "gateway", "peers", "server"]
    assert "\nProject-URL: " in header
    assert all(f"`murmurec[{extra}]`" in description for extra in extras)
    assert re.findall(r"\]\((?!https://)", description) == []


def test_an_install_into_an_empty_environment_has_the_command_line(
    wheel: Path, tmp_path: Path
) -> None:
    """What needs a checkout says so."""
    command = installed(wheel, tmp_path / "env", frozenset()).with_name("murmurec")
    found = [
        subprocess.run(
            [str(command), *arguments],
            check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60,
            env={"HOME": str(tmp_path)},
        )
        for arguments in (["--help"], ["device", "enrol", "--user", "ann"], ["reproduce"])
    ]  # fmt: skip
    shown, enrolled, checkout = found
    assert [done.returncode for done in found] == [0, 0, 1], [done.stderr for done in found]
    assert "Usage: murmurec" in shown.stdout
    assert "20" in enrolled.stdout
    assert checkout.stderr.startswith("murmurec: this needs a checkout of murmurec: ")


def test_a_device_install_has_the_device_and_says_what_it_lacks(
    wheel: Path, tmp_path: Path
) -> None:
    python = installed(wheel, tmp_path / "env", frozenset())
    printed = run(
        python,
        "import murmurec, sys\n"
        "assert '/env/' in murmurec.__file__, murmurec.__file__\n"
        "with murmurec.Device('ann', 'device.journal').enrol(2, delta=0) as device:\n"
        "    device.rate('alien', 5)\n"
        "    print(device.spent, murmurec.mechanisms.parse('rr:5:2').id)\n"
        "    print([row.item for row in device.rated])\n"
        "print(murmurec.Recommendations.__name__, murmurec.LocalRecommender.__name__)\n"
        "assert 'numba' not in sys.modules and 'faust' not in sys.modules\n"
        "try:\n"
        "    murmurec.Recommender\n"
        "except ImportError as error:\n"
        "    print(error)\n",
        tmp_path,
    )
    assert printed.splitlines() == [
        "2 rr:5:2",
        "['alien']",
        "Recommendations LocalRecommender",
        "murmurec.Recommender needs numba, which a device install lacks: "
        "pip install 'murmurec[server]'",
    ]


def test_a_server_install_fits_and_recommends(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, tmp_path / "env", frozenset({"server"}))
    printed = run(
        python,
        "from murmurec import Recommender, evaluate\n"
        "ratings = [1, 1, 2] * 9, [10, 11, 10] * 9, [5, 1, 5] * 9\n"
        "model = Recommender('rr:5:2', model='dense', factors=2, scale=(1, 5, 1)).fit(ratings)\n"
        "print([item for item, _ in model.recommend(2)])\n"
        "print(evaluate(ratings, 'rr:5:2', model='dense', factors=2).events)\n",
        tmp_path,
    )
    assert printed.splitlines() == ["[11]", "27"]
    command = python.with_name("murmurec")
    version = subprocess.run(
        [str(command), "--version"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert version.returncode == 0, version.stderr
    assert version.stdout.strip().endswith(__version__)


def test_a_gateway_install_serves_its_page_and_has_no_learner(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, tmp_path / "env", frozenset({"gateway"}))
    printed = run(
        python,
        "import sys\n"
        "from stream_app.gateway import serving\n"
        "from stream_app.gateway.static_files import PLACES\n"
        "from stream_app.web.cached_document import page_files\n"
        "print(sorted({'index.html', 'device.js', 'page.css'} - set(page_files(PLACES))))\n"
        "print([name for name in ('numba', 'faust') if name in sys.modules])\n",
        tmp_path,
    )
    assert printed.splitlines() == ["[]", "[]"]


def test_every_package_is_imported_without_research(wheel: Path, tmp_path: Path) -> None:
    """Worker, device, gateway, edge and reader; the commands of the papers say what to install."""
    python = installed(wheel, tmp_path / "env", frozenset({"server", "edge"}))
    printed = run(
        python,
        "import importlib, io, pkgutil, sys\n"
        "from contextlib import redirect_stdout\n"
        "for top in ('stream_app', 'producers', 'consumers', 'murmurec'):\n"
        "    folder = importlib.import_module(top).__path__\n"
        "    for module in pkgutil.walk_packages(folder, top + '.'):\n"
        "        if not module.name.endswith('__main__'):\n"
        "            importlib.import_module(module.name)\n"
        "from stream_app.cli import run\n"
        "for command in ('worker', 'device run', 'gateway', 'edge', 'aggregate', 'ask'):\n"
        "    with redirect_stdout(io.StringIO()) as shown:\n"
        "        assert run([*command.split(), '--help']) == 0, command\n"
        "    assert 'Usage: murmurec' in shown.getvalue(), command\n"
        "from producers.edge.http.pages import PLACES\n"
        "from stream_app.web.cached_document import page_files\n"
        "assert page_files(PLACES)\n"
        "print('research' in sys.modules)\n",
        tmp_path,
    )
    assert printed == "False\n"
