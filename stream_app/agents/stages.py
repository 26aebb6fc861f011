"""What a runtime and its queries call of the stages that are attached to it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from fractions import Fraction
from typing import Any, Protocol

from stream_app.agents.checkpointing.digest_comparison import Digests
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.wire import Cut, DigestReport
from stream_app.wire.state_records import Manifest


class Checkpoints(Protocol):
    """The part of the checkpoint service that a runtime calls."""

    @property
    def wanted(self) -> bool:
        """Whether a checkpoint is due, so that the next cut ought to be marked for it."""

    def at_cut(self, cut: Cut, cut_offset: int, seconds: float) -> None:
        """Freeze the state, which is that of a cut, if a checkpoint or a digest is due; the round
        took `seconds` to apply."""

    def wrote(self, report: DigestReport) -> bool:
        """Return whether this worker wrote the digest report."""

    async def idle(self) -> None:
        """Return when nothing of the state is frozen."""

    def restart(self, manifest: Manifest | None) -> None:
        """Start over with a replica whose state was replaced, by a checkpoint if given."""

    async def digests(self) -> Digests:
        """Return the digests of the newest cut."""

    def status(self) -> dict[str, Any]:
        """Return the part of /state about the checkpoints."""


class Ranking(Protocol):
    """The part of the ranking service that a runtime calls."""

    def at_cut(self) -> None:
        """Hand work to the ranking thread; the state is that of a cut."""

    def restart(self) -> None:
        """Start over with a replica whose state was replaced."""


class PrivateLists(Protocol):
    """The part of the private lists that the queries call."""

    def answer(
        self, device: bytes, epsilon: Fraction, count: int, query: str
    ) -> RankedItems | Refused | Awaitable[RankedItems | Refused]:
        """Return a list that is drawn with `epsilon` for a device, or why there is none; a second
        answer to a query (correlation id) is refused."""


class NeighbourLists(Protocol):
    """The part of the neighbours of profiles that the queries call."""

    def answer(
        self, device: bytes, arrived: float
    ) -> RankedItems | Refused | Awaitable[RankedItems | Refused]:
        """Return what devices with a profile like that of a device have, or why there is none;
        `arrived`: perf_counter of the query."""


class Profiles(Protocol):
    """The part of the profiles that a runtime calls."""

    def forget(self, devices: Iterable[bytes]) -> None:
        """Reject the records of these devices from now on, and drop their profiles."""

    def summary(self) -> dict[str, Any]:
        """Return the part of /state about the profiles."""
