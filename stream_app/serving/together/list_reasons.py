"""The rated item behind each entry of a list, where the server knows what was rated.

Where presence is protected the reports of a device do not say what it has rated: most positive ones
are fakes. A list has no reasons then, nor has one of popular items.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.reasons import reasons_of
from stream_app.serving.served_side import HeadScores, ServedSide


def reasons_for(
    served: ServedSide, found: HeadScores, listed: NDArray[np.intp], *, now: bool
) -> tuple[int | None, ...]:
    """Return for each slot of a list (t,) the key of the rated item that contributes most, None
    where none does; empty where none is known."""
    if served.channel is not None or not len(found.history.slots):
        return ()
    first = reasons_of(served.side, found.history, listed, now=now).first()
    keys = served.side.keys
    return tuple(int(keys[slot]) if slot >= 0 else None for slot in first)
