"""The steps before the record: check keys and budget, draw; the only place with a ticket issuer.

debits_of        checks account, reported keys and budget of each request after the earlier ones
ReleaseSampler   certify in this process -> ticket -> mechanism.release, once for each request
commit_record    the record, and the messages that it makes durable
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.journal.account_book import BudgetState
from producers.journal.budget import Debit, Limits, debit
from producers.journal.journal_progress import DatasetProgress
from producers.journal.records import Commit, KeyColumns, Texts, column
from producers.journal.request import Drawing, Message, Request
from producers.person.account import report_counts
from producers.person.enrolment import ADAPTIVE, Enrolment, PersonBudget
from producers.person.pace import DAYS
from producers.person.remaining_reports import Parts, rooms
from producers.person.reports import Used, allows, room, sums
from stream_app.errors import BudgetExhausted, UserError
from stream_app.privacy.gaussian.campaign_loss import is_campaign
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import TicketIssuer
from stream_app.wire import EPOCH_SECONDS

_KEYS = {"rating": "rating of this item"}  # the meaning of a scope's keys


def debits_of(state: BudgetState, limits: Limits, requests: Sequence[Request]) -> list[Debit]:
    """Return the debit of each request; raises for the first whose device is not enrolled, or that
    keys or budget do not allow."""
    asked: dict[tuple[bytes, str], list[NDArray[np.uint64]]] = {}
    admission = Admission(state, limits)
    costs: dict[tuple[int, int], Debit] = {}
    debits = []
    for request in requests:
        state.check_clock(request.epoch, limits)
        before = asked.setdefault((request.device, request.scope), [])
        again = _reported_before(state, limits, request, before)
        before.append(request.reported_keys)
        if request.paid_by is not None:
            debits.append(_covered(state, request))
            continue
        price = id(request.mechanism), request.count
        cost = costs.get(price)
        if cost is None:
            cost = costs[price] = debit(request.mechanism, request.count)
        cost = replace(cost, again=again) if again else cost
        admission.check(request, cost)
        debits.append(cost)
    return debits


def _covered(state: BudgetState, request: Request) -> Debit:
    """Return the debit of a release that an earlier one has paid for: nothing.

    ValueError where the account shows no such debit of this mechanism in this epoch or later.
    """
    enrolled(state.enrolment(request.device), request.device)
    payer = np.array([request.paid_by], np.uint64)
    account = state.accounts[request.device]
    paid = any(
        epoch >= request.epoch
        and (scope, mechanism) == (request.scope, request.mechanism.id)
        and account.spends[epoch, kind, scope, mechanism][2]
        for epoch, kind, scope, mechanism in account.spends
    )
    reported = state.reported_keys(request.device, request.scope)
    if not paid or not report_counts(reported, payer)[0]:
        raise ValueError(f"release of {request.mechanism.id}: no debit in this epoch covers it")
    return Debit(str(request.mechanism.adjacency), 0, 0, 0)


def _reported_before(
    state: BudgetState, limits: Limits, request: Request, before: list[NDArray[np.uint64]]
) -> int:
    """Return how many keys of a request were reported before; UserError where that was too often
    for one of them."""
    reported = state.reported_keys(request.device, request.scope)
    if not before and not len(reported):
        return 0
    times = report_counts(reported, request.reported_keys)
    for earlier in before:
        times = times + report_counts(earlier, request.reported_keys)
    if not request.republish and times.max() >= limits.reports:
        what = _KEYS.get(request.scope, f"{request.scope} of this epoch")
        raise UserError(
            f"this user's {what} was published already; "
            "a second report spends a second epsilon on it: ask for it with republish (--republish)"
        )
    return int(np.count_nonzero(times))


class Admission:
    """Checks releases of one record against the accounts: each after the earlier ones."""

    def __init__(self, state: BudgetState, limits: Limits) -> None:
        self._state, self._share = state, limits.share
        self._plans: dict[bytes, str] = {}  # decided by this record
        self._asked: dict[bytes, dict[str, Used]] = {}

    def check(self, request: Request, cost: Debit) -> None:
        """Count the request; UserError for a device that is not enrolled or was withdrawn,
        `BudgetExhausted` where the person's budget does not hold it."""
        budget = enrolled(self._state.enrolment(request.device), request.device).budget
        if not budget.limited:
            return
        plan = self._plans.get(request.device) or budget.plan or request.mechanism.id
        used = self._used(request, budget)
        left = room(budget, used, request.mechanism, plan)
        if left is not None and request.count > left:
            raise BudgetExhausted(_refusal(request, budget, plan, left))
        if is_campaign(request.mechanism.id):
            self._check_pace(request, budget, plan)
        if self._share is not None:
            _check_parts(rooms(budget, used, request.mechanism, self._share, plan), cost)
        self._plans[request.device] = plan
        asked = self._asked.setdefault(request.device, {})
        asked.setdefault(request.mechanism.id, Used()).add(
            cost.reports, cost.nano, cost.atto, cost.again
        )

    def _check_pace(self, request: Request, budget: PersonBudget, plan: str) -> None:
        """Raise `BudgetExhausted` where share or pace of campaigns do not hold the request."""
        asked = self._asked.get(request.device, {})
        found = self._state.paced(request.device, request.epoch, request.mechanism, plan, asked)
        if request.count <= found.left:
            return
        when = "none" if found.next is None else f"one from {_day(found.next)} on"
        raise BudgetExhausted(
            f"campaigns may spend {budget.pace.share} of the budget of {budget}, and "
            f"{budget.pace.part} of that in any {DAYS} days, which holds {found.left} more of this "
            f"campaign today and {when}: nothing was drawn or sent; wait, or change the pace "
            "(murmurec device enrol --user ID --pace SHARE:PART)"
        )

    def _used(self, request: Request, budget: PersonBudget) -> dict[str, Used]:
        used = self._state.used(request.device, request.epoch, budget)
        asked = self._asked.get(request.device)
        return used if asked is None else sums(used, asked)


def _check_parts(left: Parts | None, cost: Debit) -> None:
    """Raise `BudgetExhausted` where one part of the budget does not hold its reports."""
    first = cost.reports - cost.again
    if left is not None and (first > left.first or cost.again > left.again):
        raise BudgetExhausted(
            f"the budget's parts hold {_reports(left.first)} more of items that were never "
            f"reported and {_reports(left.again)} of others, and this needs {first} and "
            f"{cost.again}: nothing was drawn or sent; give later rounds another share, or wait"
        )


def enrolled(enrolment: Enrolment | None, device: bytes, name: str | None = None) -> Enrolment:
    """Return the terms; UserError with the way out for a device that has none or was withdrawn.

    `name`: the person's own id, where the caller knows it.
    """
    if enrolment is not None and not enrolment.withdrawn:
        return enrolment
    given = f"device {device.hex()}" if name is None else name
    how = "murmurec device enrol" + ("" if name is None else f" --user {name}")
    if enrolment is None:
        raise UserError(
            f"{given} is not enrolled, and nothing is released without a budget for the whole "
            f"person: run {how}"
        )
    raise UserError(
        f"{given} was withdrawn in epoch {enrolment.withdrawn}, and nothing is released since: to "
        f"take part again, run {how}"
    )


def _refusal(request: Request, budget: PersonBudget, plan: str, left: int) -> str:
    name = request.mechanism.id
    if request.mechanism.epsilon is None:
        return (
            f"{name} protects nothing and no budget holds it, here {budget} for the whole person: "
            "choose another mechanism"
        )
    if not allows(plan, name):
        asked = "this campaign" if is_campaign(name) else name
        chosen = "another campaign alone" if is_campaign(plan) else plan
        way = f"report with {plan}; " if asked == name and chosen == plan else ""
        return (
            f"the budget of {budget} for the whole person is planned for {chosen}, and {asked} is "
            f"another mechanism: {way}murmurec device enrol --user ID --plan {ADAPTIVE} makes it a "
            "plan for several from now on"
        )
    return (
        f"the budget is {budget} for the whole person, which holds {_reports(left)} more of "
        f"{name}, and this needs {request.count}: nothing was drawn or sent; raise the budget "
        "(murmurec device enrol --raise), or wait where it is for a window of days"
    )


def _day(epoch: int) -> str:
    return str(datetime.fromtimestamp(epoch * EPOCH_SECONDS, UTC).date())


def _reports(count: int) -> str:
    return "1 report" if count == 1 else f"{count} reports"


class ReleaseSampler:
    """Draws for requests that are paid for; rejects a mechanism that does not prove its claim."""

    def __init__(self, source: RandomSource) -> None:
        self._issuer = TicketIssuer(source)

    def drawn(self, requests: Sequence[Request]) -> list[Any]:
        """Return what was drawn for each request; joined ones of one mechanism share a call."""
        found: list[Any] = [None] * len(requests)
        together: dict[tuple[int, bool], list[int]] = {}
        for i, part in enumerate(requests):
            if part.joined:
                together.setdefault((id(part.mechanism), part.masks is None), []).append(i)
            else:
                found[i] = self._draw(part.mechanism, part.raw_inputs, part.masks, part.count)
        for places in together.values():
            parts = [requests[i] for i in places]
            columns = [part.masks for part in parts if part.masks is not None]
            released = self._draw(
                parts[0].mechanism,
                np.concatenate([part.raw_inputs for part in parts]),
                np.concatenate(columns) if columns else None,
                sum(part.count for part in parts),
            )
            start = 0
            for i, part in zip(places, parts, strict=True):
                found[i] = released[start : start + part.count]
                start += part.count
        return found

    def _draw(
        self, mechanism: Drawing, raw_inputs: Any, masks: NDArray[np.uint16] | None, count: int
    ) -> Any:
        self._issuer.admit(mechanism)
        ticket = self._issuer.ticket(mechanism, count)
        more = () if masks is None else (masks,)
        release: Callable[..., Any] = mechanism.release
        return release(raw_inputs, ticket, *more)


def commit_record(
    state: BudgetState,
    requests: Sequence[Request],
    debits: Sequence[Debit],
    drawn: Sequence[Any],
    replay: DatasetProgress | None,
    *,
    test: bool,
) -> tuple[Commit, list[Message]]:
    """Return the record of these releases and the messages that it makes durable; `test` marks
    them as drawn from noise that can be replayed."""
    messages, firsts = _messages(state, requests, drawn, test=test)
    texts, columns_of_keys = Texts(), KeyColumns()
    columns = (
        b"".join([request.device for request in requests]),
        bytes([texts.place(request.scope) for request in requests]),
        bytes([texts.place(cost.adjacency) for cost in debits]),
        bytes([texts.place(request.topic) for request in requests]),
        column([cost.nano for cost in debits], "<u8"),
        column([cost.atto for cost in debits], "<u8"),
        column([cost.reports for cost in debits], "<u4"),
        column([columns_of_keys.place(request.reported_keys) for request in requests], "<u4"),
        *(columns_of_keys.sizes, columns_of_keys.keys),
        column([len(request.parts) for request in requests], "<u4"),
        column(firsts, "<u8"),
        column([len(message.value) for message in messages], "<u4"),
        b"".join([message.value for message in messages]),
        bytes([texts.place(request.mechanism.id) for request in requests]),
        column([cost.again for cost in debits], "<u4") if any(c.again for c in debits) else b"",
    )
    epoch = max((request.epoch for request in requests), default=state.epoch)
    return Commit(epoch, state.next, replay, texts.all, *columns), messages


def _messages(
    state: BudgetState, requests: Sequence[Request], drawn: Sequence[Any], *, test: bool
) -> tuple[list[Message], list[int]]:
    """Return every message, and the first seq of each request."""
    seqs: dict[tuple[bytes, str], int] = {}
    firsts, messages, number = [], [], state.next
    for request, released in zip(requests, drawn, strict=True):
        device, topic, encode = request.device, request.topic, request.encode
        seq = seqs.get((device, topic)) or state.seq(device, topic) + 1
        firsts.append(seq)
        for part in request.parts:
            value = encode(seq, part, released, test)
            messages.append(Message(number, device, seq, topic, value))
            number += 1
            seq += 1
        seqs[device, topic] = seq
    return messages, firsts
