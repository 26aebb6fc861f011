"""`murmurec evaluate`: a file of ratings sanitized and learned here, and how well that predicts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.device.mechanism_options import (
    EpsilonOption,
    MechanismOption,
    ScaleOption,
    ThinningOption,
    mechanism_from,
    scale_from,
)
from stream_app.cli.options import writable
from stream_app.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from producers.datasets.load import Dataset
    from producers.scale import Scale
    from stream_app.evaluation import EvaluationResult
    from stream_app.evaluation.profiles import ProfileResult
    from stream_app.privacy.mechanism import Mechanism

_PROFILES = ("blip", "jlt", "jltpaper")
_CELL_BYTES = 4
_SCOPE = 300
_PRESENCE_BYTES = 4 << 20


def evaluate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="ml-1m.zip, ratings.dat, u.data, ratings.csv, or a .csv or .npz."
        ),
    ],
    protocol: Annotated[
        str | None,
        typer.Option(
            help="prequential (time order, test then learn) or one-pass (random 80/10/10 split). "
            "\\[default: prequential; where presence is protected one pass over a scope]"
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="Learner: sketch, dense or another (an unknown name lists all); profiles "
            "(--mechanism blip or jlt) always go to neighbours."
        ),
    ] = "sketch",
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    share: ThinningOption = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Also write the result here.")
    ] = None,
    factors: Annotated[
        int, typer.Option(help="Components of a vector; few where epsilon is small.")
    ] = 32,
    depth: Annotated[int, typer.Option(help="Rows of the sketch.")] = 4,
    scope: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Where presence is protected: the N most rated items are the public scope. "
            "\\[default: 300, or all]",
        ),
    ] = None,
    choice: Annotated[
        str,
        typer.Option(
            help="How a device chooses the groups of a partition: items (by the public item table) "
            "or leaning (and by the user's own released reports; publish and replay use items)."
        ),
    ] = "items",
    scale: ScaleOption = None,
    seed: Annotated[int, typer.Option(help="Of the noise, the split and the hashes.")] = 0,
) -> None:
    """Measure a model on a file of ratings: murmurec evaluate ml-1m.zip --model dense --epsilon 2

    The noise comes from a seed so that a figure can be repeated; nothing is published. A sketch
    gets as many cells as a dense table of these users and items would have (gamma = 1).
    """
    from producers.datasets.load import load

    chosen = EvaluationOptions(protocol, model, factors, depth, scope, choice, seed)
    if json_file:
        writable(json_file)
    dataset = load(file, scale_from(scale)).in_time_order()
    result: EvaluationResult | ProfileResult
    if mechanism.partition(":")[0] in _PROFILES:
        result = _profiles(dataset, mechanism, epsilon, seed)
    else:
        if model == "neighbours":
            raise UserError("--model neighbours: it works on profiles; add --mechanism blip or jlt")
        means = _mechanism(mechanism, epsilon, share, dataset.scale)
        try:
            result = _measured(dataset, means, chosen)
        except ValueError as error:
            raise UserError(str(error)) from None
        _show(result, str(dataset.scale))
    if json_file:
        try:
            json_file.write_text(json.dumps(asdict(result), indent=1) + "\n")
        except OSError as error:
            raise UserError(f"{json_file}: cannot be written ({error.strerror})") from None


def _profiles(dataset: Dataset, name: str, epsilon: str | None, seed: int) -> ProfileResult:
    """Measure neighbours over profiles of the users' items, and show what came out."""
    from stream_app.cli.device import profiles
    from stream_app.cli.device.profiles import evaluation

    result = evaluation.measured(
        dataset, profiles.mechanism_of(name, epsilon, None, None, None), seed
    )
    evaluation.show(result)
    return result


@dataclass(frozen=True)
class EvaluationOptions:
    """What was asked for, besides the data and the mechanism."""

    protocol: str | None
    model: str
    factors: int
    depth: int
    scope: int | None
    choice: str
    seed: int

    def __post_init__(self) -> None:
        if self.protocol not in (None, "prequential", "one-pass"):
            raise UserError(f"--protocol {self.protocol}: choose prequential or one-pass")
        if self.choice not in ("items", "leaning"):
            raise UserError(f"--choice {self.choice}: choose items or leaning")
        if not 0 <= self.seed < 2**63:
            raise UserError(f"--seed {self.seed}: give a number from 0 to 2^63-1")


def _mechanism(name: str, epsilon: str | None, share: str | None, scale: Scale) -> Mechanism:
    """Return the mechanism of a family's name and the other options, or of a whole id."""
    from stream_app.privacy import registry

    if ":" not in name:
        return mechanism_from(name, epsilon, scale, share)
    if epsilon is not None or share is not None:
        raise UserError(f"--mechanism {name}: an id holds epsilon and share; leave the others out")
    try:
        found = registry.parse(name)
    except ValueError as error:
        raise UserError(str(error)) from None
    if found.levels != scale.levels:
        raise UserError(f"{found.id}: the ratings have {scale.levels} levels ({scale})")
    return found


def _measured(
    dataset: Dataset, mechanism: Mechanism, options: EvaluationOptions
) -> EvaluationResult:
    """Sanitize the data and measure a fresh learner on them."""
    import numpy as np

    from stream_app import evaluation
    from stream_app.models.factorization.channels import Channels
    from stream_app.models.factorization.factory import build
    from stream_app.models.factorization.learner import LearnerSpec
    from stream_app.models.factorization.presence_rates import PresenceRates
    from stream_app.privacy.randomness import SeededSource

    hides = mechanism.inputs > mechanism.levels
    if hides and options.protocol == "prequential":
        raise UserError(
            f"{mechanism.id}: whole scopes are sent at the end of an epoch, in no order of "
            "ratings; leave --protocol out"
        )
    users, items = user_keys(dataset.users), item_keys(dataset.items)
    catalogue = len(np.unique(items))
    scope = min(_SCOPE, catalogue) if options.scope is None else options.scope
    if hides and not 1 <= scope <= catalogue:
        raise UserError(
            f"--scope {scope}: the ratings are of {catalogue} items; give 1 to {catalogue}"
        )
    entities = len(np.unique(users)) + (scope if hides else catalogue)
    channels, values, seed = (
        Channels.from_mechanisms([mechanism]),
        dataset.scale.values,
        options.seed,
    )
    truth = evaluation.TrueRatings(dataset.ratings, float(values[0]), float(values[-1]))
    source, levels = SeededSource(seed), dataset.levels
    learner = build(
        options.model,
        channels,
        LearnerSpec(
            factors=options.factors,
            depth=options.depth,
            # At least a vector in each row, however few the users and items are.
            sketch_bytes=max(entities, options.depth) * options.factors * _CELL_BYTES,
            scalars_bytes=max(64, 64 * entities),
            seed=seed,
        ),
    )
    if hides:
        presence = PresenceRates(channels, _PRESENCE_BYTES, seed)
        columns = users, items, levels, truth, learner, presence, mechanism, source
        with _Bar(len(np.unique(users)) * scope) as advance:
            return evaluation.evaluate_scope(*columns, scope=scope, seed=seed, progress=advance)
    devices: evaluation.Devices
    if mechanism.masks:
        leaning = options.choice == "leaning"
        columns_asked = channels, users, items, levels, source
        devices = evaluation.AdaptiveDevices(mechanism, *columns_asked, user_bias=leaning)
    else:
        devices = evaluation.FixedReports(mechanism.release(levels, source))
    with _Bar(len(dataset)) as advance:
        return evaluation.evaluate(
            users,
            items,
            devices,
            truth,
            learner,
            protocol=options.protocol or "prequential",
            mechanism=mechanism.id,
            epsilon=None if mechanism.epsilon is None else float(mechanism.epsilon),
            seed=seed,
            progress=advance,
        )


def item_keys(ids: NDArray[np.int64] | NDArray[np.str_]) -> NDArray[np.uint64]:
    """Return the key of each item of a data set, (n,)."""
    import numpy as np

    from stream_app import wire

    names, rows = np.unique(ids, return_inverse=True)
    return np.array([wire.key(name) for name in names.tolist()], np.uint64)[rows]


def user_keys(ids: NDArray[np.int64] | NDArray[np.str_]) -> NDArray[np.uint64]:
    """Return a key for each user of a data set, (n,): an id may be negative or a long text."""
    import numpy as np

    names, rows = np.unique(ids, return_inverse=True)
    return np.array([_user_key(name) for name in names.tolist()], np.uint64)[rows]


def _user_key(user: int | str) -> int:
    if isinstance(user, int) and user >= 0:
        return user
    digest = blake2b(str(user).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") | (1 << 63)


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


def _show(result: EvaluationResult, scale: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "", title=f"{result.model}, {result.protocol}, {result.mechanism}")
    if result.scope:
        table.add_row("public scope", f"the {result.scope:,} most rated items of the file")
        table.add_row("cells sent / published", f"{result.cells:,} / {result.learned:,}")
    table.add_row("ratings tested", f"{result.events:,}")
    table.add_row(f"RMSE ({scale})", f"{result.rmse:.4f}")
    table.add_row("MAE", f"{result.mae:.4f}")
    table.add_row("RMSE of the items' true means", f"{result.rmse_baseline:.4f}")
    what = "cells" if result.scope else "learned"
    table.add_row(f"{what} per CPU second", f"{result.events_per_second:,.0f}")
    Console().print(table)
