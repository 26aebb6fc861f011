"""The names of users at the server, and their signatures, from the key of one device journal.

    open      pseudonym = first 16 bytes of HMAC-SHA256(key, user)           (`pseudonyms.py`)
    signed    seed      = HMAC-SHA256(key, "murmurec ed25519" 0 user)
              pseudonym = first 16 bytes of SHA-256(public key of the seed)  (`signatures`)

The journal's key is the only secret: it is made by the device, has mode 0600, is replaced whole and
synced, and a file that others can read or whose header is damaged is refused. So a signing key
needs no file of its own that could be lost apart from the budget. A user id holds no NUL, so no
seed is a pseudonym's hash.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from producers.journal import Journal
from producers.pseudonyms import encoded, pseudonym
from stream_app.errors import UserError
from stream_app.wire.signatures import SigningKey

_SEED = b"murmurec ed25519\0"


class Identities:
    """Pseudonyms and key pairs of the users of a device; `signed` as the server's `devices` is."""

    def __init__(self, key: bytes, *, signed: bool = False) -> None:
        self._key, self.signed = key, signed
        self._keys: dict[bytes, SigningKey] = {}

    def pseudonym(self, user: int | str) -> bytes:
        """Return the 16-byte pseudonym of a user id; ValueError for an id that cannot be one."""
        if not self.signed:
            return pseudonym(self._key, user)
        pair = self._pair(user)
        self._keys[pair.pseudonym] = pair
        return pair.pseudonym

    def knows(self, device: bytes) -> bool:
        """Return whether `seal` can be called for a device."""
        return not self.signed or device in self._keys

    def seal(self, topic: str, device: bytes, event: bytes) -> bytes:
        """Return the record's value: the event, in an envelope where devices sign; `pseudonym` has
        returned `device`."""
        return self._keys[device].seal(topic, event) if self.signed else event

    def check_journal(self, journal: Journal, users: Iterable[int | str]) -> None:
        """Raise UserError where a user takes part under the name of the other setting.

        Reported items and spent budget are kept by pseudonym, so that another name would get a
        second report on every item and a second budget.
        """
        other = Identities(self._key, signed=not self.signed)
        for user in users:
            name = other.pseudonym(user)
            if journal.enrolment(name) or journal.spent(name):
                now, before = ("signed", "open") if self.signed else ("open", "signed")
                raise UserError(
                    f"device journal {journal.path}: a user takes part with devices = {before}, "
                    f"and devices = {now} gives other pseudonyms, whose budgets would begin again: "
                    f"set devices = {before}, or give another path (--journal), which begins again "
                    "knowingly"
                )

    def _pair(self, user: int | str) -> SigningKey:
        return SigningKey.from_seed(hmac.digest(self._key, _SEED + encoded(user), "sha256"))
