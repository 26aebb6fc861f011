"""Permission for one release: issued by a device's journal, good once, here, for what it names.

    journal --(certifies a mechanism here)----> issuer
            --(a debit that fits the budget)--> ticket --> mechanism.release(inputs, ticket)

`Mechanism.release` draws from a ticket or from a source that marks its reports as tests, and from
nothing else: code that holds raw ratings and the operating system's generator cannot publish past
the budget by accident. A ticket names a mechanism and a number of reports; it is used up by the
first release, refuses another mechanism, another number, another process (a fork) and to be copied.

Only the journal may make a `TicketIssuer`; `tests/test_architecture.py` enforces it, because no
language feature of Python can.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.randomness import RandomSource


class Releasing(Protocol):
    """What a ticket needs to know of a mechanism."""

    @property
    def id(self) -> str:
        """The wire id."""

    def certify(self) -> tuple[Certificate, ...]:
        """Prove the claim again on every table that is sampled from; ValueError where it fails."""


class Ticket:
    """One release of `count` reports under one mechanism; see the module."""

    __slots__ = ("_count", "_entropy", "_lock", "_mechanism", "_process", "unsafe")

    def __init__(self, issuer: TicketIssuer, mechanism: Releasing, count: int) -> None:
        if type(issuer) is not TicketIssuer or mechanism not in issuer.admitted:
            raise ValueError("ticket: only a journal's issuer makes one, for what it has certified")
        self._mechanism, self._count = mechanism, count
        self._entropy: RandomSource | None = issuer.entropy
        self._process = os.getpid()
        self._lock = threading.Lock()
        self.unsafe = issuer.entropy.unsafe

    def words(self, count: int) -> NoReturn:  # noqa: ARG002 (the protocol's signature)
        """Refuse: a ticket gives its words to one release and to no other code."""
        raise ValueError("ticket: it is no source of words; give it to one release")

    def used(self, mechanism: Releasing, count: int) -> RandomSource:
        """Use the ticket up and return the entropy behind it."""
        with self._lock:
            entropy, self._entropy = self._entropy, None
        if entropy is None:
            raise ValueError("ticket: it is used up; a second release needs a second debit")
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
    """What a journal makes tickets with; `admitted` holds what was certified in this process.

    A mechanism is a frozen value: what is admitted is that value of that class, not its name.
    """

    entropy: RandomSource
    admitted: dict[Releasing, tuple[Certificate, ...]] = field(default_factory=dict, init=False)
    _process: int = field(default_factory=os.getpid, init=False, repr=False)

    def admit(self, mechanism: Releasing) -> tuple[Certificate, ...]:
        """Certify the very tables that the mechanism samples from; ValueError where that fails."""
        found = self.admitted.get(mechanism)
        if found is None:
            found = self.admitted[mechanism] = mechanism.certify()
        return found

    def ticket(self, mechanism: Releasing, count: int) -> Ticket:
        """Return a ticket for one release of `count` reports; the debit is the journal's affair."""
        if mechanism not in self.admitted:
            raise ValueError(f"{mechanism.id}: not certified in this process, nothing is released")
        if os.getpid() != self._process:
            raise ValueError("issuer: made before a fork; open the journal in this process")
        return Ticket(self, mechanism, count)


def admitted(source: RandomSource, mechanism: Releasing, count: int) -> RandomSource:
    """Return the words for one release: a ticket's, or those of a source that says it is a test.

    Raises ValueError for any other source, before a word is drawn.
    """
    if isinstance(source, Ticket):
        return source.used(mechanism, count)
    if source.unsafe:
        return source
    raise ValueError(
        f"{mechanism.id}: a release needs a ticket that the device's journal issued; "
        "a seeded source marks its reports as tests"
    )
