"""Places are found, broken and put back; a room without tests has none that notice."""

from __future__ import annotations

import ast

import pytest

from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.mutants.__main__ import chosen, rooms, table
from tests.mutants.changes import Change, changes
from tests.mutants.tree import ROOT, Tree

SOURCE = b'''"""A text with 1 < 2."""
def f(a: int | None, b):
    if not a and b is not None:
        raise ValueError(f"{a + 1}")
    log(b)
    close(b)
    b[0] = a
    return [x for x in b if x <= 0.5]
'''


def broken(source: bytes, kind: str) -> list[str]:
    """Return the lines that differ of every change of a kind."""
    lines = source.decode().splitlines()
    found = [each.applied(source).decode() for each in changes(source) if each.kind == kind]
    return [
        "; ".join(new for new in text.splitlines() if new not in lines).replace("  ", "")
        for text in found
    ]


def test_operators_constants_calls_and_statements_are_broken_and_no_texts() -> None:
    assert broken(SOURCE, "operator") == [
        "if not a or b is not None:",
        "if not a and b is None:",
        "return [x for x in b if x < 0.5]",
    ]
    assert broken(SOURCE, "constant") == ["b[1] = a", "return [x for x in b if x <= 1.5]"]
    assert broken(b"a(1)\nb(2)\n", "order") == [""]
    assert sorted(each.new for each in changes(SOURCE) if each.kind == "order") == [
        b"close(b)\n    log(b)"
    ]
    assert broken(SOURCE, "drop") == ["pass"] * 4
    assert all(each.differs(SOURCE) for each in changes(SOURCE))


def test_a_change_that_does_not_compile_differs_in_nothing() -> None:
    assert not Change("operator", 1, 0, 1, b"(").differs(b"a")
    assert not Change("operator", 1, 0, 1, b"(a)").differs(b"a")


def test_every_room_gives_as_many_and_the_same_for_a_seed(tmp_path) -> None:
    for top in ("stream_app", "tests/stream_app"):
        (tmp_path / top / "wire").mkdir(parents=True)
    (tmp_path / "stream_app/wire/ids.py").write_bytes(SOURCE)
    (tmp_path / "stream_app/errors.py").write_bytes(SOURCE)
    (tmp_path / "tests/stream_app/wire/test_ids.py").write_text("import stream_app.wire.ids\n")
    first, again = (list(chosen(tmp_path, [], 4, 1)) for _ in range(2))
    assert first == again
    assert [each.room for each in first] == ["stream_app"] * 2 + ["stream_app/wire"] * 2
    assert first[2].tests == ("tests/stream_app/wire/test_ids.py",)
    text = table([(first[0], "late"), (first[2], ""), (first[3], "a::b")])
    assert "| all | 3 | 2 | 1 | 67% |" in text
    assert f"- {first[2]}" in text


def test_every_module_of_the_product_is_in_a_room() -> None:
    found = rooms(ROOT)
    assert {"stream_app/wire", "stream_app", "producers/journal", "murmurec"} <= set(found)
    for path in found["stream_app/wire"]:
        ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("new", "by"), [(b"2", "test_a.py::test_one"), (b"1.0", "")], ids=["noticed", "not noticed"]
)
def test_a_change_is_noticed_by_a_test_that_passes_without_it(tmp_path, new, by) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    (tmp_path / "tests" / "mutants").mkdir(parents=True)
    (tmp_path / "test_a.py").write_text(
        "import a\ndef test_wrong():\n    assert a.a == 3\ndef test_one():\n    assert a.a == 1\n"
    )
    (tmp_path / "tests/mutants/limit.py").symlink_to(ROOT / "tests" / "mutants" / "limit.py")
    tree = Tree(tmp_path, PATIENCE_SECONDS)
    assert tree.noticed("a.py", Change("constant", 1, 4, 5, new), ["test_a.py"]) == by
    assert (tmp_path / "a.py").read_text() == "a = 1\n"
