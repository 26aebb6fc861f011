"""`murmurec replay`: a file of ratings as a population of devices, sanitized here and sent.

run         one run over a population, by either way of sending, and what it says of it
cost        what a run can spend at most, before anything is drawn
catalogue   the items of the public catalogue, where no file names the scope
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.device.connections import item_table_for, publisher_for
from stream_app.cli.device.mechanism_options import (
    BudgetOption,
    EmissionOption,
    EpsilonOption,
    JournalOption,
    MechanismOption,
    RepublishOption,
    ScaleOption,
    ThinningOption,
    TrustClockOption,
    WindowOption,
    allowed,
    hides_presence,
    is_epoch_emission,
    journal_path,
    limits_from,
    mechanism_from,
    positive_fraction,
    scale_from,
)
from stream_app.cli.device.wording import (
    AT_ONCE,
    AT_THE_END,
    PUBLIC,
    PUBLIC_SCOPE,
    journal_notices,
    protection_claim,
    public_sample,
    spending_claim,
    warnings,
)
from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    connection_from,
    settings_from,
)
from stream_app.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from producers.datasets.load import Dataset
    from producers.fleet.replay import Pace
    from stream_app.privacy.ratings.item_sampling import ItemSample
    from stream_app.settings import Settings


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="ml-1m.zip, ratings.dat, u.data, ratings.csv, or a .csv or .npz."
        ),
    ],
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    share: ThinningOption = None,
    emission: EmissionOption = "immediate",
    scope: Annotated[
        Path | None,
        typer.Option(
            "--scope",
            metavar="IDS",
            help="Public items, one per line: on each of them every device reports. "
            "\\[default: the catalogue]",
        ),
    ] = None,
    period: Annotated[
        int,
        typer.Option(
            "--period", metavar="EPOCHS", help="An item has its turn every so many epochs."
        ),
    ] = 1,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample",
            metavar="E",
            help="Spend E on a whole user, for life: report on E / 2.5 items that a key of the "
            "device picks from the scope, at 2.5 or a little more each.",
        ),
    ] = None,
    speed: Annotated[
        str, typer.Option("--speed", metavar="N", help="Reports per second, or max.")
    ] = "max",
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most N rows in this run.")
    ] = None,
    scale: ScaleOption = None,
    budget: BudgetOption = None,
    window: WindowOption = None,
    journal: JournalOption = None,
    republish: RepublishOption = False,
    trust_clock: TrustClockOption = False,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a file of ratings, in time order: murmurec replay ml-1m.zip --speed 20000

    An interrupted replay goes on where it was; a finished one is not published twice.
    """
    from producers.datasets.load import load
    from producers.device.requests import ReportSettings
    from producers.fleet.population import populate
    from producers.journal import Journal
    from stream_app.cli.device.replay.cost import cost
    from stream_app.cli.device.replay.run import ReplayRun, say, status_line
    from stream_app.wire import EPOCH_SECONDS

    settings = settings_from(config, bootstrap, prefix, kafka)
    few, pace = _sample(sample, epsilon, budget, window, period), _pace(speed)
    # A sample is the user's budget for life, whatever the scope will be.
    whole = budget if few is None else str(few.budget)
    limits = limits_from(whole, window, trust_clock=trust_clock)
    epoch = int(time.time()) // EPOCH_SECONDS
    grid = scale_from(scale)
    with status_line(f"reading {file}"):
        dataset = load(file, grid)
    each = epsilon if few is None else str(few.epsilon)
    chosen = mechanism_from(mechanism, each, dataset.scale, share)
    ended = is_epoch_emission(emission)
    _check(ended, hides_presence(chosen), chosen.id, scope, period, limit)
    if few is not None and not hides_presence(chosen):
        raise UserError(
            f"--sample goes with a mechanism that hides what was rated, not {chosen.id}"
        )
    allowed(chosen, settings)
    line = publisher_for(settings)
    items = _scope(settings, scope, period, epoch) if hides_presence(chosen) else None
    table = item_table_for(chosen, settings)
    with Journal.open(journal_path(settings, journal), limits=limits) as kept:
        for sentence in journal_notices(kept):
            say(sentence)
        with status_line(f"making a device for every user of {dataset.name}"):
            population = populate(dataset, kept.key)
            today = kept.epoch(epoch)
            price = cost(
                population, kept, chosen, today, items, few, republish=republish, ended=ended
            )
        price.check(kept.limits)
        say(f"{dataset.name}: {len(dataset)} ratings on {dataset.scale}")
        if grid is None:
            say(
                f"scale      {dataset.scale}, found in the ratings: it is public with every "
                "report; --scale states it"
            )
        say(f"protected  {protection_claim(chosen)}")
        whole_scope = PUBLIC_SCOPE if few is None else public_sample(few.reports)
        say(f"public     {PUBLIC if items is None else whole_scope}")
        say(f"sent       {AT_THE_END if ended else AT_ONCE}")
        say(f"in sum     {spending_claim(chosen, price.most, price.before)}")
        for sentence in warnings(chosen, price.most, price.whole):
            say(f"warning: {sentence}")
        for sentence in _of_the_data(dataset, population.items, items):
            say(f"warning: {sentence}")
        run = ReplayRun(
            kept,
            line,
            ReportSettings(line.topic, chosen, table),
            population,
            pace,
            epoch,
            republish,
        )
        try:
            outcome = run.epoch(items, few) if ended else run.immediate(limit)
        except ValueError as error:
            raise UserError(str(error)) from None
    typer.echo(json.dumps(outcome.row) if as_json else "\n".join(outcome.told))
    if line.failed:
        raise UserError(
            f"{line.failed} of {line.sent} events were not accepted: {line.first_error}; they are "
            "kept in the journal, and the next publish or replay sends the same bytes"
        )


def _of_the_data(
    dataset: Dataset, keys: NDArray[np.uint64], scope: NDArray[np.uint64] | None
) -> Iterator[str]:
    """Yield what somebody should know of a file of ratings before it is sent."""
    import numpy as np

    if dataset.refused:
        yield (
            f"{dataset.refused} rows are unreadable or off the scale and are not sent; that the "
            "others are sent tells that they are on it"
        )
    if scope is not None and not np.isin(scope, keys).any():
        yield (
            "no item of the scope is among the rated: every report is drawn from a missing rating; "
            "are the ids of --scope the file's?"
        )


def _check(
    ended: bool, hidden: bool, id: str, scope: Path | None, period: int, limit: int | None
) -> None:
    """Refuse options that do not go together."""
    if hidden and not ended:
        raise UserError(
            f"{id} hides whether a rating exists, and a message at the moment of rating tells it: "
            "give --emission epoch"
        )
    if not hidden and (scope is not None or period != 1):
        raise UserError(
            f"--scope and --period go with a mechanism that hides what was rated, not with {id}"
        )
    if not 1 <= period <= 2**31:
        raise UserError(f"--period {str(period)[:40]}: give 1 to 2147483648 epochs")
    if ended and limit is not None:
        raise UserError(f"--limit {limit}: an epoch is sent as a whole; leave it out")


def _sample(
    whole: str | None, epsilon: str | None, budget: str | None, window: int | None, period: int
) -> ItemSample | None:
    """Return how many items a device reports on where a user's whole budget is given."""
    from producers.journal import NANO
    from stream_app.privacy.ratings.item_sampling import ItemSample

    if whole is None:
        return None
    if epsilon is not None:
        raise UserError("--sample finds the epsilon of each report; leave --epsilon out")
    if budget is not None or window is not None:
        raise UserError("--sample is the user's budget, for life; leave --budget and --window out")
    if period != 1:
        raise UserError(
            f"--period {period}: a sample is drawn once from the whole scope; leave --period out"
        )
    found = positive_fraction("--sample", whole)
    if (found * NANO).denominator != 1:
        raise UserError(f"--sample {whole[:40]}: give at most nine digits behind the point, as 2.5")
    return ItemSample.of(found)


def _scope(settings: Settings, given: Path | None, period: int, epoch: int) -> NDArray[np.uint64]:
    """Return the public items whose turn it is today."""
    from producers.device import scope
    from stream_app.cli.device.replay.catalogue import catalogue

    if given is not None:
        items = scope.from_file(given)
    else:
        items = catalogue(connection_from(settings), settings.topic_prefix)
    return scope.turn(items, epoch, period, settings.hash_seed)


def _pace(text: str) -> Pace:
    from producers.fleet.replay import SPEEDS, Pace

    if text == "max":
        return Pace()
    try:
        return Pace(float(text))
    except ValueError:
        raise UserError(f"--speed {text[:40]}: give {SPEEDS}") from None
