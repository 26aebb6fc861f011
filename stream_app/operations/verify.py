"""`murmurec state verify`: the log against everything that claims to be the state it leads to.

    log --recompute--> state at cut r   ==   newest checkpoint (cut r): arrays page by page, ledger
                       on the way       ==   every digest report of the same origin and design
                       and on to cut w  ==   each running worker's /state (cut w)

Where the log no longer reaches back to the origin, nothing can be recomputed: then the checkpoint
is compared with itself (every page with its digest, the ledger with the log that it covers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stream_app.checkpoints.shadow_copy import Snapshot
from stream_app.log.canonical_order import Start
from stream_app.operations import diff as comparing
from stream_app.operations.session import Session
from stream_app.operations.workers import ReportedState, ask
from stream_app.replay.cut_history import history, lost_origin
from stream_app.replay.follower import gone_before
from stream_app.replay.recompute import Replay, Replayed
from stream_app.state.replica import Replica
from stream_app.wire import DigestReport
from stream_app.wire.state_records import Manifest, StateOrigin


@dataclass
class Findings:
    """What was compared with what the log leads to, and what differs; `missing` is what could not
    be compared and why."""

    cut: int = 0
    origin: dict[str, Any] = field(default_factory=dict)
    model_digest: str = ""
    ledger_digest: str = ""
    compared: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def equal(self, strict: bool = False) -> bool:
        """Return whether nothing differs and, if `strict`, everything was compared."""
        return not self.differences and not (strict and self.missing)


def verify(session: Session, workers: tuple[str, ...] = ()) -> Findings:
    """Compare the newest checkpoint, the digest reports and the workers at these addresses with the
    log."""
    found = session.checkpoint()
    shown = {url: ask(url) for url in workers}
    manifest = found.manifest if found else None
    origin = manifest.origin if manifest else StateOrigin(0, (0,) * session.deployment.partitions)
    findings = Findings()
    if manifest is None:
        findings.missing.append(f"{session.names.state} holds no checkpoint")
    else:
        _tell(findings, manifest.cut, origin, manifest.model, manifest.ledger)
        pages = sum(len(array.slots) for array in manifest.arrays)
        findings.compared.append(f"checkpoint at cut {manifest.cut} with itself: {pages} pages")
    unable = _unable(session, origin)
    if unable:
        findings.missing += [unable, *(f"worker {url}: nothing to compare with" for url in shown)]
    else:
        _recompute(session, origin, manifest, shown, findings)
    return findings


def _tell(findings: Findings, cut: int, origin: StateOrigin, model: str, ledger: str) -> None:
    findings.cut, findings.origin = cut, msgspec.to_builtins(origin)
    findings.model_digest, findings.ledger_digest = model, ledger


def _unable(session: Session, origin: StateOrigin) -> str:
    """Return why nothing can be recomputed, empty where it can."""
    if origin.snapshot and session.snapshot is None:
        return f"the state began from the snapshot {origin.snapshot}: give it with --snapshot FILE"
    ratings = session.names.ratings
    gone = gone_before(session.connection, ratings, origin.end_offsets)
    return f"{gone}: the log no longer reaches back" if gone else ""


def _recompute(
    session: Session,
    origin: StateOrigin,
    manifest: Manifest | None,
    shown: Mapping[str, ReportedState],
    findings: Findings,
) -> None:
    """Compare with what the log leads to."""
    with session.display("reading the cut log") as progress:
        past = history(session.deployment, progress)
    if manifest is None and (
        lost := lost_origin(past, len(origin.end_offsets), session.spec.digest)
    ):
        findings.missing.append(
            f"a checkpoint was witnessed that began from something else than the log (base "
            f"{lost}): it is lost, and what is computed here is not that state"
        )
    with session.replay() as replay:
        digest_reports = _DigestReports(session.spec.digest, past.digest_reports, findings)
        replay.each_cut = digest_reports.compare
        state = replay.from_origin(origin, manifest.cut if manifest else None)
        if manifest is not None:
            _compare_checkpoint(manifest, state.replica, findings)
        for url, reported in sorted(shown.items(), key=lambda item: item[1].cut):
            if reported.cut < origin.cut:
                findings.missing.append(
                    f"worker {url} is at cut {reported.cut}, before the state "
                    f"begins (cut {origin.cut})"
                )
                continue
            state = _reach(replay, state, origin, reported.cut)
            _compare_worker(url, reported, state.replica, findings)
    replica = state.replica
    _tell(findings, replica.cut, replica.origin, replica.model_digest(), replica.ledger_digest())
    if digest_reports.compared:
        findings.compared.append(f"{digest_reports.compared} witnesses of the cut log with the log")
    if digest_reports.others:
        findings.missing.append(
            f"{digest_reports.others} witnesses are of another design or another base"
        )


def _compare_checkpoint(manifest: Manifest, replica: Replica, findings: Findings) -> None:
    findings.compared.append(f"checkpoint at cut {manifest.cut} with the log")
    if replica.origin == manifest.origin:
        found = comparing.differences(manifest, replica)
        findings.differences += [f"checkpoint at cut {manifest.cut}: {what}" for what in found]
    else:
        more = set(replica.origin.excluded) - set(manifest.origin.excluded)
        findings.differences.append(
            f"checkpoint at cut {manifest.cut}: it still holds devices that are forgotten with a "
            f"rebuild before it: {', '.join(sorted(more))}"
        )


def _reach(replay: Replay, state: Replayed, origin: StateOrigin, cut: int) -> Replayed:
    """Return the state at a cut: on from the one at hand, or from the origin."""
    replica = state.replica
    if cut < replica.cut:
        return replay.from_origin(origin, cut)
    if cut == replica.cut:
        return state
    return replay.go_on(state, Start(replica.cut, replica.end_offsets, state.cut_offset), cut)


def _compare_worker(
    url: str, reported: ReportedState, replica: Replica, findings: Findings
) -> None:
    ours = ReportedState(
        replica.cut,
        replica.end_offsets,
        replica.model_digest(),
        replica.ledger_digest(),
        replica.spec.digest,
        replica.origin,
    )
    findings.compared.append(f"worker {url} at cut {reported.cut} with the log")
    fields = zip(
        ReportedState.__struct_fields__, ReportedState.__struct_encode_fields__, strict=True
    )
    for field_name, name in fields:
        theirs, mine = getattr(reported, field_name), getattr(ours, field_name)
        if theirs != mine:
            findings.differences.append(
                f"worker {url} at cut {reported.cut}: {name} {theirs}, log {mine}"
            )


class _DigestReports:
    """Compares the state at each cut with what was witnessed of it, where both start from the
    same: each digest report once, though the replay may begin again."""

    def __init__(
        self, design: str, all_of_them: Iterable[DigestReport], findings: Findings
    ) -> None:
        self._design, self._findings = design, findings
        self._at: dict[int, list[tuple[int, DigestReport]]] = {}
        for number, digest_report in enumerate(all_of_them):
            self._at.setdefault(digest_report.cut, []).append((number, digest_report))
        self._reached: set[int] = set()
        self._compared: set[int] = set()
        self._copy: tuple[Replica, Snapshot] | None = None

    @property
    def compared(self) -> int:
        """How many were compared."""
        return len(self._compared)

    @property
    def others(self) -> int:
        """How many were reached that no state on the way could be compared with."""
        return len(self._reached - self._compared)

    def compare(self, replica: Replica) -> None:
        """Compare the state at a cut."""
        here = self._at.get(replica.cut, [])
        self._reached.update(number for number, _ in here)
        kind = self._design, replica.origin.digest
        ours = {n: w for n, w in here if n not in self._compared and (w.design, w.origin) == kind}
        if not ours:
            return
        self._compared |= ours.keys()
        model, ledger = self._digests(replica)
        for digest_report in ours.values():
            for name, theirs, mine in (
                ("model_digest", digest_report.model, model),
                ("ledger_digest", digest_report.ledger, ledger),
            ):
                if theirs != mine:
                    self._findings.differences.append(
                        f"witness of cut {digest_report.cut}: {name} {theirs}, log {mine}"
                    )

    def _digests(self, replica: Replica) -> tuple[str, str]:
        """Return the digests of a replica; of what it has not changed since, the old ones serve."""
        if self._copy is None or self._copy[0] is not replica:
            self._copy = replica, Snapshot(replica)
        snapshot = self._copy[1]
        snapshot.freeze()
        snapshot.hash()
        return snapshot.model, snapshot.ledger
