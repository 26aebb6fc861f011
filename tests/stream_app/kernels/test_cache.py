"""Compiled code is kept apart for each state of the sources: an update never runs a mixture."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from numba.core import config

import stream_app.kernels as kernels

ROOT = Path(__file__).parents[3]
NOBODY = 65534
# What is not ours is imported first: the interpreter may lie in the home of the superuser.
AS_NOBODY = f"""
import os, pathlib, sys
given = dict(os.environ)
import numpy
from numba.core import config
from stream_app.kernels.machine.scalars import hash64
hash64(numpy.uint64(1))
for name in [name for name in sys.modules if name.startswith("stream_app")]:
    del sys.modules[name]
os.environ.clear()
os.environ.update(given, **dict(each.split("=") for each in sys.argv[1].split()))
config.reload_config()
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({NOBODY})
    os.setuid({NOBODY})
"""
COMPILED = """
from stream_app.kernels.machine.scalars import hash64
hash64(numpy.uint64(1))
folder = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
print(folder, oct(folder.stat().st_mode & 0o777), len(list(folder.rglob("*.nbi"))) > 0)
"""


def as_nobody(program: str, **environment: str) -> tuple[list[str], str]:
    """Run a program in this environment as a user without rights, where that can be; return its
    words and stderr."""
    kept = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY + program, " ".join(map("=".join, environment.items()))],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=kept,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user reaches, with `install`, which nobody may write, and `home`."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "install").mkdir(mode=0o500)
        (folder / "home").mkdir()
        if os.geteuid() == 0:
            (folder / "install").chmod(0o555)
            os.chown(folder / "home", NOBODY, NOBODY)
        yield folder


def test_a_changed_source_has_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_HERE", tmp_path)
    (tmp_path / "caller.py").write_text("one")
    (tmp_path / "called.py").write_text("two")
    before = kernels._cache()
    assert kernels._cache() == before
    (tmp_path / "called.py").write_text("three")
    assert kernels._cache() != before


def test_an_install_that_cannot_be_written_to_keeps_its_cache_at_home(open_folder: Path) -> None:
    program = f"""
import stream_app.kernels as kernels
kernels._HERE = pathlib.Path({str(open_folder / "install")!r})
print(kernels._cache())
"""
    home = open_folder / "home"
    (found,), _ = as_nobody(program, XDG_CACHE_HOME=str(home))
    assert Path(found).is_relative_to(home / "murmurec" / "kernels")


@pytest.mark.parametrize("where", ["given", "home", "no home"])
def test_without_a_folder_to_write_to_kernels_compile_in_a_private_one_that_goes(
    where: str, open_folder: Path
) -> None:
    changed = {"HOME": "/nonexistent", "XDG_CACHE_HOME": "", "TMPDIR": str(open_folder / "home")}
    if where == "given":
        changed["NUMBA_CACHE_DIR"] = "/proc/nonexistent"
    elif os.geteuid() != 0:
        pytest.skip("the sources are of this user, who may write beside them")
    program = 'del os.environ["HOME"]\n' if where == "no home" else ""
    (folder, mode, filled), err = as_nobody(program + COMPILED, **changed)
    assert (mode, filled) == ("0o700", "True")
    assert Path(folder).parent == open_folder / "home"
    assert not Path(folder).exists()
    (line,) = err.splitlines()
    assert line.startswith(f"no cache folder can be written, so kernels are compiled into {folder}")


@pytest.mark.thorough
def test_evaluate_works_for_a_user_who_can_write_no_cache(tmp_path: Path) -> None:
    rows = "".join(
        f"{user},{item},{1 + (user + item) % 5}\n" for user in range(9) for item in range(9)
    )
    (tmp_path / "mine.csv").write_text("user,item,rating\n" + rows)
    done = subprocess.run(
        [sys.executable, "-m", "stream_app.cli", "evaluate", str(tmp_path / "mine.csv")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"NUMBA_CACHE_DIR": "/proc/nonexistent", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "ratings tested" in done.stdout
    assert done.stderr.count("kernels are compiled into") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["mine.csv"]


def test_numba_uses_it() -> None:
    assert os.environ["NUMBA_CACHE_DIR"] == config.CACHE_DIR
