"""Permission for one release: a ticket of a device's journal, valid once and in this process only.

    journal --(certifies a mechanism)---------> issuer
            --(a debit that fits the budget)--> ticket --> mechanism.release(inputs, ticket)

`Mechanism.release` draws only from a ticket or from a source that marks its reports as tests: code
with access to raw ratings and to the operating system's generator cannot exceed the budget by
accident. A ticket names a mechanism and a number of reports. The first release uses it up; it
refuses another mechanism, another number of reports, another process (a fork) and copying.

Only the journal may construct a `TicketIssuer`; `tests/test_architecture.py` enforces this, because
no language feature of Python can.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.randomness import RandomSource


class Releasing(Protocol):
    """The part of a mechanism that a ticket needs."""

    @property
    def id(self) -> str:
        """The wire id."""

    def certify(self) -> tuple[Certificate, ...]:
        """Prove the claim again on every table of the sampler; ValueError if the proof fails."""


class Ticket:
    """One release of `count` reports under one mechanism; see the module."""

    __slots__ = ("_count", "_entropy", "_lock", "_mechanism", "_process", "unsafe")

    def __init__(self, issuer: TicketIssuer, mechanism: Releasing, count: int) -> None:
        if type(issuer) is not TicketIssuer or mechanism not in issuer.admitted:
            raise ValueError(
                "ticket: only a journal's issuer makes one, for a mechanism that it has certified"
            )
        self._mechanism, self._count = mechanism, count
        self._entropy: RandomSource | None = issuer.entropy
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.unsafe = issuer.entropy.unsafe

    def words(self, count: int) -> NoReturn:  # noqa: ARG002 (the protocol's signature)
        """Refuse: only a release may draw the words of a ticket."""
        raise ValueError("ticket: not a source of words; pass it to one release")

    def used(self, mechanism: Releasing, count: int) -> RandomSource:
        """Use the ticket up and return the entropy behind it."""
        with self._lock:
            entropy, self._entropy = self._entropy, None
        if entropy is None:
            raise ValueError("ticket: already used; a second release needs a second debit")
        if os.getpid() != self._process:
            raise ValueError("ticket: it was issued before a fork; issue one in this process")
        if mechanism != self._mechanism or count != self._count:
            raise ValueError(
                f"ticket: it is for {self._count} reports of {self._mechanism.id}, "
                f"not {count} of {mechanism.id}"
            )
        return entropy

    def __copy__(self) -> NoReturn:
        raise TypeError("ticket: it cannot be copied")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError("ticket: it cannot be copied")

    def __reduce__(self) -> NoReturn:
        raise TypeError("ticket: it cannot be copied")


@dataclass(eq=False)
class TicketIssuer:
    """Maker of a journal's tickets; `admitted` holds the mechanisms certified in this process.

    A mechanism is a frozen value: the issuer admits that value of that class, not its name.
    """

    entropy: RandomSource
    admitted: dict[Releasing, tuple[Certificate, ...]] = field(default_factory=dict, init=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def admit(self, mechanism: Releasing) -> tuple[Certificate, ...]:
        """Certify the tables of the mechanism's sampler; ValueError if a proof fails."""
        found = self.admitted.get(mechanism)
        if found is None:
            found = self.admitted[mechanism] = mechanism.certify()
        return found

    def ticket(self, mechanism: Releasing, count: int) -> Ticket:
        """Return a ticket for one release of `count` reports; the journal makes the debit first."""
        if mechanism not in self.admitted:
            raise ValueError(f"{mechanism.id}: not certified in this process, nothing is released")
        if os.getpid() != self._process:
            raise ValueError("issuer: made before a fork; open the journal in this process")
        return Ticket(self, mechanism, count)


def admitted(source: RandomSource, mechanism: Releasing, count: int) -> RandomSource:
    """Return the source of words for one release: a ticket's entropy, or a test source itself.

    Raises ValueError for any other source, before a word is drawn.
    """
    if isinstance(source, Ticket):
        return source.used(mechanism, count)
    if source.unsafe:
        return source
    raise ValueError(
        f"{mechanism.id}: a release needs a ticket of the device's journal; "
        "a seeded source marks its reports as tests"
    )
