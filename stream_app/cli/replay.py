"""`murmurec replay`: a file of ratings as a population of devices, sanitized here and sent."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    settings_from,
)
from stream_app.cli.protection import (
    PUBLIC,
    AgainOption,
    EpsilonOption,
    MechanismOption,
    ScaleOption,
    StoreOption,
    allowed,
    mechanism_from,
    protected,
    publisher_for,
    scale_from,
    spent,
    store_path,
    warnings,
)
from stream_app.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from producers.replay import Progress


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="ml-1m.zip, ratings.dat, u.data, ratings.csv, or a .csv or .npz."
        ),
    ],
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    speed: Annotated[
        str, typer.Option("--speed", metavar="N", help="Ratings per second, or max.")
    ] = "max",
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most N rows in this run.")
    ] = None,
    scale: ScaleOption = None,
    store: StoreOption = None,
    again: AgainOption = False,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of ratings, in time order: murmurec replay ml-1m.zip --speed 20000

    An interrupted replay goes on where it was; a finished one is not published twice.
    """
    from producers.datasets import load
    from producers.replay import populate
    from producers.replay import replay as run
    from producers.store import Store
    from stream_app import wire
    from stream_app.privacy.randomness import SystemSource

    settings = settings_from(config, bootstrap, prefix, kafka)
    pace = _speed(speed)
    dataset = load(file, scale_from(scale))
    chosen = allowed(mechanism_from(mechanism, epsilon, dataset.scale), settings)
    line = publisher_for(settings)
    began = time.monotonic()
    last: Progress | None = None
    with Store.open(store_path(settings, store)) as kept:
        population = populate(dataset, kept.key)
        _say(f"{dataset.name}: {len(dataset)} ratings on {dataset.scale}")
        _say(f"protected  {protected(chosen)}")
        _say(f"public     {PUBLIC}")
        _say(f"in sum     {spent(chosen, population.most)}")
        for sentence in warnings(chosen, population.most):
            _say(f"warning: {sentence}")
        try:
            steps = run(
                population,
                mechanism=chosen,
                store=kept,
                source=SystemSource(),
                send=line.send,
                epoch=int(time.time()) // wire.EPOCH_SECONDS,
                speed=pace,
                limit=limit,
                again=again,
            )
        except ValueError as error:
            raise Refusal(str(error)) from None
        try:
            with line:
                for progress in _shown(steps):
                    last = progress
        except KeyboardInterrupt:
            _say(
                f"stopped after {last.rows if last else 0} rows; the same command goes on from here"
            )
            raise
    seconds = time.monotonic() - began
    if last is None:
        raise Refusal(f"{file}: there was nothing to publish")
    _result(last, line.accepted, line.failed, seconds, chosen.id, as_json)
    if line.failed:
        raise Refusal(
            f"{line.failed} of {line.sent} events were not accepted: {line.first_error}; their "
            "ratings count as spent and are not sent again without --again"
        )


def _result(
    last: Progress, accepted: int, failed: int, seconds: float, mechanism: str, as_json: bool
) -> None:
    if as_json:
        row = {
            "rows": last.rows,
            "published": last.published,
            "refused": last.refused,
            "published_before": last.before,
            "skipped": last.skipped,
            "events_accepted": accepted,
            "events_failed": failed,
            "seconds": round(seconds, 3),
            "mechanism": mechanism,
        }
        typer.echo(json.dumps(row))
        return
    if last.skipped:
        typer.echo(f"went on after {last.skipped} rows of an earlier run")
    if last.before:
        typer.echo(
            f"{last.before} of the refused were published before: --again publishes all rows anew "
            "and spends their epsilon again"
        )
    typer.echo(f"{accepted} events accepted, {failed} failed, in {seconds:.1f} s under {mechanism}")
    typer.echo(f"rows {last.rows} = published {last.published} + refused {last.refused}")


def _shown(steps: Iterator[Progress]) -> Iterator[Progress]:
    """Pass the progress on, with a bar on a terminal and nothing elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("published"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("published", total=None)
        for step in steps:
            bar.update(task, completed=step.rows, total=step.total)
            yield step


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise Refusal(f"--speed {text[:40]}: give ratings per second above 0, or max")
    return speed
