"""The options of programs that report: mechanism and journal, public scope and parties.

`murmurec publish`, `replay` and `device run` inherit them and add their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from stream_app.cli.commands import option
from stream_app.cli.device import mechanism_options
from stream_app.cli.options import shared
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from producers.journal import Limits
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism

ScopeOption = Annotated[
    Path | None, shared("Public items to report on, one a line; its SHA-256 is pinned.", "FILE")
]
AcceptScopeOption = Annotated[
    str | None, shared("Accept another --scope than the stored one.", "SHA256")
]
MostCellsOption = Annotated[int, shared("Items that a scope may have.", "N", min=1)]
KeysOption = Annotated[
    list[Path] | None,
    shared("Public half of a party of campaigns: a, then b (or campaign_keys).", "PUB"),
]
MostEpsilonOption = Annotated[str, shared("Take part in campaigns that state up to E.", "E")]
_LONGEST_ROTATION = 2**31  # epochs


@dataclass(frozen=True, kw_only=True)
class MechanismOptions:
    """The mechanism of reports on a scale, and the journal that pays for them."""

    mechanism: mechanism_options.MechanismOption = "rr"
    epsilon: mechanism_options.EpsilonOption = None
    given_scale: mechanism_options.ScaleOption = None
    journal: mechanism_options.JournalOption = None
    trust_clock: mechanism_options.TrustClockOption = False
    trust_journal: mechanism_options.TrustJournalOption = False

    @property
    def scale(self) -> Scale | None:
        """The scale of the ratings, None where the options state none."""
        return mechanism_options.scale_from(self.given_scale)

    @property
    def limits(self) -> Limits:
        """What the journal is held to."""
        from producers.journal import Limits

        return Limits(trust_clock=self.trust_clock)


@dataclass(frozen=True, kw_only=True)
class ReportingOptions(MechanismOptions):
    """Mechanism, scope and journal of a program that reports for several accounts."""

    thinning: mechanism_options.ThinningOption = None
    scope: ScopeOption = None
    accept_scope: AcceptScopeOption = None
    trust_catalogue: bool = option(
        False, "Without --scope, the server's catalogue: its writers choose items."
    )
    rotate_every: int = option(1, "Report each item once every N epochs.", "N")
    keys: KeysOption = None
    producer_per_account: bool = option(
        False, "A producer for each account: no producer id ties their events."
    )

    def named_mechanism(self, scale: Scale, epsilon: str | None) -> Mechanism:
        """Return the mechanism that the options name, on this scale."""
        return mechanism_options.mechanism_from(self.mechanism, epsilon, scale, self.thinning)

    def check_scope(self, mechanism: Mechanism, names: str, *, more: bool = False) -> None:
        """Refuse `names`, the options of a scope, for a mechanism without one, and a mechanism
        that needs a scope without exactly one source of it; `more`: whether others than --scope,
        --trust-catalogue and --rotate-every are given."""
        hidden = mechanism_options.hides_presence(mechanism)
        rotated = self.rotate_every != 1
        if not hidden and (self.scope or self.trust_catalogue or rotated or more):
            raise UsageError(
                f"{names} need a mechanism that hides which items were rated, not {mechanism.id}"
            )
        if not 1 <= self.rotate_every <= _LONGEST_ROTATION:
            raise UsageError(
                f"--rotate-every {str(self.rotate_every)[:40]}: give 1 to {_LONGEST_ROTATION} "
                "epochs"
            )
        if hidden and (self.scope is None) == (not self.trust_catalogue):
            raise UsageError(
                f"{mechanism.id} reports on a public list of items: give it with --scope FILE, or "
                "take the server's with --trust-catalogue, whose writers then choose on what the "
                "budget is spent"
            )
