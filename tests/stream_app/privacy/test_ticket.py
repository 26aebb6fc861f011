"""Every way around the budget that code with raw ratings might try: none draws a word."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.device import requests as device
from stream_app.privacy import registry
from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ticket import Ticket, TicketIssuer, admitted
from tests.producers.journals import at

RR, OTHER = registry.parse("rr:5:2"), registry.parse("rr:5:1")
LEVELS = np.array([0, 1, 2], np.uint8)
FAMILIES = [
    registry.mechanism(family, 5, None if family == "none" else "2")
    for family in registry.families()
]


class Counting:
    """An entropy that counts what is taken of it."""

    unsafe = False

    def __init__(self) -> None:
        self.taken = 0

    def words(self, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
        self.taken += count
        return SystemSource().words(count)


@pytest.fixture
def entropy() -> Counting:
    return Counting()


@pytest.fixture
def issuer(entropy: Counting) -> TicketIssuer:
    made = TicketIssuer(entropy)
    made.admit(RR)
    return made


def test_a_ticket_is_good_once(issuer: TicketIssuer, entropy: Counting) -> None:
    ticket = issuer.ticket(RR, 3)
    assert len(RR.release(LEVELS, ticket)) == 3
    assert entropy.taken == 3
    with pytest.raises(ValueError, match="already used; a second release needs a second debit"):
        RR.release(LEVELS, ticket)
    assert entropy.taken == 3


@pytest.mark.parametrize("mechanism", FAMILIES, ids=lambda mechanism: mechanism.id)
def test_no_mechanism_takes_the_operating_systems_words_without_a_ticket(mechanism: Any) -> None:
    masks = (np.ones(3, np.uint16),) if mechanism.masks else ()
    for source in (SystemSource(), Counting()):
        with pytest.raises(ValueError, match="a ticket of the device's journal"):
            mechanism.release(LEVELS, source, *masks)


def test_a_ticket_is_for_one_mechanism_and_one_number_of_reports(
    issuer: TicketIssuer, entropy: Counting
) -> None:
    issuer.admit(OTHER)
    for mechanism, levels in ((OTHER, LEVELS), (RR, LEVELS[:2]), (RR, np.zeros(4, np.uint8))):
        ticket = issuer.ticket(RR, 3)
        with pytest.raises(ValueError, match="it is for 3 reports of rr:5:2"):
            mechanism.release(levels, ticket)
        with pytest.raises(ValueError, match="already used"):  # and it does not come back
            RR.release(LEVELS, ticket)
    assert entropy.taken == 0


def test_a_ticket_is_no_source_of_words(issuer: TicketIssuer, entropy: Counting) -> None:
    with pytest.raises(ValueError, match="not a source of words"):
        issuer.ticket(RR, 3).words(3)
    assert entropy.taken == 0


def test_a_ticket_cannot_be_copied(issuer: TicketIssuer) -> None:
    ticket = issuer.ticket(RR, 3)
    for take in (copy.copy, copy.deepcopy, lambda t: t.__reduce__(),
                 lambda t: t.__reduce_ex__(5)):  # fmt: skip
        with pytest.raises(TypeError, match="it cannot be copied"):
            take(ticket)
    assert not hasattr(ticket, "__dict__")
    assert len(RR.release(LEVELS, ticket)) == 3


def test_a_ticket_cannot_be_made_without_an_issuer(entropy: Counting) -> None:
    @dataclass
    class Forged:
        entropy: Counting
        admitted: dict[Any, tuple[Certificate, ...]]

    class Inherited(TicketIssuer):
        pass

    empty = TicketIssuer(entropy)
    heir = Inherited(entropy)
    heir.admit(RR)
    for issuer in (Forged(entropy, {RR: ()}), heir, empty, None):
        with pytest.raises((ValueError, AttributeError)):
            Ticket(issuer, RR, 3)  # type: ignore[arg-type]
    assert entropy.taken == 0


def test_a_mechanism_that_was_not_certified_here_gets_no_ticket(issuer: TicketIssuer) -> None:
    with pytest.raises(ValueError, match="rr:5:1: not certified in this process"):
        issuer.ticket(OTHER, 3)


@dataclass(frozen=True)
class Impostor(RandomizedResponse):
    """A mechanism under the name of a certified one that releases what it is given."""

    def release(self, inputs: Any, source: Any, masks: Any = None) -> Any:
        admitted(source, self, len(inputs))
        return inputs.copy()


def test_the_name_of_a_certified_mechanism_opens_nothing_for_another(issuer: TicketIssuer) -> None:
    issuer.admit(RR)
    impostor = Impostor(5, RR.epsilon)
    assert impostor.id == RR.id
    with pytest.raises(ValueError, match="not certified in this process"):
        issuer.ticket(impostor, 3)
    with pytest.raises(ValueError, match="ticket: it is for 3 reports"):
        impostor.release(LEVELS, issuer.ticket(RR, 3))


@dataclass(frozen=True)
class Boasting:
    """A mechanism whose tables do not keep what it claims."""

    id: str = "boast:5:1"
    adjacency: Adjacency = Adjacency.VALUE
    epsilon: Fraction = Fraction(1)

    def certify(self) -> tuple[Certificate, ...]:
        raise ValueError("boast:5:1: an output distinguishes two inputs by 3.0 nats")

    def release(self, inputs: Any, source: Any) -> Any:
        admitted(source, self, len(inputs))
        return inputs


def test_a_claim_that_cannot_be_proved_releases_nothing(
    tmp_path: Path, issuer: TicketIssuer
) -> None:
    with pytest.raises(ValueError, match="distinguishes two inputs"):
        issuer.admit(Boasting())
    with pytest.raises(ValueError, match="not certified"):
        issuer.ticket(Boasting(), 3)
    with at(tmp_path / "device.journal") as journal:
        journal.meet([bytes(16)])
        before = journal.path.read_bytes()
        line = device.ReportSettings("t", RR)
        request = device.request(LEVELS, [1, 2, 3], line, device=bytes(16), epoch=1)
        request.mechanism = Boasting()  # type: ignore[assignment]
        with pytest.raises(ValueError, match="distinguishes two inputs"):
            journal.release(request)
        assert journal.path.read_bytes() == before
        assert journal.spent(bytes(16)) == {}


def test_two_threads_get_one_release_of_one_ticket(issuer: TicketIssuer, entropy: Counting) -> None:
    ticket, start, refused = issuer.ticket(RR, 3), threading.Barrier(8), []

    def use() -> None:
        start.wait(10)
        try:
            RR.release(LEVELS, ticket)
        except ValueError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (len(refused), entropy.taken) == (7, 3)


def test_neither_ticket_nor_issuer_crosses_a_fork() -> None:
    program = """
import os, sys
import numpy as np
from stream_app.privacy import registry
from stream_app.privacy.randomness import SystemSource
from stream_app.privacy.ticket import TicketIssuer
rr = registry.parse("rr:5:2")
issuer = TicketIssuer(SystemSource())
issuer.admit(rr)
ticket = issuer.ticket(rr, 3)
child = os.fork()
if child == 0:
    for use in (lambda: rr.release(np.zeros(3, np.uint8), ticket), lambda: issuer.ticket(rr, 3)):
        try:
            use()
            print("released")
        except ValueError as error:
            print(error)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
print(len(rr.release(np.zeros(3, np.uint8), ticket)))
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert ["before a fork" in line for line in out] == [True, True, False]
    assert out[-1] == "3"


def test_what_a_seed_draws_is_marked_wherever_it_comes_from() -> None:
    issuer = TicketIssuer(SeededSource(1))
    issuer.admit(RR)
    assert issuer.ticket(RR, 3).unsafe
    assert len(RR.release(LEVELS, SeededSource(1))) == 3  # a test names its seed itself


def test_the_journal_is_the_only_way_and_it_is_paid_for(tmp_path: Path) -> None:
    """One debit, one ticket, one draw: as many words as reports, and none for what is refused."""
    entropy, pseudonym = Counting(), os.urandom(16)
    with at(tmp_path / "device.journal", epsilon=6, source=entropy) as journal:
        line = device.ReportSettings("t", RR)
        journal.release(device.request(LEVELS, [1, 2, 3], line, device=pseudonym, epoch=1))
        assert entropy.taken == 3
        for items in ([1], [4]):  # reported already; beyond the budget
            with pytest.raises(Exception, match=r"published already|budget is .6, 0."):
                journal.release(device.request(LEVELS[:1], items, line, device=pseudonym, epoch=1))
        assert entropy.taken == 3
        assert journal.spent(pseudonym)["value"].nano == 6 * 10**9
