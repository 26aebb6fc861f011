"""A new state for the learn agent, and the request for it.

The state is replaced at the start, after a divergence, and when a device is forgotten with a
rebuild.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from stream_app.checkpoints.checkpoint_reader import Checkpoint
from stream_app.state.spec import StateSpec
from stream_app.wire.state_records import StateOrigin


@dataclass(frozen=True, eq=False)
class Restored:
    """A checkpoint to continue from, or with `found` None the origin from which to replay the log.

    The learn agent sets `done` when it has replaced the state.
    """

    origin: StateOrigin
    found: Checkpoint | None
    spec: StateSpec | None = None
    """The first design of a replay from the origin; None: the present one."""
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Reload:
    """A request for another state: the log replayed from `origin`, or the newest checkpoint.

    With `serving` the present state is whole and answers until then. With `or_checkpoint`, the
    checkpoint is used where the log does not reach back to the origin.
    """

    reason: str
    origin: StateOrigin | None = None
    or_checkpoint: bool = False
    serving: bool = False
