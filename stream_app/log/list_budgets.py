"""What private lists have spent, as the log of debits says: every worker decides alike.

    a debit counts  iff  its query has no debit of this user that counts already,
                    and  spent(user) + epsilon <= budget, the one written in the debit

where spent(user) is the sum of the debits before it in the log that count. A list is drawn by the
worker that wrote the debit, after it has read it back and only where it counts. So whatever workers
do at the same time, however often one dies between debit and list, and whatever budgets they were
configured with, the epsilons of the lists of a user add up to `spent`, which a worker's configured
budget bounded at each step. A crash in between loses budget. Without I/O.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from stream_app.wire import Reason, WireError, decode_message
from stream_app.wire.messages import ListDebit

MOST_USERS, MOST_LISTS = 1_000_000, 10_000_000


class Verdict(StrEnum):
    """What became of a debit."""

    COUNTS = "counts"
    REPEATED = "repeated"
    SPENT = "spent"
    FULL = "full"


@dataclass
class ListBudgets:
    """Spent millionths by user; `apply` takes the records of the log in its order.

    rejected: records that are no debit, by reason. Memory: some 300 bytes a user and 60 a list, so
    both have an end: who may write queries could fill a worker with lists of made-up users.
    """

    most_users: int = MOST_USERS
    most_lists: int = MOST_LISTS
    rejected: Counter[Reason] = field(default_factory=Counter)
    _spent: dict[bytes, int] = field(default_factory=dict)
    _queries: dict[bytes, set[bytes]] = field(default_factory=dict)
    _lists: int = 0

    def apply(
        self, record_key: bytes | None, value: bytes | None
    ) -> tuple[ListDebit, Verdict] | None:
        """Apply one record; return the debit and what became of it, None for what is no debit."""
        try:
            debit: ListDebit = decode_message(ListDebit, value)
            if record_key != debit.user.encode():
                raise WireError(Reason.KEY_MISMATCH)
        except WireError as error:
            self.rejected[error.reason] += 1
            return None
        return debit, self._count(debit)

    def spent(self, device: bytes) -> int:
        """Return the millionths that the lists of a device (16 bytes) have spent."""
        return self._spent.get(device, 0)

    def _count(self, debit: ListDebit) -> Verdict:
        device = bytes.fromhex(debit.user)
        query = bytes.fromhex(debit.query.zfill(len(debit.query) + len(debit.query) % 2))
        spent, queries = self._spent.get(device, 0), self._queries.get(device)
        if queries is not None and query in queries:
            return Verdict.REPEATED
        if spent + debit.epsilon > debit.budget:
            return Verdict.SPENT
        if self._lists >= self.most_lists:
            return Verdict.FULL
        if queries is None:
            if len(self._queries) >= self.most_users:
                return Verdict.FULL
            queries = self._queries[device] = set()
        queries.add(query)
        self._lists += 1
        self._spent[device] = spent + debit.epsilon
        return Verdict.COUNTS
