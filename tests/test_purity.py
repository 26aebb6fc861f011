"""What decides the state has no clock, no randomness, no I/O and no threads; and no module loads
another behind the back of the import table.

Same log, same bytes: a replica that looked at a clock, drew a number or read a file would hold
another state than its twin. Every rule is seen to fail on a planted breach.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("stream_app", "producers", "consumers", "murmurec")

# From the bytes of a record to the state, its digests and the answers that are computed from it.
PURE = (
    *("stream_app.wire", "stream_app.kernels", "stream_app.models", "stream_app.log"),
    *("stream_app.state", "stream_app.serving", "stream_app.checkpoints.protocol"),
)
CLOCK = {"time", "datetime", "sched", "timeit"}
RANDOM = {"random", "secrets", "uuid"}
INPUT_OUTPUT = {
    *("os", "io", "pathlib", "shutil", "tempfile", "fileinput", "glob", "mmap", "sys", "builtins"),
    *("socket", "socketserver", "ssl", "select", "selectors", "http", "urllib", "logging"),
    *("sqlite3", "dbm", "ctypes"),
}
CONCURRENCY = {
    *("threading", "_thread", "asyncio", "subprocess", "multiprocessing", "concurrent"),
    *("signal", "queue", "contextvars"),
}
BANNED = {
    **dict.fromkeys(CLOCK, "a clock"),
    **dict.fromkeys(RANDOM, "randomness"),
    **dict.fromkeys(INPUT_OUTPUT, "input and output"),
    **dict.fromkeys(CONCURRENCY, "concurrency"),
}
CALLS = {"open", "input", "print", "breakpoint"}
NUMPY_FILES = {
    *("load", "save", "savez", "savez_compressed", "memmap", "loadtxt", "savetxt", "genfromtxt"),
    *("fromfile", "tofile", "open_memmap"),
}
DYNAMIC = {"importlib", "import_module", "__import__", "runpy", "run_module", "run_path"}
EVALUATED = {"exec", "eval"}

# Module -> what it may name although it is pure, and why; neither seed shows in any result.
EXCEPTIONS = {
    "stream_app.kernels": ({"os", "pathlib"}, "where numba keeps machine code"),
    "stream_app.state.high_water_marks": (
        {"secrets"},
        "a hash seed that no device can guess",
    ),
    "stream_app.wire.batch_decoding": (
        {"secrets"},
        "a separator that no record holds",
    ),
}
# Module -> why it may load modules by name; the command line may anywhere.
LOADERS = {"murmurec": "public names are loaded at first use"}
COMMAND_LINE = "stream_app.cli"


def violations(root: Path) -> list[str]:
    """Return every breach under `root`, as `path:line: what`."""
    found = []
    for top in PACKAGES:
        for path in sorted((root / top).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            module = module.removesuffix(".__init__")
            rules = [] if module in LOADERS or _below(COMMAND_LINE, module) else [_dynamic(tree)]
            if any(_below(pure, module) for pure in PURE):
                rules += [_banned_imports(tree, module), _calls(tree)]
            place = path.relative_to(root)
            found += [f"{place}:{line}: {what}" for rule in rules for line, what in rule]
    return found


def _below(package: str, module: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _banned_imports(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    allowed = EXCEPTIONS.get(module, (frozenset[str](), ""))[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            if top in BANNED and top not in allowed:
                yield node.lineno, f"import of {name}: {BANNED[top]}"


def _calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in CALLS:
            yield node.lineno, f"{node.id}: input and output"
        elif isinstance(node, ast.Attribute) and node.attr in NUMPY_FILES:
            if node.attr in ("tofile", "open_memmap") or ast.unparse(node.value) in ("np", "numpy"):
                yield node.lineno, f"{node.attr}: input and output"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            name = node.func.id if isinstance(node.func, ast.Name) else name
            if name in ("default_rng", "PCG64", "Philox", "SeedSequence") and not node.args:
                yield node.lineno, f"{name} without a seed: randomness"
            if name == "datetime64" and any(_is_clock(argument) for argument in node.args):
                yield node.lineno, "datetime64 of now: a clock"


def _is_clock(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant) and argument.value in ("now", "today")


def _dynamic(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield what loads or runs code that the import table does not see, by whatever name."""
    for node in ast.walk(tree):
        named = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name", ast.Constant: "value"}
        name = getattr(node, named.get(type(node), ""), None)
        if isinstance(name, str) and name in DYNAMIC:
            yield getattr(node, "lineno", 0), f"{name}: imports are statements"
        if isinstance(node, ast.Name) and node.id in EVALUATED:
            yield node.lineno, f"{node.id}: code is in files"


# --- the tests ------------------------------------------------------------------------------------


def test_what_decides_the_state_is_pure():
    assert violations(ROOT) == []


@pytest.mark.parametrize("module", [*EXCEPTIONS, *LOADERS])
def test_an_exception_is_still_needed(module):
    path = ROOT / module.replace(".", "/")
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    wanted = EXCEPTIONS[module][0] if module in EXCEPTIONS else {"import_module"}
    assert {name for name in wanted if name not in text} == set()


PLANTED = {
    "a clock in the state": ("stream_app/state/a.py", "import time\nx = time.time"),
    "a clock by another name": ("stream_app/log/a.py", "from time import monotonic as m"),
    "a clock in a function": ("stream_app/models/a.py", "def f():\n    import time"),
    "a date in the log": ("stream_app/log/a.py", "from datetime import datetime"),
    "the date of today": ("stream_app/wire/a.py", "import datetime"),
    "numpy's clock": ("stream_app/state/a.py", "x = np.datetime64('now')"),
    "a clock in the protocol": ("stream_app/checkpoints/protocol/a.py", "import time"),
    "random in a learner": ("stream_app/models/a.py", "import random"),
    "random in a kernel": ("stream_app/kernels/a.py", "from random import random"),
    "secrets in the state": ("stream_app/state/a.py", "import secrets"),
    "the system's noise": ("stream_app/state/a.py", "from os import urandom"),
    "the system's noise by its module": ("stream_app/log/a.py", "import os\nx = os.urandom(8)"),
    "a name nobody has": ("stream_app/models/a.py", "from uuid import uuid4"),
    "a generator without a seed": ("stream_app/models/a.py", "x = np.random.default_rng()"),
    "a bit generator without a seed": ("stream_app/models/a.py", "x = np.random.PCG64()"),
    "a file": ("stream_app/models/a.py", "x = open('a')"),
    "a file under another name": ("stream_app/models/a.py", "f = open"),
    "a path": ("stream_app/state/a.py", "from pathlib import Path"),
    "an array in a file": ("stream_app/models/a.py", "x = np.load('a.npy')"),
    "an array into a file": ("stream_app/models/a.py", "x.tofile('a')"),
    "a line on the screen": ("stream_app/serving/a.py", "print('x')"),
    "a thread": ("stream_app/state/a.py", "from threading import Lock"),
    "a loop": ("stream_app/log/a.py", "import asyncio"),
    "a socket": ("stream_app/wire/a.py", "import socket"),
    "a pool": ("stream_app/models/a.py", "from concurrent.futures import ThreadPoolExecutor"),
    "an import by name": ("producers/a.py", "from importlib import import_module"),
    "an import by its function": ("stream_app/models/a.py", "x = __import__('time')"),
    "an import by its attribute": (
        "stream_app/agents/a.py",
        "import importlib\nx = importlib.import_module('time')",
    ),
    "an import by a string": ("consumers/a.py", "x = getattr(y, '__import__')"),
    "a module run by name": ("stream_app/agents/a.py", "import runpy"),
    "code in a string": ("stream_app/operations/a.py", "exec('import time')"),
}


@pytest.mark.parametrize(("path", "text"), PLANTED.values(), ids=PLANTED)
def test_a_planted_breach_is_found(tmp_path, path, text):
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(text + "\n")
    found = violations(tmp_path)
    assert found
    assert all(line.startswith(f"{path}:") for line in found)


ALLOWED = {
    "a clock in a stage": ("stream_app/agents/a.py", "import time"),
    "the noise of a device": ("stream_app/privacy/a.py", "import os"),
    "a driver's clock": ("stream_app/checkpoints/a.py", "import time"),
    "a seeded generator": ("stream_app/models/a.py", "x = np.random.Generator(np.random.PCG64(1))"),
    "a method of that name": ("stream_app/state/a.py", "self.open()"),
    "a field of that name": ("stream_app/state/a.py", "x.time"),
    "a command that loads its module": ("stream_app/cli/a.py", "import importlib as i"),
}


@pytest.mark.parametrize(("path", "text"), ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_is_left_alone(tmp_path, path, text):
    fine = tmp_path / path
    fine.parent.mkdir(parents=True)
    fine.write_text(text + "\n")
    assert violations(tmp_path) == []
