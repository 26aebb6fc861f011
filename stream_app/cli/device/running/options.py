"""The options of `murmurec device run` as one value, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from producers.journal import Limits
from producers.scale import Scale
from stream_app.cli.device.mechanism_options import hides_presence
from stream_app.cli.device.scope_options import check_scope_source
from stream_app.errors import UsageError
from stream_app.privacy.mechanism import Mechanism

_MAX_PERIOD = 2**31


@dataclass(frozen=True)
class RunOptions:
    """Accounts, sources, mechanism and scope of a running device."""

    user: str | None
    planned: bool
    watched: tuple[Path, ...]
    socket: Path | None
    stdin: bool
    family: str
    epsilon: str | None
    thinning: str | None
    scale: Scale | None
    scope: Path | None
    accept_scope: str | None
    trust_catalogue: bool
    most_cells: int
    rotate_every: int
    rounds: int
    journal: Path
    limits: Limits
    trust_journal: bool
    producer_per_account: bool
    keys: tuple[Path, ...] = ()
    campaign_scope: Path | None = None
    most_epsilon: float = 2.0

    def check(self, mechanism: Mechanism) -> None:
        """Refuse options that do not go together."""
        hidden = hides_presence(mechanism)
        scoped = self.rotate_every != 1 or self.rounds != 1
        if not hidden and (self.scope or self.trust_catalogue or scoped):
            raise UsageError(
                "--scope, --trust-catalogue, --rotate-every and --rounds need a mechanism that "
                f"hides which items were rated, not {mechanism.id}"
            )
        if self.limits.share is not None and self.rounds == 1:
            raise UsageError("--rounds-share: is of later rounds; give --rounds N, 2 or more")
        if hidden:
            check_scope_source(mechanism.id, self.scope, trusted=self.trust_catalogue)
        if not 1 <= self.rotate_every <= _MAX_PERIOD:
            raise UsageError(
                f"--rotate-every {str(self.rotate_every)[:40]}: give 1 to {_MAX_PERIOD} epochs"
            )
