"""The state as of a cut, read page by page while the replica goes on; and its digests.

    owner's thread     freeze()  at a cut      marks only (`models/frozen_arrays.py`)
    another thread     hash()                  the changed pages --> model and ledger digest
                       frozen()                a checkpoint: pages are read when they are sent
    owner's thread     release()               what was written meanwhile is dirty again

Nothing is copied but what the replica writes to between `freeze` and `release`. Digests are kept
from one freeze to the next, so only changed pages are hashed. Which pages differ from those of an
empty state comes from the marks, and of a state that was read from its manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.checkpoints.protocol.writer import Frozen, FrozenArray
from stream_app.errors import UserError
from stream_app.models import frozen_arrays
from stream_app.models.frozen_arrays import NoRoom, Room
from stream_app.models.paged_arrays import DirtyMap, is_dirty, loaded, page_count, was_written
from stream_app.state.replica import Replica
from stream_app.wire import Tail
from stream_app.wire.state_records import (
    DIGEST_BYTES,
    UNCHANGED,
    ArrayPages,
    Manifest,
    ledger_root,
    model_root,
    page_digest,
)


class _Digests:
    """What is known of one array's pages, (pages,) each: digest, whether it is current, whether
    the page has changed since the last durable checkpoint, and at a freeze whether it may differ
    from that of an empty state."""

    def __init__(self, read: ArrayPages | None) -> None:
        self.digests = np.empty((0, DIGEST_BYTES), np.uint8)
        self.known, self.present, self.changed = (np.empty(0, np.bool_) for _ in range(3))
        if read is not None:
            self.digests = np.frombuffer(read.digests, np.uint8).reshape(-1, DIGEST_BYTES).copy()
            self.known = np.ones(len(self.digests), np.bool_)
            self.changed = np.zeros(len(self.digests), np.bool_)

    def update(self, array: NDArray[Any], pages: DirtyMap) -> None:
        """Take over an array's length and its marks."""
        count, dirty = page_count(array.nbytes), is_dirty(pages)
        self.digests = _lengthened(self.digests, count)
        self.known = _lengthened(self.known, count) & ~dirty
        self.present = was_written(pages)
        self.changed = _lengthened(self.changed, count) | dirty


class StateImage:
    """The image of one replica; `cut`, `end_offsets` and `origin` are those of the last `freeze`,
    `model` and `ledger` the digests of the last `hash`.

    manifest: the checkpoint that the replica has just been read from; it replaces the marks.
    """

    def __init__(self, replica: Replica, manifest: Manifest | None = None) -> None:
        self._replica = replica
        self.cut, self.end_offsets, self.origin = replica.cut, replica.end_offsets, replica.origin
        self.model = self.ledger = ""
        read = {array.name: array for array in manifest.arrays} if manifest else {}
        self._digests = {name: _Digests(read.get(name)) for name in sorted(replica.model_arrays())}
        for name, pages in replica.dirty_pages().items() if manifest else ():
            slots = np.frombuffer(read[name].slots, np.uint8)
            pages[:] = loaded(slots != UNCHANGED)
        self._ledger = replica.ledger.small_arrays()
        self._shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._frozen: Mapping[str, frozen_arrays.FrozenArray] = {}
        self._room: Room | None = None
        self._arrays: tuple[FrozenArray, ...] | None = None

    def freeze(self, *, write: bool = False, full: bool = False) -> None:
        """Freeze the state, which is that of a cut, on the thread that applies.

        write: for a checkpoint, so with all that changed since the last durable one; full: which
        is the first of its writer. Raises RuntimeError while the last freeze is not released, and
        `UserError` where the system does not grant the memory.
        """
        if self._room is not None:
            raise RuntimeError(f"cut {self.cut} is still frozen: release it before the next")
        replica, which = self._replica, {}
        arrays, maps = replica.model_arrays(), replica.dirty_pages()
        for name, digests in self._digests.items():
            digests.update(arrays[name], maps[name])
            which[name] = ~digests.known
            if write:
                which[name] |= digests.present if full else digests.changed
        try:
            self._frozen, self._room = frozen_arrays.frozen_arrays(arrays, maps, which)
        except NoRoom as reason:
            raise UserError(str(reason)) from None
        self._shapes = {name: (arrays[name].dtype.str, arrays[name].shape) for name in which}
        self._ledger = replica.ledger.small_arrays()
        self.cut, self.end_offsets, self.origin = replica.cut, replica.end_offsets, replica.origin
        self._arrays = None

    def hash(self) -> None:
        """Compute the digests of the last `freeze`; from any thread, before `release`."""
        for name, digests in self._digests.items():
            for page in np.flatnonzero(~digests.known).tolist():
                data = page_digest(self._frozen[name].page(page).data)
                digests.digests[page] = np.frombuffer(data, np.uint8)
            digests.known[:] = True
        design = self._replica.spec.digest
        self._arrays = tuple(
            FrozenArray(
                name,
                *self._shapes[name],
                digests.digests.tobytes(),
                digests.present.astype(np.uint8).tobytes(),
            )
            for name, digests in self._digests.items()
        )
        self.model = model_root(design, self._arrays)
        self.ledger = ledger_root(design, self._ledger)

    def frozen(self, topic_id: str, cut_offset: int, tails: tuple[Tail | None, ...] = ()) -> Frozen:
        """Return the state of the last `freeze`, to be written before `release`; raises
        RuntimeError if it was not hashed."""
        if self._arrays is None:
            raise RuntimeError(f"cut {self.cut} was not hashed: call hash() before frozen()")
        names, frozen = list(self._digests), self._frozen

        def page(array: int, number: int) -> memoryview:
            return frozen[names[array]].page(number).data

        return Frozen(
            self._replica.spec.digest, topic_id, self.cut, self.end_offsets, cut_offset,
            self.origin, self.model, self.ledger, self._arrays, self._ledger, page, tails=tails,
        )  # fmt: skip

    def release(self, *, durable: bool = False) -> Room:
        """End the freeze, on the thread that applies; return the memory to be closed, by any
        thread. durable: the checkpoint of it is."""
        if self._room is None:
            raise RuntimeError("nothing is frozen: freeze first")
        for array in self._frozen.values():
            array.release()
        if durable:
            for digests in self._digests.values():
                digests.changed[:] = False
        room, self._room, self._frozen = self._room, None, {}
        return room

    @property
    def kept_bytes(self) -> int:
        """Bytes that were copied since the freeze."""
        return sum(array.kept_bytes for array in self._frozen.values())

    def digest(self) -> tuple[str, str]:
        """Return the digests of model and ledger, at once; only changed pages are hashed."""
        self.freeze()
        self.hash()
        self.release().close()
        return self.model, self.ledger


def _lengthened(array: NDArray[Any], count: int) -> NDArray[Any]:
    """Return a copy of the first `count` rows, with zeros for those that are new."""
    longer = np.zeros((count, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array[:count]
    return longer
