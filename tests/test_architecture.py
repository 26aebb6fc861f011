"""Who may import whom, and what may stand nowhere: the fences of the project, as data.

The line that matters most is the edge of the device: names of what is not yet released start with
`raw_` and occur only under `producers/`. The others keep a device install small, the learners free
of I/O, and the state a function of the log. Every rule is seen to fail on a planted violation.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("stream_app", "producers", "consumers")

_SERVER = {"confluent_kafka", "numpy", "prometheus_client", "structlog", "stream_app"}
_DEVICE = {
    *("numpy", "confluent_kafka", "msgspec"),
    *("stream_app.wire", "stream_app.privacy", "stream_app.errors", "stream_app.clients"),
}

# Module or package -> what it may import besides the standard library; the longest name that fits
# decides. A name covers everything below it.
MAY_IMPORT: dict[str, set[str]] = {
    "stream_app.errors": set(),
    "stream_app.wire": {"msgspec", "numpy", "stream_app.wire"},
    "stream_app.privacy": {"numpy", "stream_app.privacy"},
    # llvmlite is numba's own: three kernels speak to it for vectors, prefetching and wide words.
    "stream_app.kernels": {"numpy", "numba", "llvmlite", "stream_app.kernels"},
    "stream_app.models": {
        *("numpy", "stream_app.kernels", "stream_app.privacy", "stream_app.models"),
    },
    "stream_app.log": {"numpy", "stream_app.wire", "stream_app.log"},
    "stream_app.state_design": {"stream_app.models", "stream_app.privacy", "stream_app.wire"},
    "stream_app.digests": {"numpy", "stream_app.wire"},
    "stream_app.replica": {
        *("numpy", "stream_app.wire", "stream_app.privacy", "stream_app.kernels"),
        *("stream_app.models", "stream_app.log", "stream_app.state_design", "stream_app.digests"),
    },
    "stream_app.snapshot": {
        *("numpy", "stream_app.digests", "stream_app.log", "stream_app.models"),
        *("stream_app.replica", "stream_app.wire"),
    },
    "stream_app.snapshot_file": {
        *("msgspec", "numpy", "stream_app.digests", "stream_app.errors", "stream_app.replica"),
        *("stream_app.state_design", "stream_app.wire"),
    },
    "stream_app.evaluation": {
        *("numpy", "stream_app.evaluation", "stream_app.models", "stream_app.privacy"),
    },
    "stream_app.profile_evaluation": {"numpy", "stream_app.models", "stream_app.privacy"},
    "stream_app.metrics": {
        *("prometheus_client", "stream_app.checkpoint_metrics", "stream_app.wire"),
    },
    "stream_app.checkpoint_metrics": {"prometheus_client"},
    "stream_app.settings": {
        *("pydantic", "pydantic_core", "pydantic_settings", "platformdirs", "stream_app.errors"),
    },
    "stream_app.diagnosis": set(),
    "stream_app.clients": {"confluent_kafka", "stream_app.errors", "stream_app.diagnosis"},
    "stream_app.topics": {
        *("confluent_kafka", "stream_app.clients", "stream_app.errors", "stream_app.wire"),
    },
    "stream_app.accuracy": {"numpy", "stream_app.kernels"},
    "stream_app.logs": {"structlog"},
    "stream_app.catalogue": {"numpy", "stream_app.wire"},
    "stream_app.design": {
        *("stream_app.errors", "stream_app.privacy", "stream_app.replica", "stream_app.settings"),
        *("stream_app.state_design", "stream_app.wire"),
    },
    "stream_app.item_table": {"numpy", "stream_app.models", "stream_app.wire"},
    "stream_app.recommender": {
        *("numpy", "stream_app.catalogue", "stream_app.models", "stream_app.replica"),
        "stream_app.wire",
    },
    "stream_app.gauges": {
        *("numpy", "stream_app.accuracy", "stream_app.kernels", "stream_app.log"),
        *("stream_app.metrics", "stream_app.recommender", "stream_app.replica", "stream_app.wire"),
    },
    "stream_app.warmup": {
        *("numpy", "prometheus_client", "stream_app.catalogue", "stream_app.gauges"),
        *("stream_app.metrics", "stream_app.recommender", "stream_app.replica", "stream_app.wire"),
    },
    "stream_app.follower": {
        *("confluent_kafka", "stream_app.catalogue", "stream_app.clients", "stream_app.errors"),
        *("stream_app.log", "stream_app.wire"),
    },
    "stream_app.recompute": {
        *("msgspec", "stream_app.errors", "stream_app.follower", "stream_app.log"),
        *("stream_app.replica", "stream_app.snapshot_file", "stream_app.wire"),
    },
    "stream_app.changelog": {
        *("confluent_kafka", "stream_app.clients", "stream_app.errors", "stream_app.log"),
        "stream_app.wire",
    },
    "stream_app.checkpoint_line": {"confluent_kafka", "stream_app.log", "stream_app.wire"},
    "stream_app.changelog_writing": {
        *("confluent_kafka", "stream_app.changelog", "stream_app.clients", "stream_app.errors"),
        "stream_app.checkpoint_line",
        *("stream_app.log", "stream_app.replica", "stream_app.snapshot", "stream_app.wire"),
    },
    "stream_app.rights": {
        *("confluent_kafka", "stream_app.clients", "stream_app.errors", "stream_app.wire"),
    },
    "stream_app.history": {
        *("stream_app.changelog", "stream_app.errors", "stream_app.log", "stream_app.wire"),
    },
    "stream_app.rejected": {
        *("numpy", "stream_app.log", "stream_app.models", "stream_app.replica", "stream_app.wire"),
    },
    "stream_app.offsets": {
        *("confluent_kafka", "stream_app.changelog_writing", "stream_app.clients"),
        *("stream_app.errors", "stream_app.history", "stream_app.log", "stream_app.wire"),
    },
    "stream_app.broker": {
        *("confluent_kafka", "testcontainers", "docker", "stream_app.broker"),
        *("stream_app.clients", "stream_app.settings", "stream_app.errors"),
    },
    # Membership is aiokafka's, which faust speaks to, and yarl names a worker in the group.
    "stream_app.agents": _SERVER | {"faust", "mode", "aiokafka", "yarl", "msgspec"},
    "producers": _DEVICE | {"producers"},
    "consumers": _DEVICE | {"consumers", "prometheus_client"},
}
# The package itself holds the version and nothing else.
VERSION = {"stream_app", "stream_app.__version__"}
# May import anything, but what is imported for `murmurec --help` (the modules directly under it)
# has these only inside functions.
COMMAND_LINE = "stream_app.cli"
HEAVY = {"confluent_kafka", "faust", "mode", "numba", "numpy", "scipy", "testcontainers"}

# Who may make tickets for releases: the journal, which has checked the budget, and their module.
MINTS = ("producers.journal", "stream_app.privacy.ticket")

GENERATORS = {"BitGenerator", "Generator", "PCG64", "Philox", "SeedSequence", "default_rng"}
FORBIDDEN_IMPORTS = {
    "pickle": "pickle runs what it reads",
    "cloudpickle": "pickle runs what it reads",
    "dill": "pickle runs what it reads",
    "shelve": "pickle runs what it reads",
    "unittest.mock": "fakes are real code",
    "mock": "fakes are real code",
}


def violations(root: Path) -> list[str]:
    """Return every breach under `root`, as `path:line: what`."""
    found = []
    for top in (*PACKAGES, "tests"):
        for path in sorted((root / top).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            module = module.removesuffix(".__init__")
            rules = [_anywhere(tree)]
            if top != "tests":
                rules.append(_imports(tree, module))
                if top != "producers":
                    rules.append(_raw_names(tree))
                if not any(_covers(home, module) for home in MINTS):
                    rules.append(_mints(tree))
            place = path.relative_to(root)
            found += [f"{place}:{line}: {what}" for rule in rules for line, what in rule]
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the full name of each thing an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        if node.level:
            yield "." * node.level + (node.module or "")
        else:
            # The name may be a module of its own: `from stream_app import clients`.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _covers(allowed: str, name: str) -> bool:
    return name == allowed or name.startswith(f"{allowed}.")


def _imports(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    if _covers(COMMAND_LINE, module):
        at_help = module.count(".") <= COMMAND_LINE.count(".") + 1
        for node in _at_import(tree) if at_help else ():
            for name in _imported(node):
                if name.partition(".")[0] in HEAVY:
                    yield node.lineno, f"{name} is heavy: import it inside the function"
        return
    rows = [row for row in MAY_IMPORT if _covers(row, module)]
    if not rows:
        if any(_ours_or_third(name) for node in ast.walk(tree) for name in _imported(node)):
            yield 1, f"{module} has no row in MAY_IMPORT"
        return
    allowed = MAY_IMPORT[max(rows, key=len)]
    for node in ast.walk(tree):
        for name in _imported(node):
            if name.startswith("."):
                yield node.lineno, f"{name}: imports are absolute"
            elif _ours_or_third(name) and not any(_covers(one, name) for one in allowed):
                yield node.lineno, f"{module} may not import {name}"


def _ours_or_third(name: str) -> bool:
    return name not in VERSION and name.partition(".")[0] not in sys.stdlib_module_names


def _at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is imported."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                waiting.extend(child.orelse)
                continue
            if isinstance(child, ast.stmt):
                yield child
            waiting.append(child)


def _anywhere(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        for name in _imported(node):
            for forbidden, why in FORBIDDEN_IMPORTS.items():
                if _covers(forbidden, name):
                    yield node.lineno, f"{name}: {why}"
            if name.startswith("numpy.random.") and name.split(".")[2] not in GENERATORS:
                yield node.lineno, f"{name}: numpy's global generator"
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "hash":
                yield node.lineno, "hash() differs from process to process"
            for keyword in node.keywords:
                if keyword.arg == "fastmath" and not _is_false(keyword.value):
                    yield node.lineno, "fastmath gives other bytes on another machine"
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value) in ("np.random", "numpy.random")
            and node.attr not in GENERATORS
        ):
            yield node.lineno, f"np.random.{node.attr}: numpy's global generator"


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _raw_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        names = {
            ast.Name: ("id",),
            ast.Attribute: ("attr",),
            ast.arg: ("arg",),
            ast.keyword: ("arg",),
            ast.alias: ("name", "asname"),
            ast.FunctionDef: ("name",),
            ast.AsyncFunctionDef: ("name",),
            ast.ClassDef: ("name",),
        }.get(type(node), ())
        for name in (getattr(node, each) for each in names):
            if name and name.rpartition(".")[2].startswith("raw_"):
                yield getattr(node, "lineno", 0), f"{name}: raw ratings stay under producers/"


def _mints(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        named = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name", ast.Constant: "value"}
        name = getattr(node, named.get(type(node), ""), None)
        if isinstance(name, str) and name.rpartition(".")[2] == "Mint":
            yield getattr(node, "lineno", 0), f"{name}: only the journal mints tickets"


# --- the tests ------------------------------------------------------------------------------------


def test_the_project_keeps_its_fences():
    assert violations(ROOT) == []


def test_the_fences_are_looked_at_all():
    files = [path for top in PACKAGES for path in (ROOT / top).rglob("*.py")]
    assert len(files) > 20


PLANTED = {
    "a kernel that reads a file of the contract": (
        "stream_app/kernels/a.py",
        "from stream_app.wire import Event",
    ),
    "a kernel with scipy": ("stream_app/kernels/a.py", "import scipy.special"),
    "a mechanism that is compiled": ("stream_app/privacy/a.py", "import numba"),
    "a learner that talks to kafka": ("stream_app/models/a.py", "import confluent_kafka"),
    "a learner with a stage": ("stream_app/models/a.py", "from stream_app import agents"),
    "an import inside a function": ("stream_app/log/a.py", "def f():\n    import faust"),
    "faust outside the agents": ("stream_app/replica.py", "import faust"),
    "a device with numba": ("producers/a.py", "from numba import njit"),
    "a device with the server's learner": ("producers/a.py", "import stream_app.models.learner"),
    "a reader that imports the device": ("consumers/a.py", "from producers import device"),
    "a relative import": ("stream_app/models/a.py", "from . import b"),
    "a name that only begins alike": ("stream_app/models/a.py", "import stream_app.models_too"),
    "a module without a row": ("stream_app/new.py", "import numpy"),
    "a heavy import of the command line": ("stream_app/cli/a.py", "import numpy as np"),
    "a heavy import in a class of the command line": (
        "stream_app/cli/a.py",
        "class A:\n    from confluent_kafka import Producer",
    ),
    "hash": ("stream_app/models/a.py", "x = hash('a')"),
    "hash in a test": ("tests/test_a.py", "x = hash('a')"),
    "pickle": ("stream_app/log/a.py", "import pickle"),
    "pickle by name": ("stream_app/log/a.py", "from pickle import loads"),
    "fastmath": ("stream_app/kernels/a.py", "f = njit(fastmath=True)"),
    "some fastmath": ("stream_app/kernels/a.py", "f = njit(fastmath={'nnan'})"),
    "mock": ("tests/test_a.py", "from unittest import mock"),
    "mock by name": ("tests/test_a.py", "from unittest.mock import patch"),
    "the global generator": ("stream_app/models/a.py", "import numpy as np\nnp.random.seed(1)"),
    "the global generator by name": ("tests/test_a.py", "from numpy.random import rand"),
    "a device that mints for itself": (
        "producers/device.py",
        "from stream_app.privacy.ticket import Mint",
    ),
    "a mint by way of its module": (
        "stream_app/cli/a/b.py",
        "from stream_app.privacy import ticket\nmint = ticket.Mint(None)",
    ),
    "a mint by a name of another": (
        "producers/replay.py",
        "from stream_app.privacy import ticket\nmint = getattr(ticket, 'Mint')",
    ),
    "a mint by inheritance": (
        "stream_app/privacy/a.py",
        "import stream_app.privacy.ticket as t\nclass Own(t.Mint): ...",
    ),
    "a raw name on the server": ("stream_app/models/a.py", "raw_rating = 1"),
    "a raw argument": ("consumers/a.py", "def f(raw_rating): ..."),
    "a raw keyword": ("stream_app/models/a.py", "f(raw_level=1)"),
    "a raw attribute": ("stream_app/cli/a.py", "x.raw_rating"),
    "a raw function": ("stream_app/log/a.py", "def raw_ratings(): ..."),
}


@pytest.mark.parametrize(("path", "text"), PLANTED.values(), ids=PLANTED)
def test_a_planted_breach_is_found_where_it_stands(tmp_path, path, text):
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(text + "\n")
    found = violations(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(f"{path}:{len(text.splitlines()) if 'row' not in found[0] else 1}:")


ALLOWED = {
    "a raw name on the device": ("producers/a.py", "def f(raw_rating): ..."),
    "the journal's mint": (
        "producers/journal/a.py",
        "from stream_app.privacy.ticket import Mint",
    ),
    "a mint in a test": ("tests/test_a.py", "from stream_app.privacy.ticket import Mint"),
    "a word that begins alike": ("producers/a.py", "Minted = 'Mint of the year'"),
    "a raw name in a test": ("tests/test_a.py", "raw_rating = 1"),
    "a heavy import inside a command": ("stream_app/cli/a.py", "def f():\n    import numpy"),
    "a heavy import for types only": (
        "stream_app/cli/a.py",
        "if TYPE_CHECKING:\n    from confluent_kafka import Producer",
    ),
    "a heavy import that help does not reach": ("stream_app/cli/a/b.py", "import numpy"),
    "the version": ("producers/a.py", "from stream_app import __version__"),
    "a seeded generator": ("stream_app/models/a.py", "import numpy as np\nnp.random.PCG64(1)"),
    "the standard library": ("stream_app/kernels/a.py", "import math, os.path"),
    "no fastmath": ("stream_app/kernels/a.py", "f = njit(fastmath=False)"),
    "a hash of one's own": ("stream_app/models/a.py", "x.hash('a')"),
    "a word of numpy's types": ("stream_app/models/a.py", "from numpy.typing import NDArray"),
}


@pytest.mark.parametrize(("path", "text"), ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_is_left_alone(tmp_path, path, text):
    fine = tmp_path / path
    fine.parent.mkdir(parents=True)
    fine.write_text(text + "\n")
    assert violations(tmp_path) == []
