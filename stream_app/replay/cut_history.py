"""Reads the complete cut log: its cuts, forget entries and digest reports.

A replica processes these entries one by one; the operations of the command line need them at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stream_app.checkpoints.cut_log_scan import CutLogScan
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import topic_follower
from stream_app.log.cut_chain import Chain, Truncations
from stream_app.wire import Contract, Cut, DigestReport, Entry, Forget, WireError, decode_entry
from stream_app.wire.state_records import StateOrigin

MOST_REPORTS = 1 << 16  # 2 h of one a second and 16 MB


@dataclass(frozen=True)
class CutLogEntry:
    """A valid entry, and the offset after it in the cut log."""

    entry: Entry
    cut_offset: int


@dataclass(frozen=True)
class CutHistory:
    """The contents of the cut log: the cuts that are not superseded, each with the offset after it,
    and the other entries in log order; of the digest reports the newest `MOST_REPORTS`.
    `next_number` is the number of the next cut.

    `forgets` holds (number, entry): the device is forgotten before the round of that cut. An entry
    after the newest cut has the number that the next cut will get. `contracts` holds (number,
    version) likewise.
    """

    cuts: tuple[tuple[Cut, int], ...]
    forgets: tuple[tuple[int, Forget], ...]
    digest_reports: tuple[DigestReport, ...]
    contracts: tuple[tuple[int, int], ...] = ()
    next_number: int = 1

    def contract(self, cut: int) -> int:
        """Return the version of the event format by which the round of a cut was decoded."""
        return max((version for number, version in self.contracts if number <= cut), default=1)

    def forgotten(self, cut: int, rebuild_only: bool = False) -> tuple[str, ...]:
        """Return the devices that are forgotten in the state at a cut, sorted."""
        return tuple(
            sorted(
                {
                    forget.device
                    for number, forget in self.forgets
                    if number <= cut and (forget.rebuild or not rebuild_only)
                }
            )
        )


def _counting(
    deployment: Deployment,
    truncations: Truncations,
    progress: Callable[[int, int], None] | None,
) -> Iterator[CutLogEntry]:
    chain = Chain(0, (0,) * deployment.partitions, truncations)
    for message in topic_follower.records(deployment.connection, deployment.topics.cuts, progress):
        try:
            entry = decode_entry(message.value())
        except WireError:
            continue
        if isinstance(entry, DigestReport) and not entry.is_genuine(deployment.seal):
            continue
        if chain.take(entry):
            yield CutLogEntry(entry, message.offset() + 1)  # type: ignore[operator]


def history(
    deployment: Deployment,
    progress: Callable[[int, int], None] | None = None,
) -> CutHistory:
    """Return the contents of the cut log."""
    cuts: list[tuple[Cut, int]] = []
    forgets: list[tuple[int, Forget]] = []
    digest_reports: deque[DigestReport] = deque(maxlen=MOST_REPORTS)
    contracts: list[tuple[int, int]] = []
    truncations = CutLogScan(deployment.connection, deployment.topics.cuts).after(0, 0)
    next_number = truncations.last_before(0) + 1
    for logged in _counting(deployment, truncations, progress):
        match logged.entry:
            case Cut():
                cuts.append((logged.entry, logged.cut_offset))
                next_number = truncations.last_before(logged.entry.number) + 1
            case Forget():
                forgets.append((next_number, logged.entry))
            case Contract():
                contracts.append((next_number, logged.entry.version))
            case DigestReport():
                digest_reports.append(logged.entry)
    return CutHistory(
        tuple(cuts), tuple(forgets), tuple(digest_reports), tuple(contracts), next_number
    )


def lost_origin(found: CutHistory, partitions: int, design: str) -> str | None:
    """Return the digest of the origin of a lost state; None if the state can be computed from the
    log alone, or no digest report of the design exists.

    The newest digest report of the design carries the digest of its origin. A state computed from
    the log alone has an empty origin that excludes the first n devices to be forgotten with a
    rebuild, for some n: each device is excluded when its entry is reached.
    """
    newest = next((r for r in reversed(found.digest_reports) if r.design == design), None)
    if newest is None:
        return None
    devices = list(dict.fromkeys(f.device for _, f in found.forgets if f.rebuild))
    zero = (0,) * partitions
    for count in range(len(devices) + 1):
        if StateOrigin(0, zero, excluded=tuple(sorted(devices[:count]))).digest == newest.origin:
            return None
    return newest.origin


def check_origin(deployment: Deployment) -> None:
    """Refuse to start from the log alone if a digest report has another origin.

    Call it if the state topic holds no checkpoint; it reads the cut log once.
    """
    topics = deployment.topics
    if lost_origin(history(deployment), deployment.partitions, deployment.spec.digest):
        raise UserError(
            f"{topics.state} holds no checkpoint, but {topics.cuts} reports one that began from a "
            "snapshot or after a gap: the log alone gives another state; start with murmurec "
            "worker --from-snapshot FILE, or with --accept-gap or --rebuild, by which what that "
            "state alone held is lost"
        )
