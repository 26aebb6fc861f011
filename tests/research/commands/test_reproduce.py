"""`murmurec reproduce` and `papers`: tables, files, and their refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from research.commands.reproduce.figures import FIGURES, chosen
from research.commands.reproduce.sources import Sources
from research.papers.systems import PAPERS
from stream_app.cli import run
from stream_app.errors import UsageError, UserError

ROOT = Path(__file__).parents[3]


def test_a_figure_is_printed_drawn_and_written(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    assert run(["reproduce", "F1", "--quick", "-o", "found"]) == 0
    assert Path("found/F1.png").read_bytes().startswith(b"\x89PNG\r\n")
    found = json.loads(Path("found/F1.json").read_text())
    assert found["paper"] == "Zheng 2016"
    assert re.fullmatch(r"generated, (7,99|8,00)\d ratings", *found["data"])
    assert {"quick", "seed", "series", "published", "notes"} <= set(found)
    shown = capsys.readouterr()
    assert "cells per user by epsilon per cell" in shown.out
    assert "the paper" in shown.out
    first, *_, last = shown.err.splitlines()
    assert first == f"figures are written to {Path('found').resolve()} (--output)"
    assert last.startswith("F1: computed from generated ratings")


def test_the_ratings_of_a_folder_are_used(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    draws = np.random.default_rng(0)
    Path("data/ml-100k").mkdir(parents=True)
    rows = [f"{u}\t{i}\t{draws.integers(1, 6)}\t0\n" for u in range(9) for i in range(5)]
    Path("data/ml-100k/u.data").write_text("".join(rows))
    assert run(["reproduce", "f1", "--data", "data"]) == 0
    shown = capsys.readouterr()
    assert "(ml-100k, 45 ratings)" in shown.out
    assert "generated" not in shown.err


def test_the_same_seed_gives_the_same_numbers(environment: Callable[..., None]) -> None:
    environment()
    for place in ("one", "two"):
        assert run(["reproduce", "F2", "--quick", "--seed", "3", "-o", place]) == 0
    assert Path("one/F2.json").read_bytes() == Path("two/F2.json").read_bytes()


def test_descriptors_of_a_folder_are_read_or_refused(tmp_path: Path) -> None:
    place = tmp_path / "sift" / "sift.npz"
    place.parent.mkdir()
    assert Sources(None).descriptors() is None
    assert Sources(tmp_path).descriptors() is None
    place.write_bytes(b"not an archive")
    with pytest.raises(UserError, match="holds no arrays 'base' and 'query'"):
        Sources(tmp_path).descriptors()
    np.savez(place, base=np.zeros((3, 128), np.uint8), query=np.zeros((2, 12), np.uint8))
    with pytest.raises(UserError, match=r"query \(2, 12\); give \(n, 128\) each"):
        Sources(tmp_path).descriptors()
    np.savez(place, base=np.ones((3, 128), np.uint8), query=np.ones((2, 128), np.uint8))
    sources = Sources(tmp_path)
    base, queries = sources.descriptors() or (None, None)
    assert base is not None
    assert queries is not None
    assert (base.shape, queries.shape, base.dtype) == ((3, 128), (2, 128), np.float32)
    assert sources.used == ["sift, 3 descriptors"]


def test_without_a_name_every_figure_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{figure.id} " in shown for figure in FIGURES)
    assert "compute one with murmurec reproduce F3" in shown
    assert "--data DIR" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["F99"], 2, "'F99' is no paper and no figure: give some of"),
        (["F1", "--data", "nowhere"], 1, "--data nowhere: there is no such folder"),
        (["F1", "--data", "."], 1, "holds no ml-100k; looked for ml-100k/u.data"),
        (["F1", "--seed", "-1"], 2, "--seed -1: give 0 or more"),
        (["F1", "-o", "file/x"], 1, "--output file/x: cannot be created"),
    ],
)
def test_a_mistake_is_one_sentence(
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    sentence: str,
) -> None:
    environment()
    Path("file").write_text("")
    assert run(["reproduce", *arguments]) == code
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert "Traceback" not in shown.err


def test_a_paper_is_named_by_its_key_or_by_author_and_year() -> None:
    assert chosen(["S001"]) == chosen(["zheng-2016"]) == chosen(["s001", "F1"])
    assert [figure.id for figure in chosen(["C1", "F1", "f1"])] == ["F1", "C1"]
    with pytest.raises(UsageError):
        chosen(["S009"])


def test_every_figure_is_of_a_listed_paper_and_has_an_id_of_its_own() -> None:
    assert {figure.paper for figure in FIGURES} <= {paper.key for paper in PAPERS}
    assert len({figure.id for figure in FIGURES}) == len(FIGURES)


def test_every_module_of_the_table_of_papers_exists(capsys: pytest.CaptureFixture[str]) -> None:
    for paper in PAPERS:
        for system in paper.systems:
            assert (ROOT / system.module).exists(), system
    assert run(["reproduce", "--papers"]) == 0
    shown = capsys.readouterr().out
    assert all(system.name in shown for paper in PAPERS for system in paper.systems)
    assert run(["reproduce", "--papers", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(PAPERS)
