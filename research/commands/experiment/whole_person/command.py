"""From the options of the command to its tables and files."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from producers.datasets.load import load
from producers.scale import Scale
from research.commands.experiment import grid
from research.commands.experiment.rows import Rows
from research.commands.experiment.whole_person.figure import draw
from research.commands.experiment.whole_person.measure import measure
from research.commands.experiment.whole_person.points import QUICK, Grid, WholePersonOptions
from stream_app.cli import output
from stream_app.errors import UsageError, UserError
from stream_app.evaluation.campaigns.campaign_lists import LARGEST_SCOPE, SCOPE
from stream_app.models.baselines.learners import LEARNERS

_FEW_FACTORS = 8
_TITLES = {
    "errors": "RMSE of predicted ratings ({scale}) by the epsilon of a whole person",
    "lists": "nDCG@10 of lists by the epsilon of a whole person",
}
_PANEL_OF = {"popular": "lists", "EASE": "lists"}


def asked(
    quick: bool, model: str, factors: int | None, scope: int | None, seed: int, splits: int | None
) -> WholePersonOptions:
    """Return the parameters; UsageError for one out of range."""
    factors = _FEW_FACTORS if factors is None else factors
    scope = SCOPE if scope is None else scope
    splits = 1 if splits is None else splits
    if model not in LEARNERS:
        raise UsageError(f"--models {model[:40]}: choose one of {', '.join(LEARNERS)}")
    with output.refusing(UsageError, "--{}".format):
        grid.Grid((model,), (grid.NONE,), (), splits, seed, factors)
    if not 2 <= scope <= LARGEST_SCOPE:
        raise UsageError(
            f"--scope {scope}: give 2 to {LARGEST_SCOPE}, the most that a contribution holds"
        )
    return WholePersonOptions(QUICK if quick else Grid(), model, factors, scope, seed, splits)


def run(file: Path, scale: Scale | None, options: WholePersonOptions, out: Path) -> None:
    """Measure a file, print tables, and write numbers (.json) and pictures into a folder."""
    ratings = load(file, scale)
    if ratings.scale_warning:
        output.notice(f"warning: {ratings.scale_warning}")
    places = [out / f"whole-person.{ending}" for ending in ("json", "png", "svg")]
    progress, refusing = output.progress("points"), output.refusing(UserError)
    with closing(Rows(out, ratings)) as kept, refusing, progress as advance:
        output.notice(f"points, numbers and pictures are written to {out.resolve()} (--out)")
        found = measure(ratings, options, kept, advance)
    _show(found)
    _write(found, places)
    output.say(f"written to {', '.join(map(str, places))}")


def _show(found: dict[str, Any]) -> None:
    """Print a table for each panel, and the figures to compare with."""
    for panel, title in _TITLES.items():
        rows = [row for row in found["points"] if row["panel"] == panel]
        output.table(
            ("mechanism", "epsilon", "measured", "spent on"),
            [
                (
                    f"{row['family']}{', ' if row['variant'] else ''}{row['variant']}",
                    f"{row['person_epsilon']:.3g}",
                    f"{row['value']:.3f}" + (f" ± {row['half']:.3f}" if row["half"] else ""),
                    row["spent"],
                )
                for row in rows
            ],
            title=title.format(scale=found["scale"]),
        )
        for name, value in found["references"].items():
            if _PANEL_OF.get(name, "errors") == panel:
                output.say(f"{name}: {value:.3f}")
    output.say(
        f"epsilon at delta {found['delta']:g}, all reports of a person composed exactly; rr and "
        "partition leave public which items were rated"
    )


def _write(found: dict[str, Any], places: list[Path]) -> None:
    numbers, *pictures = places
    try:
        numbers.write_text(json.dumps(found, indent=1) + "\n")
        draw(found, pictures)
    except OSError as error:
        raise UserError(f"{numbers}: cannot be written ({error.strerror})") from None
