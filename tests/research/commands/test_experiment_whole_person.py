"""`experiment --preset whole-person`: points that hold their claims, a picture, refusals."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmurec.campaigns import ListOptions, campaign_lists
from murmurec.ratings import columns_of
from producers.datasets.load import load
from producers.datasets.synthetic import generate
from research.commands.experiment.whole_person.figure import draw
from research.commands.experiment.whole_person.points import person_epsilon
from stream_app.cli import run
from stream_app.evaluation import split
from stream_app.privacy.accounting.budget_plans import fits

pytestmark = pytest.mark.nightly

SCALE = ["--scale", "1", "5", "1"]
NAME = "whole-person"
QUICK = ["--preset", "whole-person-quick"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with made-up ratings, and genres and years of the items."""
    dataset = generate(5, users=120, items=30, ratings=1800).dataset
    found = tmp_path_factory.mktemp("data")
    rows = zip(*(getattr(dataset, name).tolist() for name in ("users", "items", "ratings")),
        range(len(dataset)), strict=True,
    )  # fmt: skip
    lines = [f"{user},{item},{stars:g},{when}" for user, item, stars, when in rows]
    (found / "made-up.csv").write_text("\n".join(["user,item,rating,timestamp", *lines]) + "\n")
    return found


@pytest.fixture(scope="module")
def drawn(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """Run the command once; give its numbers, and its pictures."""
    out = folder / "out"
    options = [*QUICK, "--scope", "20", "--factors", "4", "--seed", "3"]
    assert run(["experiment", str(folder / "made-up.csv"), *options, *SCALE, "-o", str(out)]) == 0
    pictures = [out / f"{NAME}.png", out / f"{NAME}.svg"]
    return json.loads((out / f"{NAME}.json").read_text()), pictures


def points(found: dict[str, Any], panel: str, family: str, variant: str = "") -> list[Any]:
    wanted = panel, family, variant
    return [
        row for row in found["points"] if (row["panel"], row["family"], row["variant"]) == wanted
    ]


@pytest.mark.thorough
def test_every_point_of_a_budget_is_a_plan_that_it_holds(
    drawn: tuple[dict[str, Any], list[Path]],
) -> None:
    for family in ("rr", "partition"):
        rows = points(drawn[0], "errors", family)
        assert [row["person_epsilon"] for row in rows] == [4, 32, 256]
        for row in rows:
            id, _, count = row["spent"].partition("*")
            budget = Fraction(row["person_epsilon"])
            assert id.startswith(f"{family}:5:")
            assert fits(((id, int(count)),), budget, Fraction(1, 10**6))
        assert rows[-1]["value"] < rows[0]["value"]


@pytest.mark.thorough
def test_cells_cost_what_all_of_them_compose_to(drawn: tuple[dict[str, Any], list[Path]]) -> None:
    for panel, family in (("errors", "cell"), ("lists", "cell"), ("lists", "like")):
        rows = points(drawn[0], panel, family)
        assert [row["spent"] for row in rows] == [f"{family}:5:1/4*20", f"{family}:5:1*20"]
        for row in rows:
            id, _, count = row["spent"].partition("*")
            assert row["person_epsilon"] == person_epsilon(id, int(count))
            assert row["person_epsilon"] < int(count) * float(Fraction(id.split(":")[2]))


@pytest.mark.thorough
def test_every_rating_that_rr_reports_is_paid_for(
    folder: Path, drawn: tuple[dict[str, Any], list[Path]]
) -> None:
    for row in points(drawn[0], "lists", "rr"):
        id, _, count = row["spent"].partition("*")
        # A fifth of each person's ratings is held out: of 15, 12 are reported.
        assert 10 <= int(count) <= 13
        assert row["person_epsilon"] == person_epsilon(id, int(count))


@pytest.mark.thorough
def test_campaigns_are_those_of_the_evaluation(
    folder: Path, drawn: tuple[dict[str, Any], list[Path]]
) -> None:
    data = columns_of(load(folder / "made-up.csv"), None)
    (ndcg,) = (
        row.ndcg
        for row in campaign_lists(data, "central", Fraction(4), ListOptions(scope=20), seed=3).rows
        if (row.method, row.history) == ("together", "clean")
    )
    assert points(drawn[0], "lists", "campaign", "central")[1]["value"] == pytest.approx(ndcg)


def test_what_to_compare_with_is_of_the_same_test_ratings(
    folder: Path, drawn: tuple[dict[str, Any], list[Path]]
) -> None:
    data = columns_of(load(folder / "made-up.csv"), None)
    learned, _, tested = split(len(data), 3)
    references = drawn[0]["references"]
    assert references["no privacy"] < references["nothing sent"]
    spread = float(np.std(data.ratings[tested] - data.ratings[learned].mean()))
    assert references["nothing sent"] < 1.1 * spread
    assert 0 < references["popular"] < 1
    assert 0 < references["EASE"] < 1


def test_points_that_are_kept_are_not_measured_again(
    folder: Path, drawn: tuple[dict[str, Any], list[Path]]
) -> None:
    rows = folder / "out" / "rows.jsonl"
    before = rows.read_bytes()
    lines = before.splitlines(keepends=True)
    rows.write_bytes(b"".join(lines[:-2]) + lines[-2][:30])
    options = [*QUICK, "--scope", "20", "--factors", "4", "--seed", "3", *SCALE]
    file = str(folder / "made-up.csv")
    assert run(["experiment", file, *options, "-o", str(folder / "out")]) == 0
    assert rows.read_bytes() == before


def test_the_picture_names_every_line_and_is_the_same_every_time(
    drawn: tuple[dict[str, Any], list[Path]], tmp_path: Path
) -> None:
    found, (png, svg) = drawn
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    text = " ".join("".join(each.itertext()) for each in ElementTree.parse(svg).iter())
    for name in ("noisy sums", "split", "partition", "rr", "cell", "like"):
        assert name in text
    assert "epsilon of the whole person, delta 1e-6" in text
    assert f"{found['people']} people, {found['ratings']:,} ratings" in text
    draw(found, [tmp_path / "again.svg"])
    assert (tmp_path / "again.svg").read_bytes() == svg.read_bytes()


def test_the_committed_picture_is_that_of_the_committed_numbers(tmp_path: Path) -> None:
    place = Path(__file__).parents[2] / "benchmarks" / "whole-person"
    found = json.loads(place.with_suffix(".json").read_text())
    draw(found, [tmp_path / "drawn.svg"])

    def texts(file: Path) -> list[str]:
        return ["".join(each.itertext()).strip() for each in ElementTree.parse(file).iter()]

    assert texts(tmp_path / "drawn.svg") == texts(place.with_suffix(".svg"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--seeds", "0"], "--seeds 0: give 1 to 30"),
        (["--scope", "310"], "--scope 310: give 2 to 309"),
        (["--mechanisms", "rr:5:1"], "--mechanisms: --preset whole-person-quick has its own"),
        (["--models", "forest"], "--models forest: choose one of"),
        (["--factors", "0"], "--factors 0: give 1 to 256"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(
    arguments: list[str],
    sentence: str,
    environment: Callable[..., None],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment()
    assert run(["experiment", str(folder / "made-up.csv"), *QUICK, *arguments]) in (1, 2)
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err
    assert not list(Path().iterdir())


def test_ratings_that_nothing_can_be_ranked_from_are_a_sentence(
    environment: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment()
    file = tmp_path / "few.csv"
    file.write_text("user,item,rating\n" + "".join(f"{n},{n},{1 + n % 5}\n" for n in range(20)))
    assert run(["experiment", str(file), *QUICK]) == 1
    assert "no user has learned ratings and, held out, a liked item" in capsys.readouterr().err
