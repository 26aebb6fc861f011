"""The pages of a replica's arrays as the store of a Faust table.

    key     (array, page)     arrays in the order of their names, pages of `PAGE_BYTES`
    value   the page's current bytes, a read-only view of the replica's array

The store copies and keeps nothing: the replica holds the state, which is computed from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from faust.stores import base as stores
from faust.types import TP
from numpy.typing import NDArray

from stream_app.agents.checkpointing.fenced_producer import FencedProducer
from stream_app.wire.state_records import PAGE_BYTES

Arrays = Callable[[], Mapping[str, NDArray[Any]]]
PageIndex = tuple[int, int]


class MemoryPages(Mapping[PageIndex, memoryview]):
    """The pages of named arrays, read-only; `arrays` is called at every access."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def __getitem__(self, place: PageIndex) -> memoryview:
        arrays = sorted(self._arrays().items())
        try:
            array, page = place
        except (TypeError, ValueError):
            raise KeyError(place) from None
        if array not in range(len(arrays)) or page not in range(_pages(arrays[array][1])):
            raise KeyError(place)
        raw = arrays[array][1].reshape(-1).view(np.uint8)[page * PAGE_BYTES :][:PAGE_BYTES]
        return raw.data.toreadonly()

    def __iter__(self) -> Iterator[PageIndex]:
        for number, (_, array) in enumerate(sorted(self._arrays().items())):
            for page in range(_pages(array)):
                yield number, page

    def __len__(self) -> int:
        return sum(_pages(array) for array in self._arrays().values())


def _pages(array: NDArray[Any]) -> int:
    return -(-array.nbytes // PAGE_BYTES)


class PageStore(stores.Store[PageIndex, memoryview]):
    """The store behind the table: the replica's pages, and the known part of the changelog."""

    data: Any

    def __init__(
        self, *args: Any, pages: MemoryPages, changelog: FencedProducer, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.data = pages
        self._changelog = changelog

    def persisted_offset(self, tp: TP) -> int | None:  # noqa: ARG002
        """Return the last offset that need not be read."""
        position = self._changelog.position
        return position - 1 if position else None

    def set_persisted_offset(self, tp: TP, offset: int) -> None:
        """Do nothing: the changelog counts acknowledged records."""

    async def need_active_standby_for(self, tp: TP) -> bool:  # noqa: ARG002
        """Return False: every worker is a replica, so no standby is needed."""
        return False

    def apply_changelog_batch(
        self,
        batch: Iterable[Any],
        to_key: Callable[[Any], Any],  # noqa: ARG002
        to_value: Callable[[Any], Any],  # noqa: ARG002
    ) -> None:
        """Check the batch for claims of other workers; the state comes from the log."""
        for event in batch:
            message = event.message
            self._changelog.seen(message.offset, message.key, message.value)

    def reset_state(self) -> None:
        """Do nothing: there are no files."""

    async def backup_partition(self, *_: Any, **__: Any) -> None:
        """Do nothing: the changelog is the backup."""

    def restore_backup(self, *_: Any, **__: Any) -> None:
        """Do nothing: the changelog is the backup."""
