"""The progress of a data set: publication continues after the last recorded row, or at row 0."""

from __future__ import annotations

import msgspec

from stream_app.errors import FinishedBefore, UserError


class DatasetProgress(msgspec.Struct, array_like=True, frozen=True):
    """Progress in a data set: rows 0 .. reserved-1 of `total` are recorded; `begun` counts starts.

    `republish`: this start publishes again what was published before.
    `over`: rows that exceeded the budget; a later run may publish them.
    """

    digest: bytes
    mechanism: str
    reserved: int
    total: int
    begun: int
    republish: bool
    over: int = 0


def resumed(known: DatasetProgress | None, start: DatasetProgress) -> DatasetProgress:
    """Return the progress to continue from; `start` is row 0 of the data set, `known` what the
    journal has recorded of it.

    FinishedBefore for a data set that was published completely, UserError for one that was begun
    under another mechanism; with `start.republish` both start over.
    """
    if known is None:
        return start
    again = msgspec.structs.replace(start, begun=known.begun + 1)
    if start.republish:
        return again
    if known.reserved >= start.total and not known.over:
        raise FinishedBefore(
            f"this data set was published already ({start.total} rows under {known.mechanism}); "
            "publishing it again draws a second report for every rating and spends its epsilon "
            "a second time: ask for it with republish (--republish)"
        )
    if known.mechanism != start.mechanism:
        raise UserError(
            f"this data set was begun under {known.mechanism} ({known.reserved} of {start.total} "
            f"rows), not {start.mechanism}; go on with {known.mechanism}, or start over with "
            "--republish"
        )
    return again if known.reserved >= start.total else known
