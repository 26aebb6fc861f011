"""`murmurec replay`: sanitize and publish a file of ratings as a population of devices.

rating_replay    one run over a population, immediate or by epoch: its largest spending before any
                 noise is drawn, and its outcome as sentences and as a row of JSON
campaign_replay  one run that contributes to a campaign, and sends no rating
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from stream_app.cli.commands import option
from stream_app.cli.device import mechanism_options
from stream_app.cli.device.reporting_options import ReportingOptions
from stream_app.cli.options import Cluster, JsonOption
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from producers.fleet.replay import Pace
    from producers.journal import PersonBudget
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.privacy.ratings.item_sampling import ItemSample

_OF_SCOPE = "--scope, --trust-catalogue and --rotate-every"


@dataclass(frozen=True, kw_only=True)
class ReplayCommandOptions(ReportingOptions):
    """The data, mechanism, accounts, time and pace of a replay.

    `given_sample`: a device reports on a secret sample of the scope; `given_budget`: of users that
    are not enrolled.
    """

    file: mechanism_options.RatingsArgument
    journal: mechanism_options.SimulationJournalOption = None
    mode: str | None = option(
        None, "local; split or central: campaigns, no rating (default privacy_mode).", "MODE"
    )
    emission: mechanism_options.EmissionOption = "immediate"
    given_sample: str | None = option(
        None,
        "Spend E per user for life, on a secret sample of E / 2.5 items of the scope.",
        "E",
        "--sample",
    )
    speed: str = option("max", "Reports per second, or max.", "N")
    limit: int | None = option(None, "Publish at most N rows.", "N", min=1)
    given_budget: mechanism_options.BudgetOption = None
    test: mechanism_options.TestOption = False
    republish: mechanism_options.RepublishOption = False

    @property
    def by_epoch(self) -> bool:
        """Whether all reports of an epoch are sent at its end."""
        return mechanism_options.is_epoch_emission(self.emission)

    @property
    def sample(self) -> ItemSample | None:
        """The sample of the scope, None for the whole scope."""
        if self.given_sample is None:
            return None
        from producers.journal import NANO
        from stream_app.privacy.ratings.item_sampling import ItemSample

        total = mechanism_options.positive_fraction("--sample", self.given_sample)
        if (total * NANO).denominator != 1:
            raise UsageError(
                f"--sample {self.given_sample[:40]}: give at most nine digits behind the point, "
                "as 2.5"
            )
        return ItemSample.from_budget(total)

    @property
    def pace(self) -> Pace:
        """How fast reports are sent."""
        from producers.fleet.replay import SPEEDS, Pace

        if self.speed == "max":
            return Pace()
        try:
            return Pace(float(self.speed))
        except ValueError:
            raise UsageError(f"--speed {self.speed[:40]}: give {SPEEDS}") from None

    @property
    def budget(self) -> PersonBudget:
        """The budget of users that are not enrolled: a sample is one for life, for every scope."""
        from producers.fleet.epoch_emission import sample_budget

        if self.sample is not None:
            return sample_budget(self.sample)
        return mechanism_options.population_budget(self.given_budget)

    def check(self) -> None:
        """Refuse values that are none, and options that a sample determines."""
        _ = self.scale, self.by_epoch, self.pace, self.sample, self.limits
        if self.given_sample is None:
            _ = self.budget
            return
        if self.epsilon is not None:
            raise UsageError("--sample determines the epsilon of each report; leave --epsilon out")
        if self.given_budget is not None:
            raise UsageError("--sample is the user's budget, for life; leave --budget out")
        if self.rotate_every != 1:
            raise UsageError(
                f"--rotate-every {self.rotate_every}: a sample is drawn once from the whole scope; "
                "leave --rotate-every out"
            )

    def mechanism_on(self, scale: Scale) -> Mechanism:
        """Return the mechanism on this scale; refuses options that do not go with it."""
        sample = self.sample
        mechanism = self.named_mechanism(
            scale, self.epsilon if sample is None else str(sample.epsilon)
        )
        hidden = mechanism_options.hides_presence(mechanism)
        if hidden and not self.by_epoch:
            raise UsageError(
                f"{mechanism.id} hides whether a rating exists, and a message at the moment of "
                "rating reveals it: give --emission epoch"
            )
        self.check_scope(mechanism, _OF_SCOPE)
        if self.by_epoch and self.limit is not None:
            raise UsageError(f"--limit {self.limit}: an epoch is sent whole; leave --limit out")
        if sample is not None and not hidden:
            raise UsageError(
                f"--sample needs a mechanism that hides which items were rated, not {mechanism.id}"
            )
        return mechanism


def replay(
    context: typer.Context,
    cluster: Cluster,
    options: ReplayCommandOptions,
    as_json: JsonOption = False,
) -> None:
    """Sanitize a file of ratings and publish it in time order.

    An interrupted replay continues where it stopped; a finished replay is not published twice.

    Example: murmurec replay ml-1m.zip --speed 20000
    """
    settings = cluster.settings()
    if mechanism_options.is_campaign(options.mode, settings):
        from stream_app.cli.device.replay.campaign_replay import check_options, replay_campaign

        check_options(context)
        mode = options.mode or settings.privacy_mode
        replay_campaign(options, mode, settings, as_json=as_json)
        return
    from stream_app.cli.device.replay.rating_replay import replay_file

    options.check()
    replay_file(options, settings, as_json=as_json)
