"""Journals for tests: two devices, four mechanisms, and a release in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from producers.device import requests as device
from producers.device.rating import rate
from producers.identities import Identities
from producers.journal import Journal, Message, PersonBudget, Request
from producers.person.enrolment import NO_LIMIT
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism

TOPIC = "murmurec.ratings.v1"

ANN, BOB = b"a" * 16, b"b" * 16
RR, HALF, OPEN, CELL = (
    registry.parse(id) for id in ("rr:5:2", "rr:5:1/2", "none:5:inf", "cell:5:2")
)


def ask(who: bytes, *items: int, mechanism: Mechanism = RR, **changed: Any) -> Request:
    given = {"epoch": changed.pop("epoch", 20_000), "republish": changed.pop("republish", False)}
    line = device.ReportSettings(changed.pop("topic", TOPIC), mechanism)
    levels = np.zeros(len(items), np.uint8)
    return device.request(levels, list(items), line, device=who, **given, **changed)


def release(journal: Journal, who: bytes, *items: int, **changed: Any) -> list[Message]:
    return journal.release(ask(who, *items, **changed))


class Enrolling(Journal):
    """A journal that enrols every device that it meets, for tests of something else.

    `terms`: the budget of each as a person, raised where it was smaller; without one there is no
    limit.
    """

    terms: PersonBudget = NO_LIMIT

    def meet(self, devices: Iterable[bytes]) -> None:
        known = {device: self.enrolment(device) for device in devices}
        new = [device for device, terms in known.items() if terms is None]
        self.enrol(new, self.terms, 0, simulated=not self.terms.limited)
        nano = self.terms.nano
        if nano is not None:
            less = [d for d, t in known.items() if t and t.budget.nano and t.budget.nano < nano]
            self.raise_budget(less, self.terms.epsilon)

    def room(self, device: bytes, mechanism: Any, epoch: int) -> int | None:
        self.meet([device])
        return super().room(device, mechanism, epoch)

    def commit(self, requests: Sequence[Request], replay: Any = None) -> list[Message]:
        self.meet(request.device for request in requests)
        return super().commit(requests, replay)


def at(path: Path | str, epsilon: int | Fraction | None = None, **changed: Any) -> Enrolling:
    """Open a journal that enrols what it meets, with a pure epsilon for the whole person if given.

    The exact composition of a pure epsilon is the sum.
    """
    window, plan = changed.pop("window", None), changed.pop("plan", "")
    opened = Enrolling.open(path, **changed)
    if epsilon is not None:
        opened.terms = PersonBudget(Fraction(epsilon), Fraction(0), window, plan)
    return opened


def rated(user: int | str, item: Any, raw_rating: object, line: device.ReportSettings,
          **given: Any) -> Message:  # fmt: skip
    """Rate as `producers.device.rating.rate` does, by a user who is enrolled first."""
    journal = given["journal"]
    journal.meet([(line.identities or Identities(journal.key)).pseudonym(user)])
    return rate(user, item, raw_rating, line, **given)
