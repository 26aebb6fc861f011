"""The committed pictures are those of the code and of the dashboards, and each is in a document."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
from PIL import Image

from stream_app.privacy import registry
from stream_app.settings import Settings
from tests.pictures import boards, choice, life, views
from tests.pictures.boards import FOLDER, MOST_BYTES, PREVIEWS, ROOT, SCHEMES, STAMP, Preview
from tests.pictures.drawings import DRAWINGS
from tests.pictures.series import Curve, Filled, digest
from tests.pictures.svg import Drawing

EVERY_PREVIEW = [(preview, scheme) for preview in PREVIEWS for scheme in SCHEMES]


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.name)
def test_a_drawing_is_the_one_that_the_code_draws(path: Path) -> None:
    assert path.read_bytes() == DRAWINGS[path]().svg().encode(), (
        "run `python -m tests.pictures --drawings`"
    )


@pytest.mark.parametrize(("preview", "scheme"), EVERY_PREVIEW)
def test_a_preview_is_of_the_board_as_it_is_now(preview: Preview, scheme: str) -> None:
    with Image.open(preview.path(scheme)) as picture:
        picture.load()
        stamp = picture.info[STAMP]
    assert stamp == digest(preview.panels), "the board has changed: run `python -m tests.pictures`"


def test_a_stamp_depends_on_what_is_shown_and_not_on_where_it_is() -> None:
    panels = PREVIEWS[0].panels
    moved, other = copy.deepcopy(panels), copy.deepcopy(panels)
    for panel in moved:
        panel["id"] += 7
        panel["gridPos"]["y"] += 40
    other[1]["targets"][0]["expr"] += " * 2"
    assert digest(moved) == digest(panels) != digest(other)


def test_every_picture_is_small_and_in_a_document_with_what_it_says() -> None:
    known = {*DRAWINGS, *(preview.path(scheme) for preview, scheme in EVERY_PREVIEW)}
    assert {*FOLDER.iterdir()} == known
    assert all(path.stat().st_size <= MOST_BYTES for path in known)
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert {*re.findall(r"pictures/([a-z-]+\.[a-z]+)", pages)} == {path.name for path in known}
    said = re.findall(r"!\[([^\]]*)\]\(pictures/", pages) + re.findall(r'alt="([^"]*)"', pages)
    assert len(said) == len(DRAWINGS) + len(PREVIEWS)
    assert all(len(text.split()) >= 8 for text in said)


def test_the_figures_of_the_drawings_are_those_of_the_code() -> None:
    steps = {step.name: step for own in life.STEPS.values() for step in own}
    kept = registry.parse("rr:5:2").likelihood(None)[0, 0]
    assert f"rr:5:2 keeps {100 * kept:.0f} of 100" in steps["randomize"].happens
    seconds = f"{Settings().cut_seconds:g}".removeprefix("0")
    assert f"a round of {seconds} s" in steps["cut"].happens
    assert Settings().mechanisms == ("rr:5:2",)
    assert choice._ANSWERS[0][0] == "rr:5:2, the default"
    assert all(len(mode.cells) == len(views.PARTIES) for mode in views.MODES)


def test_a_text_that_is_too_wide_or_too_high_is_refused() -> None:
    sheet = Drawing(100, 100, "a drawing")
    with pytest.raises(ValueError, match="'a long line' is 68 wide, and 60 at most"):
        sheet.text(0, 10, "a long line", 60)
    with pytest.raises(ValueError, match="'head' is 49 high, and 32 at most"):
        sheet.block(0, 0, 100, 40, "head", "one\ntwo")


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_panel_of_a_preview_can_be_drawn(scheme: str) -> None:
    """Curves of every kind, and panels without any."""
    preview = PREVIEWS[0]
    seconds, values = tuple(map(float, range(60))), tuple(n / 60 for n in range(60))
    made = [
        Filled(
            panel,
            tuple(
                Curve(target["legendFormat"], seconds, values)
                for target in panel.get("targets", ())
                if number % 3
            ),
        )
        for number, panel in enumerate(preview.panels)
    ]
    assert boards.draw(preview, made, scheme).startswith(b"\x89PNG")
