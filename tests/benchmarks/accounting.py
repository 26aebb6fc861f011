"""The accountant: an admission after 10,000 releases, what is computed once, distance to a peer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from fractions import Fraction

from producers.journal.budget import debit
from producers.person.account import Account
from producers.person.enrolment import PersonBudget
from producers.person.reports import room
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import largest_count
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.mechanism import Mechanism
from tests.benchmarks.figure import Figure
from tests.stream_app.privacy.accounting.peer.generate import TABLE

EPSILON, DELTA = Fraction(20), Fraction(1, 10**6)
FIRST, DAYS, RELEASES = 20_000, 365, 10_000
SMALL = "rr:5:1/100"
MIXED = (SMALL, "rr:5:1/1000", "cell:5:1/1000")
PRECOMPUTED = ("rr:5:1/2", "cell:5:1/2:1/4", "ternary:5:1/2:1/4")


def measure() -> list[Figure]:
    """Return microseconds an admission, seconds of a first use, and relative distances."""
    return [*_admitted(), *_precomputed(), *_compared()]


def _admitted() -> list[Figure]:
    figures = []
    for plan, ids in ((SMALL, (SMALL,)), ("adaptive", MIXED)):
        budget, account = PersonBudget(EPSILON, DELTA, DAYS, plan), Account()
        mechanism, last = registry.parse(SMALL), FIRST + DAYS - 1
        for day in range(DAYS):
            for id in ids:
                _charge(account, registry.parse(id), RELEASES // (DAYS * len(ids)), FIRST + day)
        used = sum(each.reports for each in account.used(FIRST - 1).values())
        _charge(account, mechanism, RELEASES - used, last)
        admitted = _microseconds(
            lambda b=budget, a=account, m=mechanism: room(b, a.used(FIRST - 1), m)  # type: ignore[misc]
        )
        charged = _microseconds(lambda a=account, m=mechanism: _charge(a, m, 1, FIRST + DAYS))  # type: ignore[misc]
        name = f"accountant: {plan}, {RELEASES:,} releases"
        figures += [
            Figure(f"{name}, an admission", admitted, "us", "<= 200"),
            Figure(f"{name}, a charge", charged, "us", "<= 200"),
        ]
    return figures


def _charge(account: Account, mechanism: Mechanism, count: int, epoch: int) -> None:
    cost = debit(mechanism, count)
    account.spend(
        (epoch, cost.adjacency, "rating", mechanism.id), cost.nano, cost.atto, cost.reports
    )


def _precomputed() -> list[Figure]:
    figures = []
    for id in PRECOMPUTED:
        report_loss.cache_clear()
        largest_count.cache_clear()
        started = time.process_time()
        largest_count(id, EPSILON, DELTA)
        figures.append(Figure(f"accountant: how many {id}", time.process_time() - started, "s"))
    return figures


def _compared() -> list[Figure]:
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    distances = []
    for id, count, delta, peer in rows:
        distances.append(abs(report_loss(id).self_composed(count).epsilon(delta) / peer - 1))
    return [
        Figure("accountant: settings compared with dp-accounting", len(rows), "", ">= 38"),
        Figure("accountant: largest relative distance", max(distances), "", "<= 1e-6"),
    ]


def _microseconds(run: Callable[[], object], repeats: int = 1000) -> float:
    started = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - started) / repeats * 1e6
