"""`murmurec evaluate`: a file of ratings sanitized and learned here, and how well that predicts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import writable
from stream_app.cli.protection import (
    EpsilonOption,
    MechanismOption,
    ScaleOption,
    mechanism_from,
    scale_from,
)
from stream_app.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from stream_app.evaluation import Result

_CELL_BYTES = 4


def evaluate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="ml-1m.zip, ratings.dat, u.data, ratings.csv, or a .csv or .npz."
        ),
    ],
    protocol: Annotated[
        str,
        typer.Option(
            help="prequential (time order, test then learn) or one-pass (random 80/10/10 split)."
        ),
    ] = "prequential",
    model: Annotated[str, typer.Option(help="sketch, literal, hashing or dense.")] = "sketch",
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Also write the result here.")
    ] = None,
    factors: Annotated[int, typer.Option(help="Components of a vector.")] = 32,
    depth: Annotated[int, typer.Option(help="Rows of the sketch.")] = 4,
    scale: ScaleOption = None,
    seed: Annotated[int, typer.Option(help="Of the noise, the split and the hashes.")] = 0,
) -> None:
    """Measure a model on a file of ratings: murmurec evaluate ml-1m.zip --model dense --epsilon 2

    The noise comes from a seed so that a figure can be repeated; nothing is published. A sketch
    gets as many cells as a dense table of these users and items would have (gamma = 1).
    """
    import numpy as np

    from producers.datasets import load
    from stream_app import evaluation
    from stream_app.models.channels import Channels
    from stream_app.models.learner import build
    from stream_app.privacy.randomness import SeededSource

    if protocol not in evaluation.PROTOCOLS:
        raise Refusal(f"--protocol {protocol}: choose {' or '.join(evaluation.PROTOCOLS)}")
    if not 0 <= seed < 2**63:
        raise Refusal(f"--seed {seed}: give a number from 0 to 2^63-1")
    if json_file:
        writable(json_file)
    dataset = load(file, scale_from(scale)).in_time_order()
    chosen = mechanism_from(mechanism, epsilon, dataset.scale)
    users, items = _keys(dataset.users), _keys(dataset.items)
    entities = len(np.unique(users)) + len(np.unique(items))
    values = dataset.scale.values
    try:
        learner = build(
            model,
            Channels.of([chosen]),
            factors=factors,
            depth=depth,
            sketch_bytes=entities * factors * _CELL_BYTES,
            scalars_bytes=max(64, 64 * entities),
            seed=seed,
        )
        with _Bar(len(dataset)) as advance:
            result = evaluation.evaluate(
                users,
                items,
                chosen.release(dataset.levels, SeededSource(seed)),
                evaluation.Truth(dataset.ratings, float(values[0]), float(values[-1])),
                learner,
                protocol=protocol,
                mechanism=chosen.id,
                epsilon=None if chosen.epsilon is None else float(chosen.epsilon),
                seed=seed,
                progress=advance,
            )
    except ValueError as error:
        raise Refusal(str(error)) from None
    _show(result, str(dataset.scale))
    if json_file:
        try:
            json_file.write_text(json.dumps(asdict(result), indent=1) + "\n")
        except OSError as error:
            raise Refusal(f"{json_file}: cannot be written ({error.strerror})") from None


def _keys(ids: NDArray[np.int64] | NDArray[np.str_]) -> NDArray[np.uint64]:
    """Return the 64-bit keys of ids as people write them."""
    import numpy as np

    from stream_app import wire

    names, rows = np.unique(ids, return_inverse=True)
    if names.dtype.kind in "iu" and names[0] < 0:
        raise Refusal(f"id {names[0]}: ids are numbers from 0 up, or text")
    return np.array([wire.key(name) for name in names.tolist()], np.uint64)[rows]


class _Bar:
    """A progress bar on a terminal, nothing elsewhere; entering gives the function that moves it
    on.
    """

    def __init__(self, events: int) -> None:
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self._bar = Progress(console=console, disable=not console.is_terminal, transient=True)
        self._events = events

    def __enter__(self) -> Callable[[int], None]:
        self._bar.start()
        task = self._bar.add_task("learning", total=self._events)
        return lambda events: self._bar.advance(task, events)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _show(result: Result, scale: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "", title=f"{result.model}, {result.protocol}, {result.mechanism}")
    table.add_row("ratings tested", f"{result.events:,}")
    table.add_row(f"RMSE ({scale})", f"{result.rmse:.4f}")
    table.add_row("MAE", f"{result.mae:.4f}")
    table.add_row("RMSE of the items' true means", f"{result.rmse_baseline:.4f}")
    table.add_row("learned per CPU second", f"{result.events_per_second:,.0f}")
    Console().print(table)
