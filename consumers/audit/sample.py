"""Which accounts are looked at where the log is longer than the memory: whole accounts, by chance.

    looked at    h(key, pseudonym) < 2^(64 - halvings);   h: keyed blake2b-64

Each halving drops about half of the accounts with all their records, so every claim about a single
account holds for the sample as for the log. The key is random: a writer cannot choose pseudonyms
that are looked at, or are not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from hashlib import blake2b

MOST_HALVINGS = 8  # with the accounts in `always`


@dataclass(frozen=True)
class Sample:
    """1 / 2^halvings of all accounts; `always`: accounts that every sample has."""

    halvings: int = 0
    key: bytes = field(default_factory=lambda: os.urandom(16), repr=False)
    always: frozenset[bytes] = frozenset()

    def holds(self, pseudonym: bytes) -> bool:
        """Return whether an account is looked at."""
        if not self.halvings or pseudonym in self.always:
            return True
        digest = blake2b(pseudonym, digest_size=8, key=self.key).digest()
        return not int.from_bytes(digest, "big") >> (64 - self.halvings)

    def halved(self) -> Sample:
        """Return the sample of half of these accounts; in the end not those in `always`."""
        always = self.always if self.halvings < MOST_HALVINGS else frozenset[bytes]()
        return replace(self, halvings=min(64, self.halvings + 1), always=always)

    def __str__(self) -> str:
        return "all" if not self.halvings else f"1 of {2**self.halvings:,}"
