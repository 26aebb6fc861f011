"""The server's catalogue as the public scope: taken once, stored, and pinned by its digest.

    DEVICE.journal.catalogue     the keys of the items, rising, 8 bytes each, mode 0600
    journal                      SHA-256 of these bytes, as of any pinned scope

Were the catalogue read at every start, its writers could name other items before each one, and a
device would report on `--most-cells` items of every list. So the first list is that of the device
for good: a later start uses what is stored, also without a broker, and a catalogue that has changed
is taken only where its digest is accepted by name.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from producers.device.pinned_scope import check_pin
from producers.journal import Journal
from stream_app.errors import Unwritable
from stream_app.kafka import durable_file

_NAME = "the server's catalogue"


class CatalogueScope:
    """The list that a journal's device took from a server; `accepted`: the digest in hex of one
    that may replace it."""

    def __init__(self, journal: Journal, accepted: str | None = None) -> None:
        self._journal, self._accepted = journal, accepted
        self.path = journal.path.with_name(f"{journal.path.name}.catalogue")

    def stored(self) -> NDArray[np.uint64] | None:
        """Return the items that were taken; None where there are none, or not those of the pin."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        if not self._journal.scope or hashlib.sha256(data).digest() != self._journal.scope:
            return None
        return np.frombuffer(data, "<u8").astype(np.uint64)

    def take(self, items: NDArray[np.uint64]) -> bool:
        """Make these items, rising, those of the device; return whether its pin changed.

        `ScopeChanged` where it has others that were not replaced by name; `Unwritable`.
        """
        data = items.astype("<u8").tobytes()
        digest = hashlib.sha256(data).digest()
        new = check_pin(self._journal, _NAME, digest, self._accepted)
        if new or self.stored() is None:
            self._store(data)
        if new:
            self._journal.pin_scope(digest)
        return new

    def _store(self, data: bytes) -> None:
        try:
            durable_file.replace(self.path, data)
        except OSError as error:
            raise Unwritable(f"{self.path}: cannot be written ({error.strerror})") from None


def digest_of(items: NDArray[np.uint64]) -> str:
    """Return the SHA-256 of a list of rising items, as `--accept-scope` takes it."""
    return hashlib.sha256(items.astype("<u8").tobytes()).hexdigest()
