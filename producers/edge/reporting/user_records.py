"""What a user of the site may ask for: the answers, as they are sent over HTTP.

Times are milliseconds since 1970 in UTC; days are since 1970. Spending is for life, by what the
epsilon protects: epsilons of different adjacencies do not add.
"""

from __future__ import annotations

import msgspec


class BudgetLine(msgspec.Struct, frozen=True):
    """What was spent under one adjacency, on so many reports."""

    adjacency: str
    protects: str
    epsilon: float
    delta: float
    reports: int


class BudgetRecord(msgspec.Struct, frozen=True):
    """The (epsilon, delta) of the whole person in any window of days, and what was spent.

    `reports_left` under the site's mechanism, None without a limit.
    """

    epsilon: float | None
    delta: float
    window_days: int | None
    plan: str
    enrolled_day: int
    withdrawn_day: int | None
    spent: list[BudgetLine]
    mechanism: str
    reports_left: int | None


class TopicLine(msgspec.Struct, frozen=True):
    """Messages that left for one topic: numbered from 1, `confirmed` by the broker, or waiting for
    it. The numbers are the receipt: the recommender counts each once."""

    topic: str
    messages: int
    confirmed: int
    waiting: int


class DoneEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of the user."""

    item: str
    type: str
    at: int
    value: float | None = None


class HistoryLine(msgspec.Struct, frozen=True):
    """An item of the clean history, its stars on 1 .. 5, and whether a report on it left."""

    item: str
    stars: float | None
    at: int | None
    reported: bool


class UserRecord(msgspec.Struct, frozen=True):
    """What the site holds of a user, and what left it; `removed`: when the user was deleted."""

    pseudonym: str
    created: int
    removed: int | None
    forget_since: int | None
    events: int
    lists: int
    history: list[HistoryLine]
    budget: BudgetRecord | None
    left_the_site: list[TopicLine]


class UserExport(msgspec.Struct, frozen=True):
    """What the site holds of a user, and every event, to take along."""

    user: str
    record: UserRecord
    events: list[DoneEvent]


class AccountLine(msgspec.Struct, frozen=True):
    """One account in a list of them."""

    user: str
    pseudonym: str
    created: int
    removed: int | None
    events: int
    budget: BudgetRecord | None


class DeletionReceipt(msgspec.Struct, frozen=True):
    """What a deletion did: removed here, kept here, sent before, and asked upstream.

    `upstream` is "nothing" (nothing had left), "sums" (contributions alone, which cannot be taken
    out), "asked" (as soon as what was released before has arrived there) or "operator" (only its
    operator may write that: give him the pseudonym).
    """

    pseudonym: str
    at: int
    events_removed: int
    lists_removed: int
    kept: str
    budget: BudgetRecord | None
    left_the_site: list[TopicLine]
    upstream: str
    upstream_sentence: str
