"""Answers queries for private lists: debit first, then scores, then the draw, in a pool thread.

Every list costs its epsilon once its debit counts, whether or not its reply arrives, and a query is
answered at most once. Whether a query is refused depends on public things and on what was spent,
never on a history. An account is a pseudonym of which this worker's state holds a report: that it
takes part is public. For another one nothing is private that a list could show: it gets the draw of
a device without a report of the scope, every set as likely, and no debit, so invented pseudonyms
leave nothing behind. Such a draw never reads the state, whoever begins to report meanwhile.

An account has at most `MOST_LISTS` lists, which bounds its part of the log of debits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stream_app.agents.private_lists.debit_log import DebitLog
from stream_app.agents.runtime import Runtime
from stream_app.deployment import LEAST_LIST
from stream_app.log.list_budgets import Verdict
from stream_app.privacy.k_subset import KSubset
from stream_app.privacy.randomness import RandomSource, SystemSource
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.serving.together import private_lists
from stream_app.serving.together.co_rated import CoRated
from stream_app.serving.together.similar_items import NOT_PUBLISHED
from stream_app.wire import Guarantee
from stream_app.wire.messages import MILLION

MOST_LISTS = 1000
REPEATED = "this query is or was answered: a query gets one private list; ask under a new id"
PAID = "; its epsilon is spent"
NOT_READ_BACK = "the debit was not read back in time; its epsilon may be spent, ask again"
EMPTY = "all items of list_scope are withdrawn; murmurec items put restores one"
STARTING = "this worker is starting and has not read the catalogue yet: ask again in some seconds"
_Plan = tuple[private_lists.Keys, KSubset, CoRated | None, Guarantee]


class PrivateLists:
    """Draws lists from the state of a runtime; make it in the event loop."""

    def __init__(
        self, runtime: Runtime, debits: DebitLog, source: RandomSource | None = None
    ) -> None:
        self._runtime = runtime
        self._debits = debits
        self._source = source or SystemSource()
        self._turn = asyncio.Lock()
        self._under_way: dict[tuple[bytes, str], asyncio.Task[RankedItems | Refused]] = {}
        most = runtime.settings.private_list_epsilon
        self._least = max(LEAST_LIST, debits.budget // MOST_LISTS)
        self._most = debits.budget if most is None else min(round(most * MILLION), debits.budget)

    def answer(
        self, device: bytes, epsilon: Fraction, count: int, query: str
    ) -> Refused | Awaitable[RankedItems | Refused]:
        """Return a list of `count` items, or why there is none: at once where the query cannot be
        answered whatever the log holds."""
        cost = int(epsilon * MILLION)
        if not self._least <= cost <= self._most:
            return Refused(
                f"epsilon {_shown(cost)} of a private list: give {_shown(self._least)} to "
                f"{_shown(self._most)}, as the operator allows"
            )
        if not self._runtime.catalogue.read:
            return Refused(STARTING)
        account = self._runtime.recommender.known(device)
        asked = device, query
        if asked in self._under_way:
            return self._under_way[asked]  # one draw: a repeat gets the same list
        # What is spent or answered stays so: these refusals need no record.
        if account and self._debits.budgets.answered(device, query):
            return Refused(REPEATED)
        if account and self._debits.budgets.spent(device) + cost > self._debits.budget:
            return self._spent(device, cost)
        planned = self._planned(cost, count)
        if isinstance(planned, Refused):
            return planned
        if not account:
            return self._drawn(None, cost, count, query)
        task = asyncio.ensure_future(self._drawn(device, cost, count, query))
        self._under_way[asked] = task
        task.add_done_callback(lambda _: self._under_way.pop(asked))
        return task

    def _planned(self, cost: int, count: int) -> _Plan | Refused:
        """Return from which items, how, by which table and with what guarantee a list is drawn from
        the state of this moment, or why none can be."""
        runtime, recommender = self._runtime, self._runtime.recommender
        if elected := private_lists.elected(runtime.replica):
            return Refused(f"private lists are not served: {elected}")
        table, spec = recommender.published, runtime.replica.spec
        if recommender.from_published and table is None:
            return Refused(NOT_PUBLISHED)
        among = private_lists.candidates(spec.list_scope, runtime.catalogue)
        if count > len(among):
            return Refused(
                f"k {count}: list_scope has {len(among)} items to choose from"
                if len(among)
                else EMPTY
            )
        published = table is not None
        epsilon = Fraction(cost, MILLION)
        try:
            subset = private_lists.mechanism(spec.recent_items, count, epsilon, published=published)
            subset.check(len(among))
        except ValueError as error:
            return Refused(f"private list: {error}")
        return among, subset, table, private_lists.guarantee(epsilon, published=published)

    async def _drawn(
        self, device: bytes | None, cost: int, count: int, query: str
    ) -> RankedItems | Refused:
        loop, runtime = asyncio.get_running_loop(), self._runtime
        if device is not None:
            verdict = await self._debits.debit(device.hex(), query, cost)
            if verdict is Verdict.SPENT:
                return self._spent(device, cost)
            if verdict is not Verdict.COUNTS:
                return Refused(NOT_READ_BACK if verdict is None else REPEATED)
        async with self._turn:
            plan = self._planned(cost, count)  # again: the state or its design may be another one
            if isinstance(plan, Refused):
                return Refused(plan.reason + PAID) if device is not None else plan
            among, subset, table, guarantee = plan
            scores, as_of = self._scores(device, among, table), runtime.replica.cut
            await asyncio.sleep(0)  # of hundreds that wait one copies, then the loop serves others
        chosen = await loop.run_in_executor(None, lambda: subset.release(scores(), self._source))
        runtime.metrics.private_list(cost / MILLION if device is not None else 0.0)
        return RankedItems(
            among[chosen],
            np.full(count, np.nan),
            private_lists.METHOD,
            as_of,
            guarantee=guarantee,
        )

    def _scores(
        self, device: bytes | None, among: private_lists.Keys, table: CoRated | None
    ) -> Callable[[], NDArray[np.float64]]:
        """Return what computes the scores, of copies, in any thread."""
        if device is None:
            return partial(np.zeros, len(among))
        replica = self._runtime.replica
        if table is None:
            return partial(private_lists.scores, private_lists.counts(replica, device), among)
        history = private_lists.rated(replica, device)
        return partial(private_lists.published_scores, table, history, among)

    def _spent(self, device: bytes, cost: int) -> Refused:
        self._runtime.metrics.private_list_refused()
        spent = self._debits.budgets.spent(device)
        return Refused(
            f"private lists of this user have spent epsilon {_shown(spent)} of "
            f"{_shown(self._debits.budget)}: too little is left for {_shown(cost)}"
        )


def _shown(cost: int) -> str:
    return f"{cost / MILLION:g}"
