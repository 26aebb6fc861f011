"""The options of `murmurec replay` as values, checked against each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from producers.fleet.replay import SPEEDS, Pace
from producers.journal import NANO, Limits, PersonBudget
from producers.scale import Scale
from stream_app.cli.device.mechanism_options import (
    hides_presence,
    mechanism_from,
    positive_fraction,
)
from stream_app.cli.device.scope_options import check_scope_source
from stream_app.errors import UsageError
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.item_sampling import ItemSample

_MAX_PERIOD = 2**31


@dataclass(frozen=True)
class ReplayCommandOptions:
    """The data, mechanism, accounts, time and pace of a replay; `budget`: of users that are not
    enrolled.

    `sample` is None unless a device reports on a secret sample of the scope; `by_epoch`: all
    reports of an epoch at its end.
    """

    file: Path
    scale: Scale | None
    family: str
    epsilon: str | None
    thinning: str | None
    by_epoch: bool
    scope: Path | None
    accept_scope: str | None
    trust_catalogue: bool
    rotate_every: int
    sample: ItemSample | None
    pace: Pace
    limit: int | None
    budget: PersonBudget
    limits: Limits
    journal: Path
    test: bool
    producer_per_account: bool
    republish: bool

    def mechanism(self, scale: Scale) -> Mechanism:
        """Return the mechanism on this scale; refuses options that do not go with it."""
        mechanism = mechanism_from(self.family, self.epsilon, scale, self.thinning)
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
        if self.sample is not None and not hidden:
            raise UsageError(
                f"--sample needs a mechanism that hides which items were rated, not {mechanism}"
            )


def sample_from(text: str | None) -> ItemSample | None:
    """Return the item sample of this total epsilon, None without the option."""
    if text is None:
        return None
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
    if text == "max":
        return Pace()
    try:
        return Pace(float(text))
    except ValueError:
        raise UsageError(f"--speed {text[:40]}: give {SPEEDS}") from None
