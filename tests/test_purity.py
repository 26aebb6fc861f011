"""What decides the state has no clock, no randomness, no I/O and no threads; and no module loads
another behind the back of the import table.

Same log, same bytes: a replica that looked at a clock, drew a number or read a file would hold
another state than its twin. Every rule is seen to fail on a planted breach.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.fixtures.trees import nodes

ROOT = Path(__file__).parents[1]
PACKAGES = ("stream_app", "producers", "consumers", "murmurec", "research")

# From the bytes of a record to the state, its digests and the answers that are computed from it.
PURE = (
    *("stream_app.wire", "stream_app.kernels", "stream_app.models", "stream_app.log"),
    *("stream_app.state", "stream_app.serving", "stream_app.checkpoints.protocol"),
    "stream_app.campaigns",
)
# All that what is pure imports: none of it has a clock, a source of noise, a file or a thread.
STANDARD = {
    *(
        "__future__",
        "abc",
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "base64",
        "contextlib",
        "hashlib",
        "hmac",
    ),
    *("itertools", "math", "re", "struct", "types", "typing"),
}
THIRD_PARTY = {"numba", "llvmlite", "msgspec", "nacl"}
NUMPY = {"import numpy as np", "from numpy.typing import NDArray"}

CALLS = {"open", "input", "print", "breakpoint", "help", "vars"}
NUMPY_REFUSED = {
    **dict.fromkeys(("load", "save", "savez", "savez_compressed", "memmap"), "a file"),
    **dict.fromkeys(("loadtxt", "savetxt", "genfromtxt", "fromregex", "fromfile"), "a file"),
    **dict.fromkeys(("DataSource", "lib", "core", "ctypeslib", "f2py", "testing"), "a file"),
    **dict.fromkeys(("datetime64", "busday_count", "busday_offset"), "a clock"),
}
ARRAY_FILES = {"tofile", "open_memmap", "dump"}
# What `np.random` may be asked for; all but the first make noise of their own without a seed.
GENERATORS = {"Generator", "default_rng", "PCG64", "Philox", "SeedSequence"}

DYNAMIC = {
    *("importlib", "import_module", "__import__", "runpy", "run_module", "run_path"),
    *("pkgutil", "builtins", "__builtins__", "__globals__", "__loader__", "__subclasses__"),
    "sys.modules",
}
DYNAMIC_HEADS = {name.partition(".")[0] for name in DYNAMIC}
# Looks a distribution up, and loads no module of it.
LOOK_UPS = ("importlib.util.find_spec", "importlib.metadata")
EVALUATED = {"exec", "eval", "compile", "globals"}

# Module -> what it may import although it is pure, and why; neither seed shows in any result.
EXCEPTIONS = {
    "stream_app.kernels": (
        {"atexit", "logging", "os", "pathlib", "shutil", "tempfile"},
        "where numba keeps machine code",
    ),
    "stream_app.state.high_water_marks": (
        {"secrets"},
        "a hash seed that no device can guess",
    ),
    "stream_app.models.seeds": (
        {"secrets"},
        "a hash seed that no device can guess",
    ),
    "stream_app.models.retrieval.auto_index": (
        {"time"},
        "which index is faster here; it decides how candidates are found, and no state",
    ),
    "stream_app.kernels.instrumentation": (
        {"threading", "time"},
        "how long kernels take, for a metric alone",
    ),
    "stream_app.kernels.machine.memory": (
        {"ctypes", "mmap"},
        "memory by address, uncompiled; advice about memory, which changes no value",
    ),
    "stream_app.models.frozen_arrays": (
        {"ctypes", "mmap"},
        "memory without a file, for what is kept of a cut",
    ),
    "stream_app.wire.batch_decoding": (
        {"secrets"},
        "a separator that no record holds",
    ),
}
# Module -> why it may load modules by name; the command line may anywhere.
LOADERS = {
    "murmurec": "public names are loaded at first use",
    "murmurec.common": "`research` may be missing",
}
COMMAND_LINE = "stream_app.cli"

Found = Iterator[tuple[int, str]]


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
                allowed = STANDARD | EXCEPTIONS.get(module, (frozenset[str](), ""))[0]
                rules += [_imports(tree, allowed), _through_modules(tree, allowed)]
                rules += [_calls(tree), _numpy(tree)]
            place = path.relative_to(root)
            found += [f"{place}:{line}: {what}" for rule in rules for line, what in rule]
    return found


def _below(package: str, module: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _imports(tree: ast.Module, allowed: set[str]) -> Found:
    """Yield every import of what is not listed, by whatever way it comes."""
    for node in nodes(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom) or ast.unparse(node) in NUMPY:
            continue
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = f"{module}.{alias.name}" if module else alias.name
            top, *rest = name.split(".")
            ours = top in (*PACKAGES, *THIRD_PARTY, *allowed) or bool(getattr(node, "level", 0))
            if not ours or any(_is_refused(part, allowed) for part in (*rest, "")):
                yield node.lineno, f"import of {name}: not on the list of what is pure"
            if "np" in (alias.name, alias.asname) or alias.name == "*":
                yield node.lineno, f"import of {name}: numpy comes as `import numpy as np`"


def _is_refused(name: str, allowed: set[str]) -> bool:
    return name in sys.stdlib_module_names and name not in allowed


def _through_modules(tree: ast.Module, allowed: set[str]) -> Found:
    """Yield what is reached through another module, such as `kernels.os`."""
    bound = {
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    } - {"np", "msgspec"}
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and _root(node) in bound:
            if _is_refused(node.attr, allowed) or node.attr in ("np", "numpy"):
                yield node.lineno, f"{ast.unparse(node)}: a module of another module"
        elif _is_call(node, "getattr") and _root(node.args[0]) in bound | {"np"}:
            yield node.lineno, f"{ast.unparse(node)}: a name that is not written out"


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_call(node: ast.AST, name: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _calls(tree: ast.Module) -> Found:
    called = [node for node in nodes(tree) if _is_call(node, "vars")]
    own = {id(node.func) for node in called if ast.unparse(node) == "vars(self)"}
    for node in nodes(tree):
        if isinstance(node, ast.Name) and node.id in CALLS and id(node) not in own:
            yield node.lineno, f"{node.id}: input and output"
        elif isinstance(node, ast.Attribute) and node.attr in ARRAY_FILES:
            yield node.lineno, f"{node.attr}: input and output"


def _numpy(tree: ast.Module) -> Found:
    """Yield what numpy can do beside arithmetic; `np` itself is never a value."""
    every = nodes(tree)
    owners = {id(node.value): node for node in every if isinstance(node, ast.Attribute)}
    calls = {id(node.func): node for node in every if isinstance(node, ast.Call)}
    for node in every:
        name = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        owner, call = owners.get(id(node)), calls.get(id(node))
        line = getattr(node, "lineno", 0)
        if name in ("np", "numpy", "np.random") and isinstance(node.ctx, ast.Load):
            if owner is None or name == "numpy":
                yield line, f"{name}: named only to take something out of it"
            elif name == "np.random" and owner.attr not in GENERATORS:
                yield line, f"np.random.{owner.attr}: randomness"
            elif owner.attr in NUMPY_REFUSED or owner.attr.startswith("_"):
                yield line, f"np.{owner.attr}: {NUMPY_REFUSED.get(owner.attr, 'internals')}"
        last = name.rpartition(".")[2]
        if last in GENERATORS - {"Generator"} and (call is None or _is_unseeded(call)):
            yield line, f"{name} without a seed: randomness"


def _is_unseeded(call: ast.Call) -> bool:
    values = [*call.args, *(each.value for each in call.keywords)]
    return all(isinstance(value, ast.Constant) and value.value is None for value in values)


def _dynamic(tree: ast.Module) -> Found:
    """Yield what loads or runs code that the import table does not see, by whatever name."""
    for node in nodes(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [node.attr, ast.unparse(node)]
        elif isinstance(node, ast.Name):
            names = [node.id]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        else:
            continue
        near = [name for name in names if name.partition(".")[0] in DYNAMIC_HEADS]
        found = {name for name in near if any(_below(each, name) for each in DYNAMIC)}
        if found and not any(_below(each, name) for each in LOOK_UPS for name in found):
            yield line, f"{min(found)}: imports are statements"
        if isinstance(node, ast.Name) and node.id in EVALUATED:
            yield line, f"{node.id}: code is in files"


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
    "a name of chance": ("stream_app/models/a.py", "from uuid import uuid4"),
    "a generator without a seed": ("stream_app/models/a.py", "x = np.random.default_rng()"),
    "a bit generator without a seed": ("stream_app/models/a.py", "x = np.random.PCG64()"),
    "a generator whose seed is None": ("stream_app/models/a.py", "np.random.default_rng(None)"),
    "a generator whose named seed is None": (
        "stream_app/models/a.py",
        "np.random.SeedSequence(entropy=None)",
    ),
    "a generator that is made later": ("stream_app/models/a.py", "d = np.random.default_rng"),
    "a generator under another name": (
        "stream_app/models/a.py",
        "from numpy.random import default_rng as d\nd()",
    ),
    "numpy's noise under another name": (
        "stream_app/kernels/a.py",
        "from numpy import random as r\nr.seed(1)",
    ),
    "numpy's noise as a module": ("stream_app/state/a.py", "import numpy.random as r\nr.random()"),
    "numpy's noise": ("stream_app/kernels/a.py", "x = np.random.random()"),
    "numpy's noise as a value": ("stream_app/kernels/a.py", "r = np.random"),
    "numpy's noise by a string": ("stream_app/kernels/a.py", "x = getattr(np, 'random')"),
    "numpy under another name": ("stream_app/log/a.py", "import numpy as n\nn.random.random()"),
    "numpy as a value": ("stream_app/log/a.py", "n = np\nn.load('a')"),
    "numpy from another module": ("stream_app/log/a.py", "from stream_app.models import np as n"),
    "numpy through another module": ("stream_app/log/a.py", "from numba import core\ncore.np.load"),
    "numpy's files under another name": ("stream_app/state/a.py", "from numpy import load"),
    "numpy's maps under another name": ("stream_app/state/a.py", "import numpy as n\nn.memmap()"),
    "numpy's clock under another name": (
        "stream_app/state/a.py",
        "from numpy import datetime64 as d\nd('now')",
    ),
    "numpy's clock by a variable": ("stream_app/state/a.py", "x = np.datetime64(y)"),
    "numpy's saved arrays": ("stream_app/state/a.py", "f = np.save"),
    "numpy's maps": ("stream_app/state/a.py", "x = np.memmap('a')"),
    "numpy's binary files": ("stream_app/state/a.py", "x = np.fromfile('a')"),
    "numpy's formats": ("stream_app/state/a.py", "x = np.lib.format.read_array"),
    "the system by its other name": ("stream_app/state/a.py", "import posix\nposix.urandom(8)"),
    "lines of a file": ("stream_app/state/a.py", "import linecache\nlinecache.getlines('a')"),
    "a compressed file": ("stream_app/state/a.py", "import gzip\ngzip.open('a')"),
    "an encoded file": ("stream_app/state/a.py", "import codecs\ncodecs.open('a')"),
    "the date of a letter": ("stream_app/log/a.py", "from email.utils import formatdate"),
    "a sample": ("stream_app/log/a.py", "import statistics\nstatistics.NormalDist().samples"),
    "the system from another module": (
        "stream_app/state/a.py",
        "from stream_app.kernels import os",
    ),
    "the system through another module": (
        "stream_app/state/a.py",
        "from stream_app import kernels\nkernels.os.urandom(8)",
    ),
    "the system through a dotted module": (
        "stream_app/state/a.py",
        "import stream_app.kernels\nstream_app.kernels.os.urandom(8)",
    ),
    "the system through a pure module": ("stream_app/state/a.py", "import enum\nenum.sys.modules"),
    "another package": ("stream_app/state/a.py", "import requests"),
    "the names of a module": ("stream_app/state/a.py", "vars(x)['open']"),
    "a file by the names of all": ("stream_app/state/a.py", "getattr(__builtins__, 'open')"),
    "a file by the table of names": ("producers/a.py", "__builtins__['open']"),
    "a name of the module's own": ("producers/a.py", "globals()['open']"),
    "an import by its tools": ("producers/a.py", "import importlib.util"),
    "an import by a path": ("producers/a.py", "import pkgutil\npkgutil.resolve_name('time')"),
    "a module that is loaded": ("producers/a.py", "import sys\nsys.modules['time']"),
    "loaded modules by their name": ("producers/a.py", "from sys import modules"),
    "code made of a string": ("consumers/a.py", "compile('import time', 'a', 'exec')"),
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
    "a generator of a named seed": ("stream_app/models/a.py", "np.random.default_rng(seed=x)"),
    "numpy and its types": (
        "stream_app/models/a.py",
        "import numpy as np\nfrom numpy.typing import NDArray\nx: NDArray[np.int8] = np.copy(y)",
    ),
    "what is pure": ("stream_app/log/a.py", "from collections.abc import Iterator\nimport re"),
    "one's own fields": ("stream_app/state/a.py", "class A:\n    def f(self): return vars(self)"),
    "a pattern": ("stream_app/state/a.py", "import re\nx = re.compile('a')"),
    "a message": ("stream_app/wire/a.py", "import msgspec\nx = msgspec.json.decode(y)"),
    "a field by its name": ("stream_app/state/a.py", "getattr(self, name)"),
    "a distribution that is looked up": (
        "stream_app/agents/a.py",
        "from importlib.util import find_spec",
    ),
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
