"""The error hierarchy: a class exists only where a caller handles it differently.

    Exception
    ├── UserError    a user's mistake or an unusable environment: one sentence with the value,
    │                the limit and the fix; the command line prints it and ends with exit
    │                code 1, without a traceback
    │   ├── UsageError        the command line is wrong: exit code 2
    │   ├── BudgetExhausted   the device's budget does not hold the release: do not send
    │   ├── OutboxFull        too many messages wait for the broker: wait, then try again
    │   ├── FinishedBefore    every row of the data set was published by an earlier run
    │   ├── Unwritable        the journal cannot be written: the release was not sent
    │   ├── Unreadable        the kept ratings cannot be read: nothing is known to be rated or not
    │   ├── ScopeChanged      another public scope than the stored one: nothing may be released
    │   ├── OlderJournal      the broker holds later events of the device: nothing may be released
    │   ├── NotAdmitted       Kafka refuses password, certificate or protocol: waiting is no help
    │   ├── Unanswered        Kafka did not answer in time: what goes on running asks again
    │   └── DamagedCheckpoint   (checkpoints.reader) a caller may discard the checkpoint and go on
    ├── WireError    (stream_app.wire) a record that is not an event: the caller rejects it with
    │                its reason and goes on
    └── ValueError   a constructor's argument is out of range; the message carries the value

Anything else is a defect and ends the process.
"""

from __future__ import annotations


class UserError(Exception):
    """The request cannot be carried out; the message gives the value, the limit and the fix."""


class UsageError(UserError):
    """The command line is wrong: an option is missing, out of range or contradicts another.

    The exit code is 2 instead of 1: the same command fails again.
    """


class BudgetExhausted(UserError):
    """The user's budget does not cover this release: no randomness was drawn; do not send."""


class OutboxFull(UserError):
    """Too many bytes wait for the broker; no randomness was drawn: poll, then retry."""


class FinishedBefore(UserError):
    """Every row of the data set was published before; some messages may still be unacknowledged."""


class Unwritable(UserError):
    """The operating system refused a write to the journal: the release was not sent."""


class Unreadable(UserError):
    """The operating system refused to read the kept ratings: report when it does not."""


class ScopeChanged(UserError):
    """The public scope is another one than the journal holds; the user accepts it by its digest."""


class OlderJournal(UserError):
    """The topic holds later events of the device than its journal: it is an older copy."""


class NotAdmitted(UserError):
    """Kafka refuses this client's password, certificate or protocol: it takes other settings."""


class Unanswered(UserError):
    """Kafka did not answer a request until its deadline: nothing was read or changed; ask again."""
