"""What a caller of the journal acts upon: full or spent is no defect, and never a silent drop."""

from __future__ import annotations

from stream_app.errors import UserError


class OutboxFull(UserError):
    """Too much waits for the broker: nothing was drawn for good; serve delivery reports, go on."""


class FinishedBefore(UserError):
    """Every row of a data set was published: there may still be something to send of it."""


class Unwritable(UserError):
    """The operating system took no more: what this release would send was not sent."""


class BudgetExhausted(UserError):
    """The user's budget does not hold this release: nothing was drawn, do not send."""
