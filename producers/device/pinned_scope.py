"""The public scope that a device was given, pinned by its digest in the journal.

    first use, or enrolment      the journal stores SHA-256 of the file: one for reports, and one
                                 for campaigns, whose lists are chosen apart
    every later use              the file must have that digest, or the one that is accepted by name

Who chooses the scope chooses on what a device spends its budget: a scope of one item, or one that
changes every day, is aimed at something. So a device reports on the list that its user has seen,
and a list that comes from a server is taken only where the user says so.

The server's catalogue is such a list, taken once:

    DEVICE.journal.catalogue     the keys of the items, rising, 8 bytes each, mode 0600

Were it read at every start, its writers could name other items before each one. So the first list
is that of the device for good: a later start uses what is stored, also without a broker, and a
catalogue that has changed is taken only where its digest is accepted by name.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from producers.device import scope
from producers.journal import Journal
from stream_app.errors import ScopeChanged, Unwritable, UserError
from stream_app.kafka import durable_file

MOST_CELLS = 4096  # of a scope, unless more are allowed by name
_DIGEST = re.compile(r"[0-9a-f]{64}")


def read_scope(path: Path, most: int = MOST_CELLS) -> tuple[NDArray[np.uint64], bytes]:
    """Return the items of a scope, rising, and the SHA-256 of its file; UserError above `most`."""
    items, digest = read_ordered(path, most)
    return np.unique(items), digest


def read_ordered(path: Path, most: int) -> tuple[NDArray[np.uint64], bytes]:
    """Return the items of a scope in the order of the file, and its SHA-256; as `read_scope`."""
    # Read once: a file that is exchanged between two reads would be pinned as another one's items.
    data = scope.contents(path)
    items = scope.ordered(path, data)
    if len(items) > most:
        raise UserError(
            f"{path}: {len(items)} items, and a scope may have {most}: every item costs its "
            "report's epsilon, whatever was rated; give a shorter list, or allow it (--most-cells "
            f"{len(items)})"
        )
    return items, hashlib.sha256(data).digest()


def pin(
    journal: Journal,
    name: Path | str,
    digest: bytes,
    accepted: str | None = None,
    *,
    campaigns: bool = False,
) -> bool:
    """Store the digest of the scope; return whether it is new. Raises as `check_pin` does."""
    if not check_pin(journal, name, digest, accepted, campaigns=campaigns):
        return False
    journal.pin_scope(digest, campaigns=campaigns)
    return True


def check_pin(
    journal: Journal,
    name: Path | str,
    digest: bytes,
    accepted: str | None = None,
    *,
    campaigns: bool = False,
) -> bool:
    """Return whether the digest is new, of the scope of reports or that of `campaigns`.

    `ScopeChanged` for another digest than the stored one, unless `accepted` is it in hex.
    """
    check_accepted(accepted)
    pinned = journal.campaign_scope if campaigns else journal.scope
    if pinned == digest:
        return False
    if pinned and (accepted is None or bytes.fromhex(accepted) != digest):
        kind = "scope of campaigns" if campaigns else "scope"
        raise ScopeChanged(
            f"{name}: has the SHA-256 {digest.hex()}, and the {kind} of this device has "
            f"{pinned.hex()}: who changes the scope chooses on what the budget is spent; if you "
            f"know who changed it and why, give --accept-scope {digest.hex()}"
        )
    return True


def check_accepted(accepted: str | None) -> None:
    """Raise UserError for what is no SHA-256 in hex."""
    if accepted is not None and _DIGEST.fullmatch(accepted.lower()) is None:
        raise UserError(f"--accept-scope {accepted[:70]}: give the 64 hex digits of its SHA-256")


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
