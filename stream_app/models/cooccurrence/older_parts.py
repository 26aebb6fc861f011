"""Parts of a feed of pairs as releases before state format 10 wrote them: without visits and recent
reports, with one table of what follows what."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.item_head import recent_of
from stream_app.models.paged_arrays import Arrays


def complete(name: str, given: dict[str, NDArray[Any]], own: Arrays) -> str:
    """Add to a part what it lacks of the arrays of a blank one, `own`; return what that means,
    nothing where it is whole. Raises KeyError or ValueError where it is of no release."""
    if name.endswith("_lists"):
        given.setdefault("free", np.zeros(2, np.int32))  # before state format 6: no free block
    missing, meaning = own.keys() - given.keys(), ""
    if name == "rated_lists" and missing:
        rows, meaning = len(given["ends"]), "entries are those of older visits"
        given |= {n: np.zeros((rows, *own[n].shape[1:]), own[n].dtype) for n in missing}
    elif name.endswith("_moments") and len(given["numbers"]) < len(own["numbers"]):
        given |= {n: np.zeros_like(own[n]) for n in missing}
        given["numbers"] = np.append(given["numbers"][:1], [0, 0])
        meaning = "what follows what starts empty" if missing else ""
        for old in ("ordered", "ordered_high"):
            given.pop(old, None)
    elif name.endswith("_head") and missing:
        meaning = "recent reports are in the shares of all time"
        total, elected = given["totals"].tolist()
        given["totals"] = np.array([total, elected, total, 0, 0, 0, 0], np.int64)
        given["recent"] = recent_of(given["counts"], total)
    return meaning
