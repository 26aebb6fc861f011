"""The columns of a batch as the kernels take them: one type, one layout, equal lengths."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_TYPES = (np.uint64, np.uint64, np.uint8, np.uint16, np.bool_, np.float32)


class BatchColumns(NamedTuple):
    """One event a row, (m,) each; `priors` may be empty where no channel protects presence."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    learn: NDArray[np.bool_]
    priors: NDArray[np.float32]


def batch_columns(
    *columns: Any, priors: NDArray[np.floating] | None, protects: bool
) -> BatchColumns:
    """Return users, items, reports, channels, learn and priors, copied only where necessary.

    Writeable and contiguous, because a kernel is compiled again for every other kind of array.
    protects: some channel protects presence, so that priors are read; None means 1 each.
    Raises ValueError for unequal lengths.
    """
    events = len(columns[0])
    if priors is None:
        priors = np.ones(events if protects else 0, np.float32)
    elif len(priors) != events:
        raise ValueError(f"{len(priors)} priors for {events} events: give one each")
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows: a batch has columns of one length")
    kinds = zip((*columns, priors), _TYPES, strict=True)
    return BatchColumns(*(np.require(column, kind, ["C", "W"]) for column, kind in kinds))


def keys_of(given: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return keys as the kernels take them."""
    return np.require(given, np.uint64, ["C", "W"])
