"""The arrays of a new replica, into which a recovery puts the pages of a checkpoint.

Nothing is held beside the arrays: pages of an empty state that the checkpoint does not hold take no
memory until something is written to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.checkpoints.protocol.recovery import Found
from stream_app.state.digests import pages
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire.state_records import (
    DIGEST_BYTES,
    PAGE_BYTES,
    UNCHANGED,
    ArrayPages,
    Manifest,
    SmallArray,
    page_digest,
)


class ReplicaPages:
    """A `PageStore` over the arrays of a replica; `finished` returns the replica."""

    def __init__(self, spec: StateSpec) -> None:
        self._replica = Replica(spec)
        self._arrays: tuple[ArrayPages, ...] = ()
        self._flat: list[NDArray[np.uint8]] = []

    def shape(self, manifest: Manifest) -> None:
        """Give the arrays the shapes of a manifest; raises ValueError for those of another spec."""
        own = self._replica.model_arrays()
        for array in manifest.arrays:
            if array.name in own and own[array.name].dtype.str != array.dtype:
                raise ValueError(
                    f"array {array.name} has type {array.dtype}, and the spec requires "
                    f"{own[array.name].dtype.str}: use the state of the same spec"
                )
        self._replica.resize({array.name: array.shape for array in manifest.arrays})
        own = self._replica.model_arrays()
        self._arrays = manifest.arrays
        self._flat = [own[a.name].reshape(-1).view(np.uint8) for a in manifest.arrays]

    def put(self, array: int, page: int, data: memoryview) -> None:
        """Put a page in place; raises ValueError where it is longer or shorter than its place."""
        place = self._page(array, page)
        if len(place) != len(data):
            raise ValueError(
                f"{self._arrays[array].name}, page {page}: {len(data)} bytes, and its place has "
                f"{len(place)}"
            )
        place[:] = np.frombuffer(data, np.uint8)

    def clear(self, array: int, page: int) -> None:
        """Make a page that of an empty state again."""
        blank = Replica(self._replica.spec).model_arrays()[self._arrays[array].name]
        place = self._page(array, page)
        place[:] = 0
        if blank.shape == self._arrays[array].shape:
            place[:] = pages(blank)[page]

    def _page(self, array: int, page: int) -> NDArray[np.uint8]:
        return self._flat[array][page * PAGE_BYTES : (page + 1) * PAGE_BYTES]

    def finished(self, found: Found) -> Replica:
        """Return the replica at a checkpoint that is in place.

        Raises ValueError where it is no state of the spec, or where a page that it does not hold
        has another digest in an empty state than it records.
        """
        manifest = found.manifest
        for number, array in enumerate(manifest.arrays):
            for page, slot in enumerate(array.slots):
                recorded = array.digests[page * DIGEST_BYTES : (page + 1) * DIGEST_BYTES]
                if slot == UNCHANGED and page_digest(self._page(number, page).data) != recorded:
                    raise ValueError(
                        f"{array.name}, page {page}: its digest is not that of the checkpoint"
                    )
        self._replica.index(
            ledger_of(manifest.ledger_arrays),
            manifest.cut,
            manifest.end_offsets,
            manifest.origin,
        )
        return self._replica


def ledger_of(arrays: tuple[SmallArray, ...]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ledger by name."""
    return {a.name: np.frombuffer(a.data, a.dtype).reshape(a.shape) for a in arrays}
