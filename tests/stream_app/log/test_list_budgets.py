"""Budgets of private lists: every worker decides alike, and no user's lists cost more."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from stream_app.log.list_budgets import ListBudgets, Verdict
from stream_app.wire import Reason, encode_message
from stream_app.wire.messages import ListDebit

USERS = ("a" * 32, "b" * 32)
BUDGET = 10


def debit(epsilon: int, query: int = 1, budget: int = BUDGET, user: str = USERS[0]) -> ListDebit:
    return ListDebit(user, f"{query:016x}", f"{query:032x}", epsilon, budget)


def applied(budgets: ListBudgets, record: ListDebit) -> Verdict:
    found = budgets.apply(record.user.encode(), encode_message(record))
    assert found is not None
    assert found[0] == record
    return found[1]


def test_a_debit_counts_if_it_fits_what_is_left() -> None:
    budgets = ListBudgets()
    verdicts = [applied(budgets, debit(e, q)) for q, e in enumerate((6, 5, 4, 1))]
    assert verdicts == [Verdict.COUNTS, Verdict.SPENT, Verdict.COUNTS, Verdict.SPENT]
    assert budgets.spent(bytes.fromhex(USERS[0])) == 10
    assert applied(budgets, debit(10, user=USERS[1])) is Verdict.COUNTS
    assert budgets.spent(b"\0" * 16) == 0


def test_a_query_pays_once_and_is_answered_once() -> None:
    budgets = ListBudgets()
    asked = bytes.fromhex(USERS[0]), f"{7:016x}"
    assert not budgets.answered(*asked)
    assert applied(budgets, debit(2, 7)) is Verdict.COUNTS
    assert budgets.answered(*asked)
    assert not budgets.answered(bytes.fromhex(USERS[1]), asked[1])
    assert applied(budgets, debit(2, 7)) is Verdict.REPEATED
    assert applied(budgets, debit(1, 7)) is Verdict.REPEATED
    assert budgets.spent(bytes.fromhex(USERS[0])) == 2
    # An id is spent for its user alone, so no user can use up the ids of others.
    assert applied(budgets, debit(2, 7, user=USERS[1])) is Verdict.COUNTS


def test_a_smaller_budget_never_forgets_what_was_spent_under_a_larger_one() -> None:
    budgets = ListBudgets()
    assert applied(budgets, debit(9, 1, budget=10)) is Verdict.COUNTS
    assert applied(budgets, debit(1, 2, budget=5)) is Verdict.SPENT
    assert applied(budgets, debit(1, 3, budget=10)) is Verdict.COUNTS
    assert applied(budgets, debit(1, 4, budget=20)) is Verdict.COUNTS


def test_records_that_are_no_debit_spend_nothing() -> None:
    budgets = ListBudgets()
    good = encode_message(debit(2))
    for key, value, reason in (
        (USERS[1].encode(), good, Reason.KEY_MISMATCH),
        (USERS[0].encode(), None, Reason.EMPTY),
        (USERS[0].encode(), good.replace(b'"epsilon":2', b'"epsilon":-2'), Reason.MALFORMED),
        (USERS[0].encode(), good.replace(b'"v":1', b'"v":9'), Reason.UNKNOWN_VERSION),
        (None, b"\xff" * 40, Reason.MALFORMED),
    ):
        before = budgets.rejected[reason]
        assert budgets.apply(key, value) is None
        assert budgets.rejected[reason] == before + 1
    assert budgets.spent(bytes.fromhex(USERS[0])) == 0


def test_made_up_users_and_lists_have_no_lifetime_count() -> None:
    """A budget is never forgotten, whoever else spends; only ids of queries are, in the order of
    the log, and one that comes again after that pays again."""
    budgets = ListBudgets(recent=3)
    assert applied(budgets, debit(2, 1)) is Verdict.COUNTS
    for number in range(3):
        assert applied(budgets, debit(1, 1, user=f"{number:032x}")) is Verdict.COUNTS
    assert applied(budgets, debit(2, 1)) is Verdict.COUNTS
    assert applied(budgets, debit(2, 1)) is Verdict.REPEATED
    assert applied(budgets, debit(7, 2)) is Verdict.SPENT
    assert budgets.spent(bytes.fromhex(USERS[0])) == 4


def test_memory_is_250_bytes_an_account_whatever_the_lists() -> None:
    budgets, made = ListBudgets(recent=1000), 20_000
    tracemalloc.start()
    for number in range(made):
        applied(budgets, debit(1, number, user=f"{number:032x}"))
    of_accounts, _ = tracemalloc.get_traced_memory()
    for number in range(made):
        assert applied(budgets, debit(1, made + number, 2, f"{number:032x}")) is Verdict.COUNTS
    of_lists, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert of_accounts <= 250 * (made + budgets.recent)
    assert of_lists <= 1.1 * of_accounts


# --- two workers that crash -----------------------------------------------------------------------


@dataclass
class Worker:
    """A worker: what it has read of the log, and its debits that wait for a verdict."""

    budget: int
    budgets: ListBudgets = field(default_factory=ListBudgets)
    position: int = 0
    waiting: dict[str, ListDebit] = field(default_factory=dict)


@dataclass
class World:
    """A log, its workers, and what they have drawn."""

    seed: int
    reads_back: bool = True
    log: list[ListDebit] = field(default_factory=list)
    drawn: dict[str, list[tuple[str, int, int]]] = field(default_factory=lambda: defaultdict(list))
    names: int = 0

    def run(self, steps: int) -> None:
        rng = np.random.default_rng(self.seed)
        workers = [Worker(BUDGET), Worker(BUDGET)]
        queries = [
            (USERS[int(rng.integers(2))], f"{q:016x}", int(rng.integers(1, 6))) for q in range(40)
        ]
        for _ in range(steps):
            w = int(rng.integers(2))
            match int(rng.integers(8)):
                case 0 | 1 | 2:  # a query, perhaps one that was answered, or is at the other worker
                    self._ask(workers[w], *queries[int(rng.integers(len(queries)))])
                case 3:  # a crash: all that is in memory is lost, records that were sent are not
                    workers[w] = Worker(BUDGET if rng.random() < 0.8 else int(rng.integers(4, 12)))
                case _:
                    self._read(workers[w])

    def _ask(self, worker: Worker, user: str, query: str, epsilon: int) -> None:
        if worker.budgets.spent(bytes.fromhex(user)) + epsilon > worker.budget:
            return
        self.names += 1
        record = ListDebit(user, query, f"{self.names:016x}", epsilon, worker.budget)
        self.log.append(record)
        if self.reads_back:
            worker.waiting[record.writer] = record
        else:
            self._draw(record)

    def _read(self, worker: Worker) -> None:
        if worker.position == len(self.log):
            return
        record = self.log[worker.position]
        worker.position += 1
        verdict = applied(worker.budgets, record)
        if worker.waiting.pop(record.writer, None) is not None and verdict is Verdict.COUNTS:
            self._draw(record)

    def _draw(self, record: ListDebit) -> None:
        self.drawn[record.user].append((record.query, record.epsilon, record.budget))

    def overspent(self) -> bool:
        """Return whether a user got more than the budget, or two lists for one query."""
        for lists in self.drawn.values():
            queries = [query for query, _, _ in lists]
            if len(set(queries)) < len(queries):
                return True
            if sum(epsilon for _, epsilon, _ in lists) > max(budget for _, _, budget in lists):
                return True
        return False


def test_no_schedule_of_workers_and_crashes_spends_more_than_the_budget() -> None:
    drawn = lost = 0
    for seed in range(400):
        world = World(seed)
        world.run(120)
        assert not world.overspent(), seed
        reader = ListBudgets()
        for record in world.log:
            applied(reader, record)
        for user in USERS:
            received = sum(epsilon for _, epsilon, _ in world.drawn[user])
            assert received <= reader.spent(bytes.fromhex(user))
            drawn += len(world.drawn[user])
            lost += received < reader.spent(bytes.fromhex(user))
    assert drawn > 1000
    assert lost > 50  # crashes between debit and list did happen


def test_a_worker_that_draws_before_it_reads_back_overspends() -> None:
    """The simulation has the power to see it."""
    found = [World(seed, reads_back=False) for seed in range(50)]
    for world in found:
        world.run(120)
    assert sum(world.overspent() for world in found) > 25
