"""The rated item behind each entry of a list, where the server knows what was rated.

Where presence is protected the reports of a device do not say what it has rated: most positive ones
are fakes. A list has no reasons then, nor has one of popular items. Predicted ratings (`factors`)
are no sum over the items of a history: none either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.histories import History
from stream_app.ranking.reasons import ALONE, reasons_of
from stream_app.ranking.scores import Components, Weights
from stream_app.serving.served_side import ServedSide


def reasons_for(
    served: ServedSide,
    history: History,
    components: Components,
    method: str,
    weights: Weights,
    listed: NDArray[np.intp],
) -> tuple[int | None, ...]:
    """Return for each slot of a list (t,) the key of the rated item that contributes most, None
    where none does; empty where none is known."""
    used = weights if method == "blend" else ALONE.get(method)
    if used is None or served.channel is not None or not len(history.slots):
        return ()
    rows = served.taste_rows(history)
    found = reasons_of(served.side, history, rows, components, used, listed).first()
    keys = served.side.keys
    return tuple(int(keys[slot]) if slot >= 0 else None for slot in found)
