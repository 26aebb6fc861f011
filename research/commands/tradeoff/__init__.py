"""`murmurec tradeoff`: draw error, fake ratings and noise of profiles against epsilon.

measure, figure    by the epsilon of a report
whole_person       by the epsilon of a whole person
"""

from __future__ import annotations

import json
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_app.cli.device.mechanism_options import RatingsArgument, ScaleOption, scale_from
from stream_app.cli.options import writable
from stream_app.cli.output import notice, progress, say, table
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from producers.datasets.load import Dataset
    from research.commands.tradeoff.measure import TradeoffOptions


def tradeoff(
    file: RatingsArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="NAME",
            help="Writes NAME.png and NAME.json; with --user-level NAME.svg, too.",
        ),
    ] = Path("tradeoff"),
    user_level: Annotated[
        bool,
        typer.Option(
            "--user-level",
            help="Draw errors and lists against what a whole person has spent, campaigns included.",
        ),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="With --user-level: fewer points.")
    ] = False,
    splits: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --user-level: splits and draws, averaged (1)."),
    ] = None,
    epsilons: Annotated[
        str | None,
        typer.Option(
            "--epsilons",
            metavar="E,E,...",
            help="Epsilons per report (default 1/2,1,2,3,4,6,8).",
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="sketch, literal, hashing or dense.")] = "dense",
    factors: Annotated[
        int | None,
        typer.Option(help="Factors per vector (default 32; with --user-level 8)."),
    ] = None,
    scope: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Size of the public scope where presence is protected: the N most rated items.",
        ),
    ] = 300,
    scale: ScaleOption = None,
    seed: Annotated[int, typer.Option(help="Seed of noise, split and hashes.")] = 0,
) -> None:
    """Draw the error of every mechanism against epsilon.

    Every mechanism is learned in one pass through its exact channel and tested on true ratings that
    were held out; likes on the true bits of the cells. A large file takes a few minutes.

    --user-level composes all that a person reports, exactly, at delta 1e-6; devices fold in their
    own clean ratings. Genres and years are used where files beside FILE have them.

    Example: murmurec tradeoff ml-1m.zip --output ml-1m
    """
    if find_spec("matplotlib") is None:
        raise UserError("tradeoff needs matplotlib: pip install 'murmurec[research]'")
    from producers.datasets.load import load
    from research.commands.tradeoff.figure import draw

    if not output.name:
        raise UsageError(f"--output {output}: give a name, such as figures/tradeoff")
    named = [output.with_name(f"{output.name}.{ending}") for ending in ("json", "png", "svg")]
    if user_level:
        if epsilons is not None:
            raise UsageError("--epsilons: --user-level has its own; leave one of them out")
        from research.commands.tradeoff import whole_person

        asked = whole_person.asked(quick, model, factors, scope, seed, splits)
        whole_person.run(file, scale_from(scale), asked, named)
        return
    if quick or splits is not None:
        raise UsageError(f"--{'quick' if quick else 'splits'}: add --user-level")
    numbers, picture = named[:2]
    options = _options(
        "1/2,1,2,3,4,6,8" if epsilons is None else epsilons,
        model,
        32 if factors is None else factors,
        scope,
        seed,
    )
    for place in (picture, numbers):
        writable(place)
    ratings = load(file, scale_from(scale))
    for warning in ratings.warnings:
        notice(f"warning: {warning}")
    found = _measured(ratings, options)
    try:
        numbers.write_text(json.dumps(found, indent=1) + "\n")
        draw(found, picture)
    except OSError as error:
        raise UserError(f"{output}: cannot be written ({error.strerror})") from None
    _show(found)
    say(f"written to {picture} and {numbers}")


def _options(epsilons: str, model: str, factors: int, scope: int, seed: int) -> TradeoffOptions:
    from research.commands.tradeoff.measure import TradeoffOptions, check_sizes
    from stream_app.privacy import registry

    texts = [text.strip() for text in epsilons.split(",") if text.strip()]
    try:
        # The registry parses and bounds every epsilon.
        found = [registry.mechanism("rr", 2, text).epsilon for text in texts]
    except ValueError as error:
        raise UsageError(f"--epsilons: {error}") from None
    exact: list[Fraction] = sorted({epsilon for epsilon in found if epsilon is not None})
    if not exact:
        raise UsageError("--epsilons: give at least one, as 1/2,1,2")
    check_sizes(model, factors, scope, seed)
    return TradeoffOptions(tuple(exact), model, factors, scope, seed)


def _measured(dataset: Dataset, options: TradeoffOptions) -> dict[str, Any]:
    from research.commands.tradeoff.measure import measure

    done = 0
    with progress("learning") as advance:

        def add() -> None:
            nonlocal done
            done += 1
            advance(done, options.runs)

        try:
            return measure(dataset, options, add)
        except ValueError as error:
            raise UserError(str(error)) from None


def _show(found: dict[str, Any]) -> None:
    epsilons = sorted({row["epsilon"] for row in found["accuracy"]})
    rmse = {(row["family"], row["epsilon"]): row["rmse"] for row in found["accuracy"]}
    families = dict.fromkeys((row["family"], row["adjacency"]) for row in found["accuracy"])
    table(
        ("mechanism", "adjacency", *(f"{epsilon:g}" for epsilon in epsilons)),
        [
            (family, adjacency, *(f"{rmse[family, epsilon]:.3f}" for epsilon in epsilons))
            for family, adjacency in families
        ],
        title=f"test RMSE ({found['scale']}) by epsilon per report",
    )
    loss = {(row["family"], row["epsilon"]): row for row in found["likes"]}
    table(
        ("mechanism", "adjacency", *(f"{epsilon:g}" for epsilon in epsilons)),
        [
            (family, "cell", *(f"{loss[family, epsilon]['log_loss']:.3f}" for epsilon in epsilons))
            for family in dict.fromkeys(row["family"] for row in found["likes"])
        ],
        title="log-loss of the liked bit (nats a cell) by epsilon per report; "
        f"items' true shares of likes: {found['likes'][0]['log_loss_item_shares']:.3f}",
    )
    for name, scopes in found["references"].items():
        for scope, value in scopes.items():
            say(f"{name.replace('_', ' ')}, {scope}: {value:.3f}")
