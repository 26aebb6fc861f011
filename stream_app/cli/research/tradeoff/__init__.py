"""`murmurec tradeoff`: draw error, fake ratings and noise of profiles against epsilon."""

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
    from stream_app.cli.research.tradeoff.measure import TradeoffOptions


def tradeoff(
    file: RatingsArgument,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="NAME", help="Writes NAME.png and NAME.json."),
    ] = Path("tradeoff"),
    epsilons: Annotated[
        str,
        typer.Option("--epsilons", metavar="E,E,...", help="Epsilons per report, e.g. 1/2,1,2."),
    ] = "1/2,1,2,3,4,6,8",
    model: Annotated[str, typer.Option(help="sketch, literal, hashing or dense.")] = "dense",
    factors: Annotated[int, typer.Option(help="Factors per vector.")] = 32,
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

    Example: murmurec tradeoff ml-1m.zip --output ml-1m
    """
    if find_spec("matplotlib") is None:
        raise UserError("tradeoff needs matplotlib: pip install 'murmurec[plot]'")
    from producers.datasets.load import load
    from stream_app.cli.research.tradeoff.figure import draw

    if not output.name:
        raise UsageError(f"--output {output}: give a name, such as figures/tradeoff")
    picture, numbers = (
        output.with_name(f"{output.name}.png"),
        output.with_name(f"{output.name}.json"),
    )
    options = _options(epsilons, model, factors, scope, seed)
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
    from stream_app.cli.research.tradeoff.measure import TradeoffOptions
    from stream_app.models.factorization.factory import LEARNERS
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
    if model not in LEARNERS:
        raise UsageError(f"--model {model[:40]}: choose one of {', '.join(LEARNERS)}")
    if not 1 <= factors <= 256:
        raise UsageError(f"--factors {factors}: 1 to 256")
    if scope < 1:
        raise UsageError(f"--scope {scope}: at least 1 item")
    if not 0 <= seed < 2**63:
        raise UsageError(f"--seed {seed}: give a number from 0 to 2^63-1")
    return TradeoffOptions(tuple(exact), model, factors, scope, seed)


def _measured(dataset: Dataset, options: TradeoffOptions) -> dict[str, Any]:
    from stream_app.cli.research.tradeoff.measure import measure

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
