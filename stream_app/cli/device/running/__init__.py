"""`murmurec device run`: the device as a program that runs.

start           what the options mean: accounts, sources, connection
budgets         whether the plans and the budgets of the accounts hold what is reported
campaign_part   its part in campaigns
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stream_app.cli.commands import option
from stream_app.cli.device import mechanism_options, reporting_options
from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.options import Cluster
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from producers.journal import Limits
    from stream_app.privacy.mechanism import Mechanism

_OF_SCOPE = "--scope, --trust-catalogue, --rotate-every and --rounds"


@dataclass(frozen=True, kw_only=True)
class RunOptions(reporting_options.ReportingOptions):
    """Accounts, sources, mechanism and scope of a running device."""

    user: str | None = option(
        None,
        "The only user; without it lines name theirs (devices = signed needs it).",
        "ID",
        callback=mechanism_options.person,
    )
    watched: list[Path] | None = option(
        None, "A file of ratings to follow; repeatable.", "FILE", "--watch"
    )
    stdin: bool = option(False, "Read ratings from the input.")
    planned: bool = option(
        False,
        "Report under the mechanism that the accounts were enrolled for (instead of "
        "--mechanism, --epsilon, --thinning).",
        None,
        "--plan",
    )
    most_cells: reporting_options.MostCellsOption = 4096
    rounds: int = option(1, "Report each item N times, N times paid.", "N", min=1, max=1000)
    rounds_share: str | None = option(
        None,
        "Part of the budget for items that were reported before, e.g. 1/2; the rest is for others.",
        "SHARE",
    )
    campaign_scope: Path | None = option(
        None,
        "Items of campaigns: with --keys every account contributes (or campaign_scope).",
        "FILE",
    )
    most_epsilon: reporting_options.MostEpsilonOption = "2"
    relay: mechanism_options.RelayOption = None

    @property
    def limits(self) -> Limits:
        """What the journal is held to."""
        from producers.journal import Limits

        share = None
        if self.rounds_share is not None:
            share = positive_fraction("--rounds-share", self.rounds_share)
            if share >= 1:
                raise UsageError(
                    f"--rounds-share {self.rounds_share[:40]}: give a part of the budget below 1, "
                    "as 1/2"
                )
        return Limits(trust_clock=self.trust_clock, reports=self.rounds, share=share)

    def check(self, mechanism: Mechanism) -> None:
        """Refuse options that do not go together."""
        self.check_scope(mechanism, _OF_SCOPE, more=self.rounds != 1)
        mechanism_options.check_relay(self.relay, mechanism, more=self.trust_catalogue)
        if self.rounds_share is not None and self.rounds == 1:
            raise UsageError("--rounds-share: is of later rounds; give --rounds N, 2 or more")


def run(context: typer.Context, cluster: Cluster, options: RunOptions) -> None:
    """Take ratings and report for the enrolled accounts, until stopped.

    Example: murmurec device run --user ann --watch ratings.csv
    """
    from stream_app.cli.device.running.start import run_device

    if options.planned:
        _check_only_plan(context)
    run_device(options, cluster.settings())


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
