"""`murmurec profiles`: what a person has used as one noised profile, once an epoch.

run        one run over a population, and what it says of it
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.device.mechanism_options import (
    BudgetOption,
    JournalOption,
    ScaleOption,
    TrustClockOption,
    WindowOption,
    journal_path,
    limits_from,
    scale_from,
)
from stream_app.cli.device.wording import LARGE_PER_RATING, journal_notices, likelihood_factor
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
    from producers.journal import Limits
    from producers.publishing import Publisher
    from stream_app.privacy.profiles.mechanism import ProfileMechanism
    from stream_app.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Publish noised profiles: sets of items, not ratings.")

PUBLIC = "that a pseudonym takes part, and the day; every profile has the same size"
_OFTEN = 1 / 3  # share of flipped bits above which fewer hashes say much more


@app.callback()
def _group() -> None:
    pass


@app.command()
def publish(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="ml-1m.zip, ratings.dat, u.data, ratings.csv, or a .csv or .npz."
        ),
    ],
    mechanism: Annotated[
        str,
        typer.Option(
            metavar="FAMILY",
            help="blip (a Bloom filter with flipped bits), jlt (a projection with Gaussian noise), "
            "jltpaper (its reproduction), or a whole id, such as blip:5000:2:8.",
        ),
    ] = "blip",
    epsilon: Annotated[
        str | None,
        typer.Option(
            metavar="E", help="Privacy loss per item of a profile, as 8 or 1/2. \\[default: 2]"
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(metavar="L", help="Bits, or projections. \\[default: 5000, or 1000]"),
    ] = None,
    hashes: Annotated[
        int | None,
        typer.Option(metavar="K", help="With blip: bits of an item. \\[default: 2]"),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(metavar="D", help="With jlt: what epsilon may miss. \\[default: 1e-6]"),
    ] = None,
    scope: Annotated[
        Path | None,
        typer.Option(
            "--scope", metavar="IDS", help="Public items, one per line: no others are in a profile."
        ),
    ] = None,
    reproduction: Annotated[
        bool,
        typer.Option(
            "--reproduction",
            help="Publish with a delta above 1/1000, as jltpaper has: for made-up data only.",
        ),
    ] = False,
    scale: ScaleOption = None,
    budget: BudgetOption = None,
    window: WindowOption = None,
    journal: JournalOption = None,
    trust_clock: TrustClockOption = False,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish every user's profile once: murmurec profiles publish ml-1m.zip --epsilon 8

    A profile holds every item that the user has rated, whatever the rating. Once an epoch (a day);
    the next one is drawn anew and paid again.
    """
    from producers.datasets.load import load
    from producers.device import scope as public
    from producers.fleet.population import populate
    from producers.journal import Journal
    from stream_app.cli.device.profiles.run import ProfileRun, say

    settings = settings_from(config, bootstrap, prefix, kafka)
    chosen = mechanism_of(mechanism, epsilon, length, hashes, delta)
    limits = limits_from(budget, window, trust_clock=trust_clock)
    limits = _bounded(limits, chosen, reproduction=reproduction)
    dataset = load(file, scale_from(scale))
    items = None if scope is None else public.from_file(scope)
    line = _publisher(settings)
    with Journal.open(journal_path(settings, journal), limits=limits) as kept:
        population = populate(dataset, kept.key)
        for sentence in (*journal_notices(kept), *sentences(chosen, population.most)):
            say(sentence)
        try:
            outcome = ProfileRun(kept, line, chosen, items).publish(population)
        except ValueError as error:
            raise UserError(str(error)) from None
    typer.echo(json.dumps(outcome.row) if as_json else "\n".join(outcome.told))
    if line.failed:
        raise UserError(
            f"{line.failed} of {line.sent} profiles were not accepted: {line.first_error}; they "
            "are kept in the journal, and the next publish sends the same bytes"
        )


def _bounded(limits: Limits, mechanism: ProfileMechanism, *, reproduction: bool) -> Limits:
    """Return the limits, without one on delta for a reproduction; refuses a delta above it."""
    if reproduction:
        return replace(limits, delta=None)
    delta = mechanism.delta
    if delta and limits.delta is not None and delta > limits.delta:
        raise UserError(
            f"{mechanism.id}: its delta {delta} is above {limits.delta}, the chance that a release "
            "protects nothing: choose jlt with a smaller --delta, or give --reproduction"
        )
    return limits


def mechanism_of(
    name: str,
    epsilon: str | None,
    length: int | None,
    hashes: int | None,
    delta: str | None,
) -> ProfileMechanism:
    """Return the mechanism of a family and options, or of a whole id; refuses what is none."""
    from stream_app.privacy.profiles import registry as profiles

    options = {"--epsilon": epsilon, "--length": length, "--hashes": hashes, "--delta": delta}
    given = [option for option, value in options.items() if value is not None]
    try:
        if ":" in name:
            if given:
                raise UserError(f"{name} says {given[0][2:]} itself; leave {', '.join(given)} out")
            return profiles.parse(name)
        if hashes is not None and name != "blip":
            raise UserError(f"--hashes {hashes}: only blip has hashes; leave it out")
        return profiles.mechanism(
            name,
            "2" if epsilon is None else epsilon,
            length=length,
            hashes=profiles.DEVICE_HASHES if hashes is None else hashes,
            delta=delta,
        )
    except ValueError as error:
        raise UserError(str(error)) from None


def sentences(mechanism: ProfileMechanism, most: int) -> Iterator[str]:
    """Yield what is protected, what is public, what it costs, and what a careful person adds."""
    from stream_app.privacy.profiles.blip import Blip
    from stream_app.privacy.profiles.jlt import JltPaper

    epsilon = mechanism.epsilon
    if epsilon is None:
        yield f"protected  nothing: the profiles themselves are sent ({mechanism.id})"
        yield f"public     {PUBLIC}"
        yield "warning: nothing is protected: whoever reads the topic can test every item"
        return
    beyond = f", except with probability {float(mechanism.delta):.0e}" if mechanism.delta else ""
    yield (
        f"protected  whether an item is in a profile: no release is more than e^{epsilon} = "
        f"{likelihood_factor(epsilon)} times likelier with the item than without it{beyond} "
        f"({mechanism.id}, adjacency: {mechanism.adjacency})"
    )
    yield f"public     {PUBLIC}"
    whole = most * epsilon
    if isinstance(mechanism, Blip):
        whole = min(whole, mechanism.length * epsilon / mechanism.hashes)
    yield (
        f"in sum     every release costs {epsilon} again; the largest profile here, of {most} "
        f"items, is told from an empty one by up to {float(whole):g}"
    )
    if epsilon > LARGE_PER_RATING:
        yield (
            f"warning: epsilon {epsilon} is above {LARGE_PER_RATING} per item: much of a profile "
            "may be rebuilt"
        )
    if isinstance(mechanism, Blip) and mechanism.hashes > 1 and mechanism.flip > _OFTEN:
        yield (
            f"warning: {float(mechanism.flip):.0%} of the bits are flipped and hardly anything can "
            f"be computed: fewer hashes than {mechanism.hashes} say more at the same epsilon "
            "(--hashes)"
        )
    if isinstance(mechanism, JltPaper):
        yield (
            "warning: jltpaper repeats the noise of the thesis, which is more than its claim "
            "needs: jlt has the same guarantee with less"
        )


def _publisher(settings: Settings) -> Publisher:
    """Return an open line to the topic of profiles; refuses one that is not there."""
    from producers.publishing import Publisher
    from stream_app.kafka import clients
    from stream_app.kafka import topic_admin as topics
    from stream_app.wire import Topics

    connection, name = connection_from(settings), Topics(settings.topic_prefix).profiles
    clients.describe_cluster(connection)
    there = topics.partition_counts(clients.admin(connection), [name])
    if there[name] is None:
        raise UserError(f"topic {name} does not exist: create it with murmurec topics apply")
    # No record is given up while later ones go: the newest profile of a device counts.
    line = clients.producer(connection, linger_ms=20, message_timeout_ms=0)
    return Publisher(line, name)
