"""`murmurec experiment`: a grid of models, mechanisms, splits and seeds, with intervals.

grid           what can be asked, and the cells of it
cells          one cell measured
rows           all of them, kept in a folder, from which a killed run goes on
summary        means with intervals, as a table and as CSV
figure         quality against epsilon, and learning curves
whole_person   the preset of that name: by the epsilon of a whole person
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.cli.commands import option
from stream_app.cli.device.mechanism_options import RatingsArgument, ScaleOption, scale_from
from stream_app.cli.output import notice, plural, progress, refusing, say, table
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from producers.datasets.load import Dataset
    from research.commands.experiment.grid import Grid
    from stream_app.evaluation.results import ExperimentRow

PRESETS = ("tradeoff", "whole-person", "whole-person-quick")


def experiment(
    file: RatingsArgument,
    preset: str | None = option(
        None,
        "tradeoff (every mechanism, dense), whole-person (by the epsilon of everything that a "
        "person sends; whole-person-quick: fewer points).",
        "NAME",
    ),
    models: str | None = option(
        None, "hybrid, sketch, dense, slope-one, ...; item-means, popular, EASE.", "NAME,..."
    ),
    mechanisms: str | None = option(
        None, "none, ids such as rr:5:2; for lists central:2, split:2.", "ID,..."
    ),
    splits: str | None = option(
        None, "Of lists: global, visit, user-time; or none: predicted ratings alone.", "NAME,..."
    ),
    seeds: int | None = option(None, "Seeds, for intervals (3; whole-person 1).", "N"),
    seed: int = option(0, "The first seed of noise, hashes and splits.", "N"),
    factors: int | None = option(None, "Factors per vector (32; whole-person 8).", "N"),
    scope: int | None = option(
        None, "Size of the public scope where presence is protected (300).", "N"
    ),
    scale: ScaleOption = None,
    out: Path = option(
        Path("experiment"),
        "Folder of rows, table.csv and pictures; goes on there.",
        "FOLDER",
        "--out",
        "-o",
    ),
) -> None:
    """Measure a grid: one table with mean and interval, CSV and pictures.

    Lists are measured by nDCG@10, made as a device makes them, of its clean ratings and what the
    server has learned; predicted ratings by RMSE, prequentially. Each row is kept as it is
    finished: the same command goes on after a stop. Nothing is published.

    Example: murmurec experiment ml-1m.zip --models hybrid,EASE --mechanisms none,rr:5:2 --seeds 3
    """
    from producers.datasets.load import load

    if find_spec("matplotlib") is None:
        raise UserError("experiment needs matplotlib: pip install matplotlib")
    if preset not in (None, *PRESETS):
        raise UsageError(f"--preset {preset[:40]}: choose one of {', '.join(PRESETS)}")
    if preset and preset != "tradeoff":
        from research.commands.experiment import whole_person

        for name, given in {"mechanisms": mechanisms, "splits": splits}.items():
            if given is not None:
                raise UsageError(f"--{name}: --preset {preset} has its own; leave it out")
        quick = preset != "whole-person"
        asked = whole_person.asked(quick, models or "dense", factors, scope, seed, seeds)
        with _going_on(out):
            whole_person.run(file, scale_from(scale), asked, out)
        return
    ratings = load(file, scale_from(scale))
    for warning in ratings.warnings:
        notice(f"warning: {warning}")
    grid = _grid(ratings, preset, (models, mechanisms, splits), (seeds, seed, factors, scope))
    _run(ratings, grid, out)


def _grid(
    data: Dataset,
    preset: str | None,
    lists: tuple[str | None, ...],
    numbers: tuple[int | None, int, int | None, int | None],
) -> Grid:
    from research.commands.experiment.grid import Grid, usual

    chosen = list(map(tuple, usual(data, preset).values()))
    for place, text in enumerate(lists):
        if text is not None:
            chosen[place] = tuple(filter(None, map(str.strip, text.split(","))))
    models, mechanisms, splits = chosen
    seeds, seed, factors, scope = numbers
    with refusing(UsageError, "--{}".format):
        return Grid(
            models, mechanisms, () if splits == ("none",) else splits,
            3 if seeds is None else seeds, seed, 32 if factors is None else factors, scope,
        )  # fmt: skip


def _run(data: Dataset, grid: Grid, out: Path) -> None:
    from research.commands.experiment.rows import rows

    done: list[ExperimentRow] = []
    with _going_on(out), progress("experiment") as advance:
        with refusing(UsageError, "--{}".format):
            measured = rows(data, grid, out, advance)
        notice(f"rows, table and pictures are written to {out.resolve()} (--out)")
        with refusing(UserError):
            done.extend(measured)
    _show(data, grid, done, out)


@contextmanager
def _going_on(out: Path) -> Iterator[None]:
    """Say after an interrupt how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        notice(f"stopped; finished rows are in {out}, and the same command goes on from them")
        raise


def _show(data: Dataset, grid: Grid, done: list[ExperimentRow], out: Path) -> None:
    from research.commands.experiment import figure, summary

    groups = summary.groups_of(done)
    head, lines = summary.table_of(groups)
    title = f"{data.name}: {len(data):,} ratings on {data.scale}, {plural(grid.seeds, 'seed')}"
    table(head, lines, title=title)
    say(summary.PROTECTS)
    if grid.seeds > 1:
        say(summary.COVERS)
    try:
        summary.write_csv(groups, out / "table.csv")
        figure.draw_quality(groups, title, out / "quality.png")
        curves = figure.draw_learning(groups, title, out / "learning.png")
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be written ({error.strerror})") from None
    names = ["rows.jsonl", "table.csv", "quality.png", *(["learning.png"] if curves else [])]
    say(f"written to {out}: {', '.join(names)}")
