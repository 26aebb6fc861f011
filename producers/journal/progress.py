"""Where the publication of a data set continues: after the last recorded row, or at row 0."""

from __future__ import annotations

from producers.journal.records import DatasetProgress
from stream_app.errors import FinishedBefore, UserError


def resumed(known: DatasetProgress | None, start: DatasetProgress) -> DatasetProgress:
    """Return the progress to continue from; `start` is row 0 of the data set, `known` what the
    journal has recorded of it.

    FinishedBefore for a data set that was published completely, UserError for one that was begun
    under another mechanism; with `start.republish` both start over.
    """
    if known is None:
        return start
    again = _start(start, known.begun + 1)
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


def _start(start: DatasetProgress, begun: int) -> DatasetProgress:
    return DatasetProgress(start.digest, start.mechanism, 0, start.total, begun, start.republish)
