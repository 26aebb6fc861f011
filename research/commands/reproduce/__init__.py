"""`murmurec reproduce`: compute figures of the papers again, beside what the papers print.

figures   every figure that can be computed, by id
sources   the data they need, found in a folder or generated
report    one figure as tables and as a picture
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import writable
from stream_app.cli.output import notice, progress, say
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from research.commands.reproduce.figures import Reproducible
    from research.commands.reproduce.sources import Sources


def reproduce(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHAT]...",
            help="Papers (S001, zheng-2016) or figures (F3); none lists them all.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="A folder with the data sets, each in a folder of its name, such as "
            "ml-100k/u.data (env MURMUREC_DATA). Without it ratings are generated.",
            envvar="MURMUREC_DATA",
            show_envvar=False,
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Write ID.png and ID.json here.")
    ] = Path("reproduced"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer points and draws; for a first look.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of all draws.")] = 0,
    papers: Annotated[
        bool,
        typer.Option(
            "--papers", help="What is implemented of each paper, where, and which claim fails."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --papers: print JSON.")] = False,
) -> None:
    """Compute figures of the papers again, beside what the papers print.

    Each figure gives a table, a picture and its numbers as JSON, and says what is not reproduced
    and why. The noise comes from a seed, so that a figure can be repeated; nothing is published.

    Example: murmurec reproduce S003 --data datasets
    """
    from importlib.util import find_spec

    from research.commands.reproduce.figures import FIGURES, chosen
    from research.commands.reproduce.report import list_papers, listed
    from research.commands.reproduce.sources import Sources

    if papers:
        list_papers(as_json)
        return
    if not what:
        listed(FIGURES)
        return
    if seed < 0:
        raise UsageError(f"--seed {seed}: give 0 or more")
    asked = chosen(what)
    if find_spec("matplotlib") is None:
        raise UserError("reproduce needs matplotlib: pip install matplotlib")
    sources = Sources(data, seed, quick=quick)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--output {output}: cannot be created ({error.strerror}); choose another place"
        ) from None
    for figure in asked:
        for ending in ("png", "json"):
            writable(output / f"{figure.id}.{ending}")
    notice(f"figures are written to {output.resolve()} (--output)")
    for figure in asked:
        _one(figure, sources, output)


def _one(asked: Reproducible, sources: Sources, output: Path) -> None:
    """Compute, print and write one figure."""
    from research.commands.reproduce.report import draw, show

    used, sources.generated = sources.used, False
    used.clear()
    try:
        with progress(asked.id) as advance:
            found = asked.run(sources, advance)
    except ValueError as error:
        raise UserError(f"{asked.id}: {error}") from None
    show(found, used)
    picture, numbers = (output / f"{asked.id}.{ending}" for ending in ("png", "json"))
    written = asdict(found) | {"data": used, "seed": sources.seed, "quick": sources.quick}
    try:
        numbers.write_text(json.dumps(written, indent=1) + "\n")
        draw(found, used, picture)
    except OSError as error:
        raise UserError(
            f"{error.filename or output}: cannot be written ({error.strerror})"
        ) from None
    if sources.generated:
        notice(
            f"{asked.id}: computed from generated ratings; give the data of the paper with --data"
        )
    say(f"written to {picture}, {numbers}\n")
