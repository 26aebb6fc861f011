"""The error hierarchy, drawn as a tree: a class exists only where a caller acts differently.

    Exception
    ├── UserError    a user's mistake or an unusable environment: one sentence with the value,
    │                the limit and the fix; the command line prints it and ends with exit
    │                code 1, without a traceback
    │   ├── BudgetExhausted, OutboxFull, FinishedBefore   (producers.journal) do not send; wait for
    │   │            the broker; everything was done by an earlier run
    │   └── DamagedCheckpoint   (checkpoints.reader) a caller that discards the checkpoint may go on
    ├── WireError    (stream_app.wire) a record that is not an event: reject it with its reason and
    │                go on
    └── ValueError   a constructor's argument is out of range; the message carries the value

Anything else is a defect and ends the process.
"""

from __future__ import annotations


class UserError(Exception):
    """The request cannot be carried out; the message gives the value, the limit and the fix."""
