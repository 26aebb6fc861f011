"""Evidence of a divergence: the whole state as a snapshot file, and both digest reports.

The state is computed from released reports, like all data of the server. The newest three snapshots
are kept.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import msgspec

from stream_app.agents.checkpointing.digest_comparison import Digests
from stream_app.checkpoints import snapshot_file
from stream_app.state.replica import Replica
from stream_app.wire import DigestReport

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
