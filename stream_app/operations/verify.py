"""`murmurec state verify`: compares the state of the log with checkpoint, reports and workers.

    log --recompute--> state at cut r   ==   newest checkpoint (cut r): arrays page by page, ledger
                       on the way       ==   every digest report of the same origin and design
                       and on to cut w  ==   each running worker's /state (cut w)

If the log no longer holds the records from the origin on, the state cannot be recomputed: then only
the checkpoint's consistency is checked (pages with their digests, ledger with the log it covers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from stream_app.checkpoints.design_in_force import in_force
from stream_app.checkpoints.design_line import DesignLine
from stream_app.checkpoints.state_image import StateImage
from stream_app.operations.session import Session
from stream_app.operations.watching.workers import ReportedState, ask
from stream_app.replay.cut_history import history, lost_origin
from stream_app.replay.log_bounds import gone_before
from stream_app.replay.recompute import Replay, Replayed
from stream_app.state.digests import pages
from stream_app.state.replica import Replica
from stream_app.wire import DigestReport
from stream_app.wire.state_records import (
    DIGEST_BYTES,
    ArrayPages,
    Manifest,
    SmallArray,
    StateOrigin,
    page_digest,
)

_SHOWN = 4


def differences(manifest: Manifest, replica: Replica) -> list[str]:
    """Return one sentence per difference between a checkpoint and the state of the log."""
    if manifest.design != replica.spec.digest:
        return [f"design {manifest.design} of the checkpoint is not {replica.spec.digest}"]
    found = []
    if manifest.end_offsets != replica.end_offsets:
        found.append(
            f"positions: checkpoint {list(manifest.end_offsets)}, log {list(replica.end_offsets)}"
        )
    found += _of_model(manifest.arrays, replica)
    found += _of_ledger(manifest.ledger_arrays, replica.ledger.small_arrays())
    if not found and manifest.model != replica.model_digest():
        found.append(f"model digest: checkpoint {manifest.model}, log {replica.model_digest()}")
    if not found and manifest.ledger != replica.ledger_digest():
        found.append(f"ledger digest: checkpoint {manifest.ledger}, log {replica.ledger_digest()}")
    return found


def _of_model(held: Sequence[ArrayPages], replica: Replica) -> list[str]:
    recorded = {array.name: array for array in held}
    computed = replica.model_arrays()
    found = [f"model {name}: only in the checkpoint" for name in sorted(recorded.keys() - computed)]
    found += [f"model {name}: not in the checkpoint" for name in sorted(computed.keys() - recorded)]
    for name in sorted(recorded.keys() & computed.keys()):
        array, values = recorded[name], computed[name]
        if (array.dtype, array.shape) != (values.dtype.str, values.shape):
            found.append(
                f"model {name}: checkpoint {array.dtype}{list(array.shape)}, "
                f"log {values.dtype.str}{list(values.shape)}"
            )
            continue
        digests = [page_digest(page.data) for page in pages(values)]
        differing = [
            number
            for number, digest in enumerate(digests)
            if digest != array.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
        ]
        if differing:
            found.append(
                f"model {name}: {len(differing)} of {len(digests)} pages differ "
                f"({_shortened(differing)})"
            )
    return found


def _of_ledger(held: Sequence[SmallArray], own: Sequence[SmallArray]) -> list[str]:
    recorded, computed = {a.name: a for a in held}, {a.name: a for a in own}
    found = []
    for name in sorted(recorded.keys() | computed.keys()):
        before, after = recorded.get(name), computed.get(name)
        if before is None or after is None:
            found.append(f"ledger {name}: {'not' if before is None else 'only'} in the checkpoint")
        elif before != after:
            found.append(f"ledger {name}: checkpoint {_values(before)}, log {_values(after)}")
    return found


def _values(array: SmallArray) -> str:
    """Return the first elements of a small array as text."""
    values = np.frombuffer(array.data, array.dtype).tolist()
    return f"[{_shortened(values)}]"


def _shortened(numbers: Sequence[int]) -> str:
    shortened = ", ".join(map(str, numbers[:_SHOWN]))
    return f"{shortened}, ..." if len(numbers) > _SHOWN else shortened


@dataclass
class Findings:
    """The comparisons made with the state of the log, the differences, and in `missing` the
    comparisons that were not possible, with the reason."""

    cut: int = 0
    origin: dict[str, Any] = field(default_factory=dict)
    model_digest: str = ""
    ledger_digest: str = ""
    compared: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def equal(self, strict: bool = False) -> bool:
        """Return whether there is no difference and, if `strict`, no missing comparison."""
        return not self.differences and not (strict and self.missing)


def verify(session: Session, workers: tuple[str, ...] = (), token: str | None = None) -> Findings:
    """Compare the newest checkpoint, the digest reports and the workers at these addresses, which
    may ask for a token, with the log."""
    manifest = session.manifest()
    shown = {url: ask(url, token) for url in workers}
    origin = manifest.origin if manifest else StateOrigin(0, (0,) * session.deployment.partitions)
    findings = Findings()
    if manifest is None:
        findings.missing.append(f"{session.names.state} holds no checkpoint")
    else:
        _record(findings, manifest.cut, origin, manifest.model, manifest.ledger)
        pages = sum(len(array.slots) for array in manifest.arrays)
        findings.compared.append(f"checkpoint at cut {manifest.cut} with itself: {pages} pages")
    if session.snapshot is not None and session.snapshot.is_divided_for(session.spec):
        findings.compared.append(
            f"origin: the share of shard {session.spec.shard} of the snapshot "
            f"{session.snapshot.digest}, a state of cut {session.snapshot.meta.cut}"
        )
    obstacle = _obstacle(session, origin)
    if obstacle:
        findings.missing += [obstacle, *(f"worker {url}: nothing to compare with" for url in shown)]
    else:
        _recompute(session, origin, manifest, shown, findings)
    return findings


def _record(findings: Findings, cut: int, origin: StateOrigin, model: str, ledger: str) -> None:
    findings.cut, findings.origin = cut, msgspec.to_builtins(origin)
    findings.model_digest, findings.ledger_digest = model, ledger


def _obstacle(session: Session, origin: StateOrigin) -> str:
    """Return why the state cannot be recomputed, empty if it can."""
    if origin.snapshot and session.snapshot is None:
        return f"the state began from the snapshot {origin.snapshot}: give it with --snapshot FILE"
    missing = gone_before(session.deployment, origin.end_offsets)
    return f"{missing}: the log does not hold the records from the origin on" if missing else ""


def _recompute(
    session: Session,
    origin: StateOrigin,
    manifest: Manifest | None,
    shown: Mapping[str, ReportedState],
    findings: Findings,
) -> None:
    """Recompute the state and compare checkpoint, digest reports and workers with it."""
    with session.display("reading the cut log") as progress:
        logged = history(session.deployment, progress)
    if manifest is None and (
        lost := lost_origin(logged, len(origin.end_offsets), session.spec.digest)
    ):
        findings.missing.append(
            f"a digest report names a checkpoint that did not begin from the log (origin {lost}): "
            "the checkpoint is lost, and the state computed here is another one"
        )
    with session.replay() as replay:
        digest_reports = DigestReports(logged.digest_reports, findings)
        replay.each_cut = digest_reports.compare
        cut, design = (manifest.cut, manifest.design) if manifest else (None, "")
        if cut == 0:  # the entry that opens the log comes later, and may name another design
            replay.line = DesignLine(in_force(session.deployment).first)
        state = replay.from_origin(origin, cut, design)
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
    _record(findings, replica.cut, replica.origin, replica.model_digest(), replica.ledger_digest())
    if digest_reports.compared:
        findings.compared.append(f"{digest_reports.compared} digest reports with the log")
    if digest_reports.others:
        findings.missing.append(
            f"{digest_reports.others} digest reports are of another design or another origin"
        )


def _compare_checkpoint(manifest: Manifest, replica: Replica, findings: Findings) -> None:
    findings.compared.append(f"checkpoint at cut {manifest.cut} with the log")
    if replica.origin == manifest.origin:
        found = differences(manifest, replica)
        findings.differences += [f"checkpoint at cut {manifest.cut}: {line}" for line in found]
    else:
        more = set(replica.origin.excluded) - set(manifest.origin.excluded)
        findings.differences.append(
            f"checkpoint at cut {manifest.cut}: it contains devices that were forgotten with a "
            f"rebuild before it: {', '.join(sorted(more))}"
        )


def _reach(replay: Replay, state: Replayed, origin: StateOrigin, cut: int) -> Replayed:
    """Return the state at a cut: advanced from the current one, or recomputed from the origin."""
    replica = state.replica
    if cut < replica.cut:
        return replay.from_origin(origin, cut)
    if cut == replica.cut:
        return state
    return replay.go_on(state, state.position, cut)


def _compare_worker(
    url: str, reported: ReportedState, replica: Replica, findings: Findings
) -> None:
    expected = ReportedState(
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
        shown, computed = getattr(reported, field_name), getattr(expected, field_name)
        if shown != computed:
            findings.differences.append(
                f"worker {url} at cut {reported.cut}: {name} {shown}, log {computed}"
            )


class DigestReports:
    """Compares the state at each cut with the digest reports of that cut and the same origin; each
    report once, even if the replay restarts."""

    def __init__(self, reports: Iterable[DigestReport], findings: Findings) -> None:
        self._findings = findings
        self._at: dict[int, list[tuple[int, DigestReport]]] = {}
        for number, digest_report in enumerate(reports):
            self._at.setdefault(digest_report.cut, []).append((number, digest_report))
        self._reached: set[int] = set()
        self._compared: set[int] = set()
        self._hashed: tuple[Replica, str, StateImage] | None = None  # of the last call's design

    @property
    def compared(self) -> int:
        """Number of reports compared."""
        return len(self._compared)

    @property
    def others(self) -> int:
        """Number of reports reached but not comparable with the state at their cut."""
        return len(self._reached - self._compared)

    def compare(self, replica: Replica) -> None:
        """Compare the state at a cut."""
        reports = self._at.get(replica.cut, [])
        self._reached.update(number for number, _ in reports)
        kind = replica.spec.digest, replica.origin.digest
        new = {n: r for n, r in reports if n not in self._compared and (r.design, r.origin) == kind}
        if not new:
            return
        self._compared |= new.keys()
        model, ledger = self._digests(replica)
        for digest_report in new.values():
            for name, reported, computed in (
                ("model_digest", digest_report.model, model),
                ("ledger_digest", digest_report.ledger, ledger),
            ):
                if reported != computed:
                    self._findings.differences.append(
                        f"digest report of cut {digest_report.cut}: {name} {reported}, "
                        f"log {computed}"
                    )

    def _digests(self, replica: Replica) -> tuple[str, str]:
        """Return the digests of a replica; only pages changed since the last call are hashed."""
        design = replica.spec.digest
        if self._hashed is None or self._hashed[:2] != (replica, design):
            self._hashed = replica, design, StateImage(replica)
        return self._hashed[2].digest()
