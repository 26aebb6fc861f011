"""The columns of a batch as the kernels take them: one type, one layout, equal lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_TYPES = (np.uint64, np.uint64, np.uint8, np.uint16, np.bool_, np.float32)
Columns = tuple[
    NDArray[np.uint64],
    NDArray[np.uint64],
    NDArray[np.uint8],
    NDArray[np.uint16],
    NDArray[np.bool_],
    NDArray[np.float32],
]


def columns(*given: Any) -> Columns:
    """Return users, items, reports, channels, learn, priors, copied only where that is needed.

    Writeable and contiguous, because a kernel is compiled anew for every other kind of array.
    `priors` may be empty. Raises ValueError for unequal lengths.
    """
    lengths = {len(column) for column in given[:-1]} | ({len(given[-1])} - {0})
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows: a batch has columns of one length")
    return tuple(  # type: ignore[return-value]
        np.require(column, kind, ["C", "W"]) for column, kind in zip(given, _TYPES, strict=True)
    )


def keys_of(given: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return keys as the kernels take them."""
    return np.require(given, np.uint64, ["C", "W"])
