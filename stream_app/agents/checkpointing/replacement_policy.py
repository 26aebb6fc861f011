"""When a worker replaces its state: after a divergence, and when a device is forgotten with a
rebuild.

    digest report differs ── alarm, evidence, own digests into the cut log ── reload
    forget with rebuild   ────────────────────────────────────────────────── reload

Where the log reaches back to the origin it decides: this worker reports its own digests, so both
replicas replay the log, which corrects the wrong replica. Otherwise the checkpoint decides.

Without a secret every writer of the cut log can make false reports, so their cost is bounded: one
reload answers for every report up to its cut, and only three reloads come without ten cuts in
between at which a report agrees; then the worker ends and names the ways out.

Evidence of a divergence: the whole state as a snapshot file, and both digest reports.

The state is computed from released reports, like all data of the server. The newest three snapshots
are kept.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from stream_app.agents.checkpointing.digest_comparison import DigestComparison, Digests
from stream_app.agents.checkpointing.restore import Reload
from stream_app.checkpoints import snapshot_file
from stream_app.errors import UserError
from stream_app.monitoring.metrics import Metrics
from stream_app.replay.recompute import excluding
from stream_app.state.replica import Replica
from stream_app.wire import DigestReport, Forget

log = structlog.get_logger()
_RELOADS = 3
_AGREED_CUTS = 10  # between two differences that do not count together


class ReplacementPolicy:
    """Decides when the state is replaced; used on the event loop, `reload` is read by all threads.

    `fail` ends the process; `report` appends a digest report to the cut log; `mid_round` returns
    whether a round is open, so that the state belongs to no cut.
    """

    def __init__(
        self,
        replica: Replica,
        metrics: Metrics,
        evidence_folder: Path,
        fail: Callable[[BaseException], None],
        report: Callable[[DigestReport], None],
        mid_round: Callable[[], bool],
    ) -> None:
        self.reload: Reload | None = None
        self.comparison = DigestComparison(replica.spec.digest, self._on_difference)
        self._replica = replica
        self._metrics = metrics
        self._evidence_folder = evidence_folder
        self._fail = fail
        self._report = report
        self._mid_round = mid_round
        self._reloads = 0
        self._settled_cut = -1  # differences up to this cut led to a reload

    def restart(self) -> None:
        """Start over with a replica whose state was replaced."""
        self.reload = None
        self.comparison.clear()

    def begin_again(self) -> None:
        """Request another state, because an entry of the cut log superseded cuts."""
        if self.reload is None:
            self.reload = Reload("the log was truncated to an earlier cut")

    def take_over(self) -> None:
        """Request the state of a design that was built beside this one."""
        if self.reload is None:
            self.reload = Reload("another design takes over", serving=True)

    def rebuild_without(self, entry: Forget) -> None:
        """Request a state without the device, unless the current state excludes the device already.

        Raises UserError where the state began from a snapshot, which cannot be recomputed.
        """
        origin = self._replica.origin
        if entry.device in origin.excluded:
            return
        if origin.snapshot:
            raise UserError(
                f"cut {self._replica.cut}: a device is to be forgotten with a rebuild, but the "
                f"state began from the snapshot {origin.snapshot}: start over with murmurec state "
                "rebuild --snapshot FILE"
            )
        self.reload = Reload("a device is forgotten", excluding(origin, [entry.device]))

    def _on_difference(self, report: DigestReport, own: Digests) -> None:
        """Another replica reported other digests: raise the alarm, keep the evidence, reload."""
        if self.reload is not None or report.cut <= self._settled_cut:
            return
        self._settled_cut = self._replica.cut
        self._metrics.replica_differs()
        log.error(
            "replica.differs",
            cut=report.cut,
            ours=[own.model, own.ledger],
            theirs=[report.model, report.ledger],
            fix="run murmurec state verify to find the replica that deviates from the log",
        )
        replica = self._replica
        answer = DigestReport(own.cut, own.model, own.ledger, replica.spec.digest, own.origin)
        self._report(answer)
        if self.comparison.agreed_before >= _AGREED_CUTS:
            self._reloads = 0
        self._reloads += 1
        if self._reloads > _RELOADS:
            self._fail(
                UserError(
                    f"the state differs from another replica's at cut {report.cut} again, after "
                    f"{_RELOADS} reloads: run murmurec state verify, and replace the machine that "
                    "is wrong, or the checkpoint (murmurec state rebuild); if no machine is wrong, "
                    "the digest reports are forged: set state_secret, and revoke foreign WRITE on "
                    "the cut log"
                )
            )
            return
        self._keep_evidence(report, own)
        origin = None if replica.origin.snapshot else replica.origin
        self.reload = Reload("this replica and another differ", origin, or_checkpoint=True)

    def _keep_evidence(self, report: DigestReport, own: Digests) -> None:
        folder = self._evidence_folder
        try:
            path = keep_evidence(folder, self._replica, report, own, self._mid_round())
            log.error("replica.evidence", path=str(path))
        except (OSError, UserError) as reason:
            # A full disk must not keep a wrong state alive.
            log.error("replica.evidence_lost", reason=str(reason))


_KEPT = 3


def keep_evidence(
    folder: Path, replica: Replica, report: DigestReport, ours: Digests, mid_round: bool
) -> Path:
    """Write the evidence and return the snapshot's path; the replica must not change meanwhile.

    File names contain time and process id: workers may share the folder, and a cut may recur.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{time.time_ns()}-{os.getpid()}-cut-{ours.cut}"
    evidence = {
        "ours": {
            "cut": ours.cut,
            "ends": ours.end_offsets,
            "model": ours.model,
            "ledger": ours.ledger,
            "base": ours.origin,
        },
        "theirs": msgspec.to_builtins(report),
        "held_at": replica.cut,
        "in_the_middle_of_a_round": mid_round,
    }
    stem.with_suffix(".json").write_text(json.dumps(evidence, indent=1))
    path = stem.with_suffix(".npz")
    snapshot_file.write(path, replica, {"evidence": json.dumps(evidence)})
    for old in sorted(folder.glob("*.npz"))[:-_KEPT]:
        old.unlink()
        old.with_suffix(".json").unlink(missing_ok=True)
    return path
