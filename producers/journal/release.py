"""The steps before the record: check keys and budget, draw; the only place with a ticket issuer.

debits_of        checks reported keys and budget of each request after the earlier ones
ReleaseSampler   certify in this process -> ticket -> mechanism.release, once for each request
commit_record    the record, and the messages that it makes durable
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.journal.account_book import BudgetState, report_counts
from producers.journal.budget import ATTO, NANO, NOTHING, Debit, Limits, debit
from producers.journal.records import Commit, DatasetProgress, KeyColumns, Texts, column
from producers.journal.request import Drawing, Message, Request
from stream_app.errors import BudgetExhausted, UserError
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import TicketIssuer

_KEYS = {"rating": "rating of this item"}  # the meaning of a scope's keys


def debits_of(state: BudgetState, limits: Limits, requests: Sequence[Request]) -> list[Debit]:
    """Return the debit of each request; raises for the first that keys or budget do not allow."""
    asked: dict[tuple[bytes, str], list[NDArray[np.uint64]]] = {}
    paid: dict[bytes, tuple[int, int]] = {}
    costs: dict[tuple[int, int], Debit] = {}
    debits = []
    for request in requests:
        state.check_clock(request.epoch, limits)
        before = asked.setdefault((request.device, request.scope), [])
        if not request.republish:
            _check_keys(state, limits, request, before)
        before.append(request.reported_keys)
        price = id(request.mechanism), request.count
        cost = costs.get(price)
        if cost is None:
            cost = costs[price] = debit(request.mechanism, request.count)
        if limits.hold(cost):
            paid_before = paid.get(request.device, (0, 0))
            paid[request.device] = _check_budget(state, limits, request, cost, paid_before)
        debits.append(cost)
    return debits


def _check_keys(
    state: BudgetState, limits: Limits, request: Request, before: list[NDArray[np.uint64]]
) -> None:
    reported = state.reported_keys(request.device, request.scope)
    if not before and not len(reported):
        return
    times = report_counts(reported, request.reported_keys)
    for earlier in before:
        times = times + report_counts(earlier, request.reported_keys)
    if times.max() >= limits.reports:
        what = _KEYS.get(request.scope, f"{request.scope} of this epoch")
        raise UserError(
            f"this user's {what} was published already; "
            "a second report spends a second epsilon on it: ask for it with republish (--republish)"
        )


def _check_budget(
    state: BudgetState, limits: Limits, request: Request, cost: Debit, already: tuple[int, int]
) -> tuple[int, int]:
    """Return `already` plus the cost: the device's (nano-epsilon, 10^-18 of delta)."""
    if cost.adjacency == NOTHING:
        raise BudgetExhausted(
            f"{request.mechanism.id} protects nothing and no budget ({limits}) holds it; "
            "leave out the budget (--budget) or choose another mechanism"
        )
    nano, atto = state.spent(request.device, request.epoch, limits)
    nano, atto = nano + already[0], atto + already[1]
    if limits.nano is not None and nano + cost.nano > limits.nano:
        raise BudgetExhausted(
            f"the budget is {limits}, this user has spent {nano / NANO:g} of it (on values, cells "
            f"and profiles together) and this costs {cost.nano / NANO:g}: nothing was drawn or "
            "sent; raise the budget (--budget), or wait where it is for a window of epochs"
        )
    if limits.atto is not None and atto + cost.atto > limits.atto:
        raise BudgetExhausted(
            f"the deltas of one user add up to {limits.delta} at most, this user's are "
            f"{atto / ATTO:g} and this costs {cost.atto / ATTO:g}: nothing was drawn or sent; "
            "choose a smaller --delta"
        )
    return already[0] + cost.nano, already[1] + cost.atto


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
