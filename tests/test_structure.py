"""The shape of the project, as numbers: layers, arrows between packages, sizes.

    room    a package or a module directly under `stream_app`, and each other package at the root
    arrow   one room imports another, in however many places

The layers are the drawing of `docs/architecture.md`; counts have ceilings in `ceilings.toml`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.fixtures.trees import nodes

ROOT = Path(__file__).parents[1]
PACKAGES = ("stream_app", "producers", "consumers", "murmurec", "research")

# A room imports rooms of lower layers only; what imports nothing of ours is at the bottom.
LAYERS = (
    ("errors", "wire", "privacy", "kernels", "ranking", "web"),
    ("models", "log", "kafka", "settings", "campaigns"),
    ("state", "broker", "producers", "aggregation"),
    ("deployment", "serving", "consumers"),
    ("checkpoints", "monitoring", "evaluation"),
    ("replay", "murmurec"),
    ("operations", "agents", "gateway"),
    ("cli",),
    # Imports every other room; no other imports it.
    ("research",),
)
COMMANDS = {"cli", "research"}
OVER_ALL = {"murmurec", "research"}
LAYER = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}

MOST_MODULES = 12
MOST_LINES = 60
MOST_PARAMETERS = 8


def modules(root: Path, tops: tuple[str, ...] = PACKAGES) -> dict[str, ast.Module]:
    """Return every module of the product, or of other folders, by its dotted name."""
    found = {}
    for top in tops:
        for path in sorted((root / top).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def room(module: str) -> str:
    """Return the room of a module; that of `stream_app` itself is the empty string."""
    top, _, below = module.partition(".")
    return below.partition(".")[0] if top == "stream_app" else top


def arrows(trees: dict[str, ast.Module]) -> dict[tuple[str, str], str]:
    """Return (from, to) -> one place of the code for every room that imports another."""
    known, found = set(trees), {}
    for module, tree in trees.items():
        for node in nodes(tree):
            for name in _imported(node):
                while name and name not in known:
                    name = name.rpartition(".")[0]
                pair = room(module), room(name)
                if all(pair) and pair[0] != pair[1]:
                    found.setdefault(pair, f"{module}:{getattr(node, 'lineno', 0)} {name}")
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def upward(trees: dict[str, ast.Module]) -> list[str]:
    """Return every arrow that does not lead to a lower layer, or leads from or to none."""
    return [
        f"{start} -> {end}: {place}"
        for (start, end), place in arrows(trees).items()
        if LAYER.get(start, -1) <= LAYER.get(end, len(LAYERS))
    ]


def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return what every module imports of ours, at any depth of its code.

    An import that only the type checker reads is left out; a package of which a name is imported
    counts, and one that is passed on the way to a module does not.
    """
    found: dict[str, set[str]] = {}
    for module, tree in trees.items():
        unread = {id(node) for each in nodes(tree) if _is_for_types(each) for node in each.body}
        names = {name for node in nodes(tree) if id(node) not in unread for name in _imported(node)}
        for name in names:
            while name and name not in trees:
                name = name.rpartition(".")[0]
            found.setdefault(module, set()).update({name} - {"", module})
    return found


def _is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def circles(trees: dict[str, ast.Module]) -> list[list[str]]:
    """Return the sets of modules of which each imports all others, directly or through modules."""
    arrows = imports(trees)
    reached: dict[str, set[str]] = {}
    for module in trees:
        found, waiting = set[str](), list(arrows.get(module, ()))
        while waiting:
            if (name := waiting.pop()) not in found:
                found.add(name)
                waiting += arrows.get(name, ())
        reached[module] = found
    sets = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in trees
        if module in reached[module]
    }
    return sorted(sorted(each) for each in sets)


# Words that do not say what the variable holds.
VAGUE = {"of", "there", "here", "mine", "theirs", "who", "why", "no", "told", "said"}


def vague_names(trees: dict[str, ast.Module]) -> list[str]:
    """Return what is bound to a vague word: a variable, a parameter, a function, an import."""
    bound = {
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), "name"),
        **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar), "name"),
        **{ast.arg: "arg", ast.alias: "asname", ast.Name: "id"},
    }
    found = []
    for module, tree in trees.items():
        for node in nodes(tree):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                continue
            name = getattr(node, bound.get(type(node), ""), None) or ""
            if name.strip("_") in VAGUE:
                found.append(f"{module}:{getattr(node, 'lineno', 0)} {name}")
    return found


def crowded(root: Path) -> list[str]:
    """Return every package that holds too many modules."""
    found = []
    for top in PACKAGES:
        for folder in (root / top, *(root / top).rglob("*/")):
            count = sum(path.name != "__init__.py" for path in folder.glob("*.py"))
            if count > MOST_MODULES:
                found.append(f"{folder.relative_to(root)}: {count} modules")
    return found


def functions(
    trees: dict[str, ast.Module],
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function with the name of its module."""
    for module, tree in trees.items():
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield module, node


def long_functions(trees: dict[str, ast.Module]) -> list[str]:
    """Return the functions over 60 lines, but for kernels and commands."""
    return [
        f"{module}.{node.name}: {lines} lines"
        for module, node in functions(trees)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES
        and ".kernels." not in module
        and not (room(module) in COMMANDS and _is_command(node))
    ]


def many_parameters(trees: dict[str, ast.Module]) -> list[str]:
    """Return the functions that take more than eight, but for kernels and commands."""
    return [
        f"{module}.{node.name}: {count} parameters"
        for module, node in functions(trees)
        if (count := _parameters(node)) > MOST_PARAMETERS
        and ".kernels." not in module
        and not (room(module) in COMMANDS and _is_command(node))
    ]


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many parameters have a name; `**options` are those of another function."""
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether typer reads the parameters: each is an option or an argument."""
    written = [ast.unparse(each.annotation) for each in node.args.args if each.annotation]
    if any(ast.unparse(each).startswith("option(") for each in node.args.defaults):
        return True
    return any("typer." in text or text.endswith(("Option", "Argument")) for text in written)


# --- the tests ------------------------------------------------------------------------------------


@cache
def project() -> dict[str, ast.Module]:
    """Return the modules of the project."""
    return modules(ROOT)


def test_every_room_has_a_layer_and_every_layer_its_rooms():
    assert {room(module) for module in project()} - {""} == set(LAYER)


def test_packages_import_lower_layers_only():
    assert upward(project()) == []


def test_no_module_imports_itself_through_others():
    assert circles(project()) == []


def test_every_variable_says_what_it_holds():
    assert vague_names(project()) == []


def test_no_package_is_crowded():
    assert crowded(ROOT) == []


def test_functions_are_short():
    assert long_functions(project()) == []


def test_functions_take_few_parameters():
    assert many_parameters(project()) == []


def planted(root: Path, **texts: str) -> dict[str, ast.Module]:
    """Write modules, `a__b` for a/b.py, and return them."""
    for name, text in texts.items():
        path = root.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return modules(root)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("stream_app__wire__a", "stream_app.log.b"),
        ("stream_app__models__a", "stream_app.state.b"),
        ("stream_app__log__a", "stream_app.models.b"),
        ("producers__a", "stream_app.agents.b"),
        ("stream_app__replay__a", "stream_app.operations.b"),
        ("stream_app__new__a", "stream_app.wire.b"),
    ],
    ids=["up", "further up", "beside", "from the device", "to the operator", "from no layer"],
)
def test_an_arrow_that_leads_up_is_found(tmp_path, start, end):
    package, _, name = end.rpartition(".")
    trees = planted(
        tmp_path,
        **{start: f"def f():\n    from {package} import {name}", end.replace(".", "__"): ""},
    )
    assert len(upward(trees)) == 1


def test_a_circle_of_rooms_is_found(tmp_path):
    trees = planted(
        tmp_path,
        stream_app__state__a="import stream_app.serving.b",
        stream_app__serving__b="import stream_app.state.a",
    )
    assert len(upward(trees)) == 1
    assert len(arrows(trees)) == 2


@pytest.mark.parametrize(
    "back",
    [
        "from stream_app.models import a",
        "from stream_app.models.a import x",
        "def f():\n    import stream_app.models.a",
        "from stream_app.models import c",
    ],
    ids=["beside", "by a name", "in a function", "over a third"],
)
def test_a_circle_of_modules_is_found(tmp_path, back):
    trees = planted(
        tmp_path,
        stream_app__models__a="from stream_app.models import b",
        stream_app__models__b=back,
        stream_app__models__c="from stream_app.models.a import x",
    )
    (circle,) = circles(trees)
    assert {"stream_app.models.a", "stream_app.models.b"} <= set(circle)
    assert ("stream_app.models.c" in circle) == ("import c" in back)


def test_a_circle_of_packages_is_found(tmp_path):
    for name, other in ("cd", "dc"):
        package = tmp_path / "stream_app" / "models" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"from stream_app.models.{other} import x\n")
    assert circles(modules(tmp_path)) == [["stream_app.models.c", "stream_app.models.d"]]


def test_an_import_for_the_type_checker_makes_no_circle(tmp_path):
    trees = planted(
        tmp_path,
        stream_app__models__a="from stream_app.models import b",
        stream_app__models__b="if TYPE_CHECKING:\n    from stream_app.models import a",
    )
    assert circles(trees) == []


@pytest.mark.parametrize(
    "text",
    [
        "here = 1",
        "def f(why): ...",
        "for there in x: ...",
        "_of = 1",
        "mine, theirs = x",
        "x = [no for no in y]",
        "if (said := x): ...",
        "def f():\n    def of(): ...",
        "import os as who",
        "lambda told: 1",
    ],
)
def test_a_vague_name_is_found(tmp_path, text):
    assert vague_names(planted(tmp_path, stream_app__log__a=text)) != []


def test_a_crowded_package_is_found(tmp_path):
    names = {f"stream_app__log__m{i}": "" for i in range(MOST_MODULES + 1)}
    planted(tmp_path, **names)
    assert crowded(tmp_path) == [f"stream_app/log: {MOST_MODULES + 1} modules"]


def test_a_long_function_is_found(tmp_path):
    body = "def f():\n" + "    x = 1\n" * MOST_LINES
    assert long_functions(planted(tmp_path, stream_app__log__a=body)) == [
        "stream_app.log.a.f: 61 lines"
    ]


def test_a_function_of_many_parameters_is_found(tmp_path):
    text = "def f(a, b, c, d, e, *, g, h, i, j): ...\nclass A:\n    def f(self, *a, **b): ..."
    trees = planted(tmp_path, stream_app__cli__a=text, stream_app__kernels__a=text)
    assert many_parameters(trees) == ["stream_app.cli.a.f: 9 parameters"]


def test_a_command_may_take_many(tmp_path):
    names = ", ".join(f"p{i}: Annotated[int, typer.Option()]" for i in range(12))
    trees = planted(tmp_path, stream_app__cli__a=f"def f({names}): ...")
    assert many_parameters(trees) == []
