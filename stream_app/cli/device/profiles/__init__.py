"""`murmurec profiles`: publish the set of items of each user as one noised profile per epoch.

mechanism   the mechanism that the command line names
publishing  one run over a population, what it says before, and its outcome
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.commands import Commands
from stream_app.cli.device.mechanism_options import (
    BudgetOption,
    JournalOption,
    RatingsArgument,
    ScaleOption,
    TestOption,
    TrustClockOption,
    journal_path,
    population_budget,
    scale_from,
)
from stream_app.cli.options import Cluster, JsonOption

app = Commands(
    help="Publish noised profiles: sets of items, not ratings. Example: murmurec profiles publish "
    "ml-1m.zip",
)


@app.command()
def publish(
    cluster: Cluster,
    file: RatingsArgument,
    mechanism: Annotated[
        str,
        typer.Option(
            "--mechanism",
            metavar="FAMILY",
            help="blip (Bloom filter with flipped bits), jlt (projection with Gaussian noise), "
            "jltpaper (the thesis' own), or an id such as blip:5000:2:8.",
        ),
    ] = "blip",
    epsilon: Annotated[
        str | None,
        typer.Option("--epsilon", metavar="E", help="Privacy loss per item: 8 or 1/2 (default 2)."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option("--length", metavar="L", help="Bits or projections (default 5000 or 1000)."),
    ] = None,
    hashes: Annotated[
        int | None,
        typer.Option("--hashes", metavar="K", help="Bits per item of a blip (default 2)."),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta", metavar="D", help="Probability that epsilon fails, for jlt (default 1e-6)."
        ),
    ] = None,
    items_most: Annotated[
        int | None,
        typer.Option(
            "--items-most",
            metavar="N",
            help="Items of a profile that are released at most, the first in a public order: it "
            "bounds what a person spends (default: as many as a budget of 20 holds; 16384: all).",
        ),
    ] = None,
    scope: Annotated[
        Path | None,
        typer.Option(
            "--scope", metavar="FILE", help="Public items that a profile may hold, one per line."
        ),
    ] = None,
    reproduction: Annotated[
        bool,
        typer.Option(
            "--reproduction",
            help="Allow a delta above 1/1000, as of jltpaper: for synthetic data only.",
        ),
    ] = False,
    scale: ScaleOption = None,
    budget: BudgetOption = None,
    journal: JournalOption = None,
    test: TestOption = False,
    trust_clock: TrustClockOption = False,
    as_json: JsonOption = False,
) -> None:
    """Publish the profile of every user of a file once.

    A profile holds the items that the user has rated, whatever the rating, --items-most of them at
    most. A device publishes one profile per epoch (a day) and spends epsilon on each.

    Example: murmurec profiles publish ml-1m.zip --epsilon 8
    """
    from producers.journal import Limits
    from stream_app.cli.device.profiles.mechanism import (
        check_allowed,
        check_delta,
        mechanism_of,
    )
    from stream_app.cli.device.profiles.publishing import ProfileCommandOptions, publish_file

    settings = cluster.settings()
    chosen = mechanism_of(mechanism, epsilon, length, hashes, delta, items_most)
    check_delta(chosen, reproduction=reproduction)
    check_allowed(chosen, settings.profile_mechanisms)
    options = ProfileCommandOptions(
        file,
        scale_from(scale),
        chosen,
        scope,
        population_budget(budget),
        Limits(trust_clock=trust_clock),
        journal_path(settings, journal),
        test,
    )
    publish_file(options, settings, as_json=as_json)
