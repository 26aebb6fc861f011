"""The cut log read at once: every entry that it holds now, and which of them count.

What a replica takes bit by bit is read here in one go by operations on the past: which cuts
there were, which checkpoints were witnessed, who was to be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import compacted
from stream_app.log.canonical_order import Chain
from stream_app.wire import Cut, DigestReport, Entry, Forget, WireError, decode_entry
from stream_app.wire.state_records import StateOrigin


@dataclass(frozen=True)
class CutLogEntry:
    """An entry that counts, and where the cut log goes on after it."""

    entry: Entry
    cut_offset: int


@dataclass(frozen=True)
class CutHistory:
    """What the cut log holds: the cuts from number 1 on, each with where the log goes on after it,
    and the rest in its order.

    `forgets` are the devices with the number of the cut whose round they are forgotten before; one
    that still waits for its cut has the number after the newest.
    """

    cuts: tuple[tuple[Cut, int], ...]
    forgets: tuple[tuple[int, Forget], ...]
    digest_reports: tuple[DigestReport, ...]

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


def entries(
    deployment: Deployment,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[CutLogEntry]:
    """Yield the entries that count, from the first to the newest."""
    chain = Chain(0, (0,) * deployment.partitions)
    for message in compacted.records(deployment.connection, deployment.topics.cuts, progress):
        try:
            entry = decode_entry(message.value())
        except WireError:
            continue
        if chain.take(entry):
            yield CutLogEntry(entry, message.offset() + 1)  # type: ignore[operator]


def history(
    deployment: Deployment,
    progress: Callable[[int, int], None] | None = None,
) -> CutHistory:
    """Return what the cut log holds now."""
    cuts: list[tuple[Cut, int]] = []
    forgets: list[tuple[int, Forget]] = []
    digest_reports: list[DigestReport] = []
    for past in entries(deployment, progress):
        match past.entry:
            case Cut():
                cuts.append((past.entry, past.cut_offset))
            case Forget():
                forgets.append((len(cuts) + 1, past.entry))
            case DigestReport():
                digest_reports.append(past.entry)
    return CutHistory(tuple(cuts), tuple(forgets), tuple(digest_reports))


def lost_origin(past: CutHistory, partitions: int, design: str) -> str | None:
    """Return the digest of what a lost state had started from, None where the log alone leads to
    it or nothing is known.

    The newest digest report of the design tells. From the log alone a state starts at nothing,
    without the first few of those who were to be forgotten with a rebuild: each was left out when
    its entry was reached."""
    newest = next((w for w in reversed(past.digest_reports) if w.design == design), None)
    if newest is None:
        return None
    left_out = list(dict.fromkeys(f.device for _, f in past.forgets if f.rebuild))
    zero = (0,) * partitions
    for count in range(len(left_out) + 1):
        if StateOrigin(0, zero, excluded=tuple(sorted(left_out[:count]))).digest == newest.origin:
            return None
    return newest.origin


def check_origin(deployment: Deployment) -> None:
    """Refuse to start from the log alone where a checkpoint was witnessed that did not.

    To be asked where the state topic holds no checkpoint; the cut log is read once.
    """
    topics = deployment.topics
    if lost_origin(history(deployment), deployment.partitions, deployment.spec.digest):
        raise UserError(
            f"{topics.state} holds no checkpoint, but {topics.cuts} tells of one that began from a "
            "snapshot or behind a gap: the log alone leads to another state; begin with murmurec "
            "worker --from-snapshot FILE, or accept the other state with --accept-gap or --rebuild"
        )
