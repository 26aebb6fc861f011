"""The drawings by the file that each is committed as."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.pictures import choice, life, views
from tests.pictures.boards import FOLDER
from tests.pictures.svg import Drawing

DRAWINGS: dict[Path, Callable[[], Drawing]] = {
    FOLDER / "life-of-a-rating.svg": life.drawing,
    FOLDER / "what-each-party-sees.svg": views.drawing,
    FOLDER / "choice-of-a-mode.svg": choice.drawing,
}
