"""`murmurec device run` and `murmurec device status`: the device as a program that runs.

options  the options, and which go together
start    what they mean: accounts, sources, connection
scope    the cells on which the accounts report
planned  the mechanism that the accounts were enrolled for
scope_budget   whether the budgets hold the rounds of a scope
campaigns      its part in campaigns
state    what a device would say of itself, from its journal
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.device.mechanism_options import (
    EpsilonOption,
    JournalOption,
    KeysOption,
    MechanismOption,
    ProducerPerAccountOption,
    ScaleOption,
    ThinningOption,
    TrustClockOption,
    journal_path,
    scale_from,
    share_from,
)
from stream_app.cli.device.scope_options import (
    AcceptScopeOption,
    MostCellsOption,
    ScopeOption,
    TrustCatalogueOption,
)
from stream_app.cli.options import Cluster, ConfigOption, JsonOption, settings_from
from stream_app.errors import UsageError


def run(
    context: typer.Context,
    cluster: Cluster,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="ID",
            help="The only user; without it lines name theirs (devices = signed needs it).",
        ),
    ] = None,
    watch: Annotated[
        list[Path] | None,
        typer.Option("--watch", metavar="FILE", help="A file of ratings to follow; repeatable."),
    ] = None,
    socket: Annotated[
        Path | None,
        typer.Option("--socket", metavar="PATH", help="A local socket (mode 0600) for ratings."),
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read ratings from the input.")] = False,
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    thinning: ThinningOption = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Report under the mechanism that the accounts were enrolled for (instead of "
            "--mechanism, --epsilon, --thinning).",
        ),
    ] = False,
    scale: ScaleOption = None,
    scope: ScopeOption = None,
    accept_scope: AcceptScopeOption = None,
    trust_catalogue: TrustCatalogueOption = False,
    most_cells: MostCellsOption = 4096,
    rotate_every: Annotated[
        int,
        typer.Option("--rotate-every", metavar="N", help="Report each item once every N epochs."),
    ] = 1,
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", metavar="N", min=1, max=1000, help="Report each item N times, N times paid."
        ),
    ] = 1,
    rounds_share: Annotated[
        str | None,
        typer.Option(
            "--rounds-share",
            metavar="SHARE",
            help="Part of the budget for items that were reported before, e.g. 1/2; the rest is "
            "for others.",
        ),
    ] = None,
    keys: KeysOption = None,
    campaign_scope: Annotated[
        Path | None,
        typer.Option(
            "--campaign-scope",
            metavar="FILE",
            help="Items of campaigns: with --keys every account contributes (or campaign_scope).",
        ),
    ] = None,
    most_epsilon: Annotated[
        float,
        typer.Option("--most-epsilon", metavar="E", help="Take part in campaigns up to this."),
    ] = 2.0,
    journal: JournalOption = None,
    trust_clock: TrustClockOption = False,
    trust_journal: Annotated[
        bool,
        typer.Option("--trust-journal", help="Go on where the topic holds later events."),
    ] = False,
    producer_per_account: ProducerPerAccountOption = False,
) -> None:
    """Take ratings and report for the enrolled accounts, until stopped.

    Example: murmurec device run --user ann --watch ratings.csv
    """
    from producers.journal import Limits
    from stream_app.cli.device.running.options import RunOptions
    from stream_app.cli.device.running.start import run_device

    if plan:
        _check_only_plan(context)
    settings = cluster.settings()
    share = None if rounds_share is None else share_from(rounds_share)
    options = RunOptions(
        user=user,
        planned=plan,
        watched=tuple(watch or ()),
        socket=socket,
        stdin=stdin,
        family=mechanism,
        epsilon=epsilon,
        thinning=thinning,
        scale=scale_from(scale),
        scope=scope,
        accept_scope=accept_scope,
        trust_catalogue=trust_catalogue,
        most_cells=most_cells,
        rotate_every=rotate_every,
        rounds=rounds,
        journal=journal_path(settings, journal),
        limits=Limits(trust_clock=trust_clock, reports=rounds, share=share),
        trust_journal=trust_journal,
        producer_per_account=producer_per_account,
        keys=tuple(keys or ()),
        campaign_scope=campaign_scope,
        most_epsilon=most_epsilon,
    )
    run_device(options, settings)


def _check_only_plan(context: typer.Context) -> None:
    """Refuse a mechanism beside the plan, even the default one: it would be passed over."""
    names = ("mechanism", "epsilon", "thinning")
    given = [f"--{name}" for name in names if _is_given(context, name)]
    if given:
        raise UsageError(
            "--plan: the accounts report under the mechanism of their plan; leave "
            f"{' and '.join(given)} out"
        )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def status(
    journal: JournalOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the accounts of a device, what waits, and when each reports next.

    Example: murmurec device status
    """
    from stream_app.cli.device.running.state import show_status

    show_status(journal_path(settings_from(config), journal), as_json=as_json)
