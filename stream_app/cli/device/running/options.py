"""The options of `murmurec device run` as one value, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.device.mechanism_options import (
    EpsilonOption,
    JournalOption,
    KeysOption,
    MechanismOption,
    ProducerPerAccountOption,
    RotateEveryOption,
    ScaleOption,
    ThinningOption,
    TrustClockOption,
    hides_presence,
    scale_from,
    share_from,
)
from stream_app.cli.device.scope_options import (
    AcceptScopeOption,
    MostCellsOption,
    ScopeOption,
    TrustCatalogueOption,
    check_scope_source,
)
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from producers.journal import Limits
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism

_MAX_PERIOD = 2**31


@dataclass(frozen=True)
class RunOptions:
    """Accounts, sources, mechanism and scope of a running device."""

    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="ID",
            help="The only user; without it lines name theirs (devices = signed needs it).",
        ),
    ] = None
    watched: Annotated[
        list[Path] | None,
        typer.Option("--watch", metavar="FILE", help="A file of ratings to follow; repeatable."),
    ] = None
    socket: Annotated[
        Path | None,
        typer.Option("--socket", metavar="PATH", help="A local socket (mode 0600) for ratings."),
    ] = None
    stdin: Annotated[bool, typer.Option("--stdin", help="Read ratings from the input.")] = False
    mechanism: MechanismOption = "rr"
    epsilon: EpsilonOption = None
    thinning: ThinningOption = None
    planned: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Report under the mechanism that the accounts were enrolled for (instead of "
            "--mechanism, --epsilon, --thinning).",
        ),
    ] = False
    given_scale: ScaleOption = None
    scope: ScopeOption = None
    accept_scope: AcceptScopeOption = None
    trust_catalogue: TrustCatalogueOption = False
    most_cells: MostCellsOption = 4096
    rotate_every: RotateEveryOption = 1
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", metavar="N", min=1, max=1000, help="Report each item N times, N times paid."
        ),
    ] = 1
    rounds_share: Annotated[
        str | None,
        typer.Option(
            "--rounds-share",
            metavar="SHARE",
            help="Part of the budget for items that were reported before, e.g. 1/2; the rest is "
            "for others.",
        ),
    ] = None
    keys: KeysOption = None
    campaign_scope: Annotated[
        Path | None,
        typer.Option(
            "--campaign-scope",
            metavar="FILE",
            help="Items of campaigns: with --keys every account contributes (or campaign_scope).",
        ),
    ] = None
    most_epsilon: Annotated[
        float,
        typer.Option("--most-epsilon", metavar="E", help="Take part in campaigns up to this."),
    ] = 2.0
    journal: JournalOption = None
    trust_clock: TrustClockOption = False
    trust_journal: Annotated[
        bool,
        typer.Option("--trust-journal", help="Go on where the topic holds later events."),
    ] = False
    producer_per_account: ProducerPerAccountOption = False

    @property
    def scale(self) -> Scale | None:
        """The scale of the ratings, None where the options state none."""
        return scale_from(self.given_scale)

    @property
    def limits(self) -> Limits:
        """What the journal is held to."""
        from producers.journal import Limits

        share = None if self.rounds_share is None else share_from(self.rounds_share)
        return Limits(trust_clock=self.trust_clock, reports=self.rounds, share=share)

    def check(self, mechanism: Mechanism) -> None:
        """Refuse options that do not go together."""
        hidden = hides_presence(mechanism)
        scoped = self.rotate_every != 1 or self.rounds != 1
        if not hidden and (self.scope or self.trust_catalogue or scoped):
            raise UsageError(
                "--scope, --trust-catalogue, --rotate-every and --rounds need a mechanism that "
                f"hides which items were rated, not {mechanism.id}"
            )
        if self.rounds_share is not None and self.rounds == 1:
            raise UsageError("--rounds-share: is of later rounds; give --rounds N, 2 or more")
        if hidden:
            check_scope_source(mechanism.id, self.scope, trusted=self.trust_catalogue)
        if not 1 <= self.rotate_every <= _MAX_PERIOD:
            raise UsageError(
                f"--rotate-every {str(self.rotate_every)[:40]}: give 1 to {_MAX_PERIOD} epochs"
            )
