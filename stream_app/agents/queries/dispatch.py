"""Which part of a worker answers a query, by the query's option.

    no option     the list of a user for the next visit           `Recommender.answer`
    for           the same for the next visit, or for this one
    similar_to    items near to one item                          `serving/together/`
    private       a list that is drawn, of a stated guarantee     `Runtime.private_lists`
    neighbours    what devices with a similar profile have        `Runtime.neighbours`

An answer that has to wait (for the log of budgets, say) is awaitable; the event loop goes on with
other queries meanwhile. What a worker does not serve is refused with the setting that is missing.
"""

from __future__ import annotations

from collections.abc import Awaitable
from fractions import Fraction

import msgspec

from stream_app.agents.runtime import Runtime
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.wire import Query

Outcome = RankedItems | Refused

TWO_OPTIONS = "similar_to, private, neighbours, for: give at most one of them in a query"
NO_USER = "user: a pseudonym of 32 hex characters is missing"
A_USER = "similar_to: such a query names no user"
NO_PRIVATE_LISTS = (
    "private lists are not served: the operator has set no budget for them (list_budget)"
)
NO_NEIGHBOURS = "neighbours are not served: the operator accepts no profiles (profile_mechanisms)"


def outcome(runtime: Runtime, query: Query, arrived: float) -> Outcome | Awaitable[Outcome]:
    """Return the answer to a query, now or when it is awaited; `arrived`: its perf_counter."""
    options = query.options
    if len(options) > 1:
        return Refused(TWO_OPTIONS)
    if query.similar_to is not msgspec.UNSET:
        if query.user is not None:
            return Refused(A_USER)
        return runtime.similar(query.similar_to, arrived)
    if query.user is None:
        return Refused(NO_USER)
    device = bytes.fromhex(query.user)
    if query.private is not msgspec.UNSET:
        return _private(runtime, device, query.private, query)
    if query.neighbours is True:
        lists = runtime.neighbours
        if lists is None:
            return Refused(NO_NEIGHBOURS)
        return lists.answer(device, arrived)
    return runtime.answer(device, arrived, now=query.for_ == "now")


def _private(
    runtime: Runtime, device: bytes, epsilon: Fraction, query: Query
) -> Outcome | Awaitable[Outcome]:
    lists = runtime.private_lists
    if lists is None:
        return Refused(NO_PRIVATE_LISTS)
    return lists.answer(device, epsilon, query.k, query.id)
