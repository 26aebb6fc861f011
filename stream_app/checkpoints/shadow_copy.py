"""A shadow copy of the state at a cut, updated page by page, and its digests.

    replica --freeze: dirty pages, at a cut--> the copy --hash: the same pages--> root
                                                     \\--frozen--> a checkpoint is written

`freeze` runs on the thread that applies batches and copies only the pages written since the last
freeze; `hash` may run on another thread while the replica applies. Several freezes may precede one
written checkpoint: `changed` accumulates. While a `Frozen` is referenced its pages do not change: a
page written meanwhile goes to a new buffer.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.checkpoints.protocol.writer import Frozen, FrozenArray
from stream_app.models.paged_arrays import page_count
from stream_app.state.digests import pages
from stream_app.state.replica import Replica
from stream_app.wire import Tail
from stream_app.wire.state_records import (
    PAGE_BYTES,
    ledger_root,
    model_root,
    page_digest,
)

_SPARE = 64  # preallocated pages for growing arrays: 4 MiB, allocated outside the pause
Page = NDArray[np.uint8]


class _Copy:
    """The copy of one array: its pages, their digests, and sets of page numbers by status."""

    def __init__(self, name: str, array: NDArray[Any], blank: NDArray[Any]) -> None:
        self.name, self.dtype = name, array.dtype.str
        self.shape: tuple[int, ...] = array.shape
        self.bytes = array.nbytes
        self.pages: list[Page] = list(np.zeros((page_count(array.nbytes), PAGE_BYTES), np.uint8))
        for copied, source in zip(self.pages, pages(array), strict=True):
            copied[: len(source)] = source
        self.digests = [b""] * len(self.pages)
        self.present = differs(array, blank)
        self.changed = set(self.present)
        self.waiting = set(range(len(self.pages)))  # pages without a current digest
        self.shown: set[int] = set()  # pages referenced by a `Frozen`

    def data(self, page: int) -> Page:
        """Return the bytes of a page; the last one may hold fewer."""
        return self.pages[page][: self.bytes - page * PAGE_BYTES]

    def frozen_array(self) -> FrozenArray:
        """Return the array's description in a checkpoint: shape, digests and present pages."""
        present = bytes(page in self.present for page in range(len(self.pages)))
        return FrozenArray(self.name, self.dtype, self.shape, b"".join(self.digests), present)

    def cut_to(self, array: NDArray[Any]) -> None:
        """Take the shape of the array; drops pages beyond its new end."""
        self.shape, self.bytes = array.shape, array.nbytes
        if (size := page_count(self.bytes)) < len(self.pages):
            del self.pages[size:], self.digests[size:]
            for held in (self.present, self.changed, self.waiting, self.shown):
                held.intersection_update(range(size))


class Snapshot:
    """The copy of one replica's state; `cut`, `end_offsets` and `origin` are those of the last
    `freeze`, `model` and `ledger` the digests of the last `hash`."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._busy = threading.Lock()
        self._spare: list[Page] = []
        self._frozen: list[weakref.ref[Frozen]] = []
        self.cut, self.end_offsets, self.origin = replica.cut, replica.end_offsets, replica.origin
        self.model = self.ledger = ""
        self._arrays: tuple[FrozenArray, ...] | None = None
        arrays, blank = replica.model_arrays(), Replica(replica.spec).model_arrays()
        self._copies = [_Copy(name, arrays[name], blank[name]) for name in sorted(arrays)]
        self._ledger = replica.ledger.small_arrays()
        for touched in replica.dirty_pages().values():
            touched[:] = 0
        self._refill()

    @property
    def dirty_bytes(self) -> int:
        """Bytes that `freeze` would copy now, rounded up to whole pages."""
        return PAGE_BYTES * sum(
            int(np.count_nonzero(t)) for t in self._replica.dirty_pages().values()
        )

    def freeze(self) -> int:
        """Copy the pages written since the last freeze; return the number of copied bytes.

        Call it at a cut, on the thread that applies; raises RuntimeError while `hash` runs.
        """
        with self._alone("freeze"):
            replica, copied = self._replica, 0
            arrays, touched = replica.model_arrays(), replica.dirty_pages()
            self._frozen = [held for held in self._frozen if held() is not None]
            for copy in self._copies:
                copied += self._update(copy, arrays[copy.name], touched[copy.name])
            self._ledger = replica.ledger.small_arrays()
            self.cut, self.end_offsets, self.origin = (
                replica.cut,
                replica.end_offsets,
                replica.origin,
            )
            self._arrays = None
        return copied

    def _update(self, copy: _Copy, array: NDArray[Any], dirty_pages: NDArray[np.uint8]) -> int:
        """Copy the dirty pages of one array and clear their marks; return the copied bytes."""
        copy.cut_to(array)
        numbers = np.flatnonzero(dirty_pages).tolist()
        flat, copied = array.reshape(-1).view(np.uint8), 0
        for page in numbers:
            source = flat[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
            if page >= len(copy.pages):
                copy.pages.append(self._page())
                copy.digests.append(b"")
            elif self._frozen and page in copy.shown:
                copy.pages[page] = self._page()
                copy.shown.discard(page)
            copy.pages[page][: len(source)] = source
            copied += len(source)
        for kind in (copy.present, copy.changed, copy.waiting):
            kind.update(numbers)
        dirty_pages[:] = 0
        return copied

    def _page(self) -> Page:
        return self._spare.pop() if self._spare else np.empty(PAGE_BYTES, np.uint8)

    def _refill(self) -> None:
        """Allocate spare pages and write to them, so that their memory is resident."""
        if missing := _SPARE - len(self._spare):
            self._spare += list(np.ones((missing, PAGE_BYTES), np.uint8))

    def hash(self) -> None:
        """Compute the digests of the last `freeze`; raises RuntimeError while another thread uses
        the copy."""
        with self._alone("hash"):
            for copy in self._copies:
                for page in copy.waiting:
                    copy.digests[page] = page_digest(copy.data(page).data)
                copy.waiting.clear()
            design = self._replica.spec.digest
            self._arrays = tuple(copy.frozen_array() for copy in self._copies)
            self.model = model_root(design, self._arrays)
            self.ledger = ledger_root(design, self._ledger)
            self._refill()

    def frozen(self, topic_id: str, cut_offset: int, tails: tuple[Tail | None, ...] = ()) -> Frozen:
        """Return the state of the last `freeze`, to be written; `changed` holds the pages changed
        since the last call. Raises RuntimeError if it was not hashed."""
        with self._alone("frozen"):
            if self._arrays is None:
                raise RuntimeError(f"cut {self.cut} was not hashed: call hash() before frozen()")
            copies = [(list(copy.pages), copy.bytes) for copy in self._copies]

            def page(array: int, number: int) -> memoryview:
                held, size = copies[array]
                return held[number][: size - number * PAGE_BYTES].data

            changed = frozenset(
                (n, at) for n, copy in enumerate(self._copies) for at in copy.changed
            )
            frozen = Frozen(
                self._replica.spec.digest, topic_id, self.cut, self.end_offsets, cut_offset,
                self.origin, self.model, self.ledger, self._arrays, self._ledger, page, changed,
                tails,
            )  # fmt: skip
            for copy in self._copies:
                copy.changed.clear()
                copy.shown = set(range(len(copy.pages)))
            self._frozen.append(weakref.ref(frozen))
            return frozen

    @contextmanager
    def _alone(self, call: str) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(f"{call} while another thread uses the copy: wait for it")
        try:
            yield
        finally:
            self._busy.release()


def differs(array: NDArray[Any], blank: NDArray[Any]) -> set[int]:
    """Return the numbers of the pages that differ from those of an empty state."""
    blank_pages = pages(blank)
    return {
        number
        for number, page in enumerate(pages(array))
        if number >= len(blank_pages) or not np.array_equal(page, blank_pages[number])
    }
