"""The options of `murmurec replay` as values, checked against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

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
    RotateEveryOption,
    ScaleOption,
    TestOption,
    ThinningOption,
    TrustClockOption,
    hides_presence,
    is_epoch_emission,
    mechanism_from,
    population_budget,
    positive_fraction,
    scale_from,
)
from stream_app.cli.device.scope_options import (
    AcceptScopeOption,
    ScopeOption,
    TrustCatalogueOption,
    check_scope_source,
)
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from producers.fleet.replay import Pace
    from producers.journal import Limits, PersonBudget
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.privacy.ratings.item_sampling import ItemSample

_MAX_PERIOD = 2**31


@dataclass(frozen=True)
class ReplayCommandOptions:
    """The data, mechanism, accounts, time and pace of a replay.

    `given_sample`: a device reports on a secret sample of the scope; `given_budget`: of users that
    are not enrolled.
    """

    file: RatingsArgument
    mode: ModeOption = None
    keys: KeysOption = None
    mechanism: MechanismOption = "rr"
    epsilon: EpsilonOption = None
    thinning: ThinningOption = None
    emission: EmissionOption = "immediate"
    scope: ScopeOption = None
    accept_scope: AcceptScopeOption = None
    trust_catalogue: TrustCatalogueOption = False
    rotate_every: RotateEveryOption = 1
    given_sample: Annotated[
        str | None,
        typer.Option(
            "--sample",
            metavar="E",
            help="Spend E per user for life, on a secret sample of E / 2.5 items of the scope.",
        ),
    ] = None
    speed: Annotated[
        str, typer.Option("--speed", metavar="N", help="Reports per second, or max.")
    ] = "max"
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Publish at most N rows.")
    ] = None
    given_scale: ScaleOption = None
    given_budget: BudgetOption = None
    journal: JournalOption = None
    producer_per_account: ProducerPerAccountOption = False
    test: TestOption = False
    republish: RepublishOption = False
    trust_clock: TrustClockOption = False

    @property
    def scale(self) -> Scale | None:
        """The scale of the ratings, None where the file tells it."""
        return scale_from(self.given_scale)

    @property
    def by_epoch(self) -> bool:
        """Whether all reports of an epoch are sent at its end."""
        return is_epoch_emission(self.emission)

    @property
    def sample(self) -> ItemSample | None:
        """The sample of the scope, None for the whole scope."""
        return sample_from(self.given_sample)

    @property
    def pace(self) -> Pace:
        """How fast reports are sent."""
        return pace_from(self.speed)

    @property
    def limits(self) -> Limits:
        """What the journal is held to."""
        from producers.journal import Limits

        return Limits(trust_clock=self.trust_clock)

    @property
    def budget(self) -> PersonBudget:
        """The budget of users that are not enrolled: a sample is one for life, for every scope."""
        from producers.fleet.epoch_emission import sample_budget

        sample = self.sample
        return population_budget(self.given_budget) if sample is None else sample_budget(sample)

    def check(self) -> None:
        """Refuse values that are none, and options that do not go with a sample."""
        check_sample(self.sample, self.epsilon, self.given_budget, self.rotate_every)
        _ = self.scale, self.by_epoch, self.pace, self.budget, self.limits

    def mechanism_on(self, scale: Scale) -> Mechanism:
        """Return the mechanism on this scale; refuses options that do not go with it."""
        sample = self.sample
        epsilon = self.epsilon if sample is None else str(sample.epsilon)
        mechanism = mechanism_from(self.mechanism, epsilon, scale, self.thinning)
        self._check(mechanism.id, hides_presence(mechanism))
        return mechanism

    def _check(self, mechanism: str, hidden: bool) -> None:
        if hidden and not self.by_epoch:
            raise UsageError(
                f"{mechanism} hides whether a rating exists, and a message at the moment of rating "
                "reveals it: give --emission epoch"
            )
        if not hidden and (self.scope or self.trust_catalogue or self.rotate_every != 1):
            raise UsageError(
                "--scope, --trust-catalogue and --rotate-every need a mechanism that hides which "
                f"items were rated, not {mechanism}"
            )
        if not 1 <= self.rotate_every <= _MAX_PERIOD:
            raise UsageError(
                f"--rotate-every {str(self.rotate_every)[:40]}: give 1 to {_MAX_PERIOD} epochs"
            )
        if hidden:
            check_scope_source(mechanism, self.scope, trusted=self.trust_catalogue)
        if self.by_epoch and self.limit is not None:
            raise UsageError(f"--limit {self.limit}: an epoch is sent whole; leave --limit out")
        if self.given_sample is not None and not hidden:
            raise UsageError(
                f"--sample needs a mechanism that hides which items were rated, not {mechanism}"
            )


def sample_from(text: str | None) -> ItemSample | None:
    """Return the item sample of this total epsilon, None without the option."""
    if text is None:
        return None
    from producers.journal import NANO
    from stream_app.privacy.ratings.item_sampling import ItemSample

    total = positive_fraction("--sample", text)
    if (total * NANO).denominator != 1:
        raise UsageError(f"--sample {text[:40]}: give at most nine digits behind the point, as 2.5")
    return ItemSample.from_budget(total)


def check_sample(
    sample: ItemSample | None,
    epsilon: str | None,
    budget: str | None,
    rotate_every: int,
) -> None:
    """Refuse options that a sample determines."""
    if sample is None:
        return
    if epsilon is not None:
        raise UsageError("--sample determines the epsilon of each report; leave --epsilon out")
    if budget is not None:
        raise UsageError("--sample is the user's budget, for life; leave --budget out")
    if rotate_every != 1:
        raise UsageError(
            f"--rotate-every {rotate_every}: a sample is drawn once from the whole scope; leave "
            "--rotate-every out"
        )


def pace_from(text: str) -> Pace:
    """Return the pace of `--speed`: reports per second, or max."""
    from producers.fleet.replay import SPEEDS, Pace

    if text == "max":
        return Pace()
    try:
        return Pace(float(text))
    except ValueError:
        raise UsageError(f"--speed {text[:40]}: give {SPEEDS}") from None
