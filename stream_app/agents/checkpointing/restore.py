"""What the reader hands to the learn agent when the state is to be replaced: at the start, after a
disagreement, and when a device is to be forgotten with a rebuild."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from stream_app.checkpoints.protocol.recovery import Found
from stream_app.wire.state_records import StateOrigin


@dataclass(frozen=True, eq=False)
class Restored:
    """A checkpoint to continue from, or the origin from which the log is replayed; the learn agent
    sets `done` when the state is that."""

    origin: StateOrigin
    found: Found | None
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Reload:
    """A request for another state: from the newest checkpoint, or from the log over this origin;
    with `or_checkpoint` from the checkpoint where the log does not reach back."""

    reason: str
    origin: StateOrigin | None = None
    or_checkpoint: bool = False
