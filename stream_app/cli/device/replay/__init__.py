"""`murmurec replay`: sanitize and publish a file of ratings as a population of devices.

options     the values of the command line, checked against each other
run         one run over a population, immediate or by epoch
cost        the largest spending of a run, before any noise is drawn
campaign    one run that contributes to a campaign, and sends no rating
outcome     the result of a run, as sentences and as a row of JSON
catalogue   the items of the public catalogue, the default scope
"""

from __future__ import annotations

from typing import Annotated

import typer

from stream_app.cli.device.mechanism_options import (
    BudgetOption,
    EmissionOption,
    EpsilonOption,
    JournalOption,
    KeysOption,
    MechanismOption,
    ModeOption,
    ProducerPerAccountOption,
    RatingsArgument,
    RepublishOption,
    ScaleOption,
    TestOption,
    ThinningOption,
    TrustClockOption,
    is_campaign,
    is_epoch_emission,
    journal_path,
    population_budget,
    scale_from,
)
from stream_app.cli.device.scope_options import (
    AcceptScopeOption,
    ScopeOption,
    TrustCatalogueOption,
)
from stream_app.cli.options import Cluster, JsonOption


def replay(
    context: typer.Context,
    cluster: Cluster,
    file: RatingsArgument,
    mode: ModeOption = None,
    keys: KeysOption = None,
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    thinning: ThinningOption = None,
    emission: EmissionOption = "immediate",
    scope: ScopeOption = None,
    accept_scope: AcceptScopeOption = None,
    trust_catalogue: TrustCatalogueOption = False,
    rotate_every: Annotated[
        int,
        typer.Option("--rotate-every", metavar="N", help="Report each item once every N epochs."),
    ] = 1,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample",
            metavar="E",
            help="Spend E per user for life, on a secret sample of E / 2.5 items of the scope.",
        ),
    ] = None,
    speed: Annotated[
        str, typer.Option("--speed", metavar="N", help="Reports per second, or max.")
    ] = "max",
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Publish at most N rows.")
    ] = None,
    scale: ScaleOption = None,
    budget: BudgetOption = None,
    journal: JournalOption = None,
    producer_per_account: ProducerPerAccountOption = False,
    test: TestOption = False,
    republish: RepublishOption = False,
    trust_clock: TrustClockOption = False,
    as_json: JsonOption = False,
) -> None:
    """Sanitize a file of ratings and publish it in time order.

    An interrupted replay continues where it stopped; a finished replay is not published twice.

    Example: murmurec replay ml-1m.zip --speed 20000
    """
    from producers.fleet.epoch_emission import sample_budget
    from producers.journal import Limits
    from stream_app.cli.device.replay.options import (
        ReplayCommandOptions,
        check_sample,
        pace_from,
        sample_from,
    )
    from stream_app.cli.device.replay.run import replay_file

    settings = cluster.settings()
    if is_campaign(mode, settings):
        from stream_app.cli.device.replay.campaign import CampaignReplay, check_options

        check_options(context)
        CampaignReplay(
            file=file,
            scale=scale_from(scale),
            mode=mode or settings.privacy_mode,
            keys=keys,
            scope=scope,
            accept_scope=accept_scope,
            budget=population_budget(budget),
            limits=Limits(trust_clock=trust_clock),
            journal=journal_path(settings, journal),
            producer_per_account=producer_per_account,
        ).run(settings, as_json=as_json)
        return
    items = sample_from(sample)
    check_sample(items, epsilon, budget, rotate_every)
    options = ReplayCommandOptions(
        file=file,
        scale=scale_from(scale),
        family=mechanism,
        epsilon=epsilon if items is None else str(items.epsilon),
        thinning=thinning,
        by_epoch=is_epoch_emission(emission),
        scope=scope,
        accept_scope=accept_scope,
        trust_catalogue=trust_catalogue,
        rotate_every=rotate_every,
        sample=items,
        pace=pace_from(speed),
        limit=limit,
        # A sample is the user's budget for life, for every scope.
        budget=population_budget(budget) if items is None else sample_budget(items),
        limits=Limits(trust_clock=trust_clock),
        journal=journal_path(settings, journal),
        test=test,
        producer_per_account=producer_per_account,
        republish=republish,
    )
    replay_file(options, settings, as_json=as_json)
