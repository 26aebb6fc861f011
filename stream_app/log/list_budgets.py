"""What private lists have spent, as the log of debits says: every worker decides alike.

    a debit counts  iff  its query has no debit of this user among the latest `RECENT` that count,
                    and  spent(user) + epsilon <= budget, the one written in the debit

where spent(user) is the sum of the debits before it in the log that count. A list is drawn by the
worker that wrote the debit, after it has read it back and only where it counts. So whatever workers
do at the same time, however often one dies between debit and list, and whatever budgets they were
configured with, the epsilons of the lists of a user add up to `spent`, which a worker's configured
budget bounded at each step. A crash in between loses budget. Without I/O.

Whether a debit counts is a function of this log alone, so it is the same wherever workers are in
the log of ratings. Whether one is written is not: a worker writes none for a pseudonym of which its
state holds no report (`private_list_service.py`). That decides no budget, since a list without a
debit is drawn without a look at the state.

A user here is thus a device that has reported; invented ones that only ask leave nothing. What was
spent is kept as long as the log is, also of evicted devices: a truncated log or a snapshot brings
their reports back. A query that comes again after `RECENT` others pays again, which costs budget
and hides nothing less.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from stream_app.wire import Reason, WireError, decode_message
from stream_app.wire.messages import ListDebit

RECENT = 1 << 16  # debits; a query comes again within seconds, when its partition moves


class Verdict(StrEnum):
    """What became of a debit."""

    COUNTS = "counts"
    REPEATED = "repeated"
    SPENT = "spent"


@dataclass
class ListBudgets:
    """Spent millionths by user; `apply` takes the records of the log in its order.

    rejected: records that are no debit, by reason. Memory: at most 250 bytes a user, and as many
    for each of the `recent` queries; the number of lists has no part in it.
    """

    recent: int = RECENT
    rejected: Counter[Reason] = field(default_factory=Counter)
    _spent: dict[bytes, int] = field(default_factory=dict)
    _queries: dict[bytes, None] = field(default_factory=dict)

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

    def answered(self, device: bytes, query: str) -> bool:
        """Return whether a debit of this query counts already, of the latest `recent`."""
        return device + query.encode() in self._queries

    def _count(self, debit: ListDebit) -> Verdict:
        device = bytes.fromhex(debit.user)
        query = device + debit.query.encode()
        spent = self._spent.get(device, 0)
        if query in self._queries:
            return Verdict.REPEATED
        if spent + debit.epsilon > debit.budget:
            return Verdict.SPENT
        self._queries[query] = None
        if len(self._queries) > self.recent:
            del self._queries[next(iter(self._queries))]
        self._spent[device] = spent + debit.epsilon
        return Verdict.COUNTS
