"""The order of the items in a message: sorted by key, or shuffled uniformly.

    sent at the moment of rating   sorted by key: no order of rating shows
    sent at the end of an epoch    shuffled (or sorted); under a uniform shuffle the position of an
                                   item depends on neither its key, nor its report, nor its name

A device of a value-protected mechanism sends at the moment of rating if it sends more messages in
an epoch than hold its reports; its messages must be sorted. All others are one sequence for an
epoch: what is rated may not be in the first of its messages. Sequences that are not sorted are
tested as shuffles, those of `LEAST` items or more (of which 1 in 40,320 is sorted by chance):

    ascents    neighbours in rising order            mean (n - 1)/2, variance (n + 1)/12
    drift      sum of position x rank of the key     variance n^2 (n + 1)^2 (n - 1)/144
    reports    sum of the positions of one report    variance k (1 - k/n) n (n + 1)/12
    items      sum of the positions of one item      variance (n^2 - 1)/12 a message
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, decided, statistical, untestable
from consumers.audit.observed import Messages, Observed
from stream_app.privacy.privacy_map import Adjacency
from stream_app.wire import MAX_RATINGS

LEAST = 8
_OCCURRENCES = 20  # messages with an item whose position is looked at by itself


def orders(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield the findings about messages of the moment and about shuffles."""
    messages = observed.messages
    sorted_claim = "messages at the moment of rating list their items by key"
    shuffled_claim = "the order of an epoch's message is a uniform shuffle"
    several = np.flatnonzero(messages.count > 1)
    if not len(several):
        yield untestable(sorted_claim, "no message with two items")
        yield untestable(shuffled_claim, "no message with two items")
        return
    immediate = _immediate(messages, configuration)
    unsorted = ~_rising(messages.items, messages.count)
    now = several[immediate[several]]
    wrong = int(unsorted[now].sum())
    if len(now):
        measured = f"{wrong:,} of {len(now):,} messages in another order"
        yield decided(sorted_claim, wrong, measured, messages=len(now))
    else:
        yield untestable(sorted_claim, "no device sends several times in an epoch")
    rows, counts = _turns(messages, np.flatnonzero(~immediate))
    shuffled = (counts >= LEAST) & ~_rising(messages.items[rows], counts)
    if not shuffled.any():
        yield untestable(shuffled_claim, f"no shuffled message of {LEAST} items")
        return
    log_p, worst = _shuffle_tail(messages, rows[np.repeat(shuffled, counts)], counts[shuffled])
    turns = int(shuffled.sum())
    measured = f"{turns:,} messages or turns of several, the least likely: {worst}"
    yield statistical(shuffled_claim, log_p, measured, messages=turns, worst=worst)


def _turns(
    messages: Messages, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of these messages and how many each sequence has, (k,): the messages of an
    epoch by number, where they are as few as hold its cells; else each message by itself."""
    ordered = chosen[
        np.lexsort(
            (
                messages.seq[chosen],
                messages.epoch[chosen],
                messages.mechanism[chosen],
                messages.device[chosen],
            )
        )
    ]
    turn, whole = _turn_of(messages, ordered)
    counts = messages.count[ordered]
    start = np.ones(len(ordered), np.bool_)
    start[1:] = (turn[1:] != turn[:-1]) | ~whole[turn[1:]]
    joined = np.add.reduceat(counts, np.flatnonzero(start)) if len(ordered) else counts
    return messages.rows(ordered), joined


def _turn_of(
    messages: Messages, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the number of each message's device, mechanism and epoch, and whether the messages of
    a number are as few as hold its cells."""
    columns = (messages.device, messages.mechanism, messages.epoch)
    place = np.stack([column[chosen] for column in columns], axis=1)
    _, turn = np.unique(place, axis=0, return_inverse=True)
    turn = turn.reshape(-1)
    cells = np.bincount(turn, weights=messages.count[chosen]).astype(np.int64)
    return turn, np.bincount(turn) <= -(-cells // MAX_RATINGS)


def _immediate(messages: Messages, configuration: PublicConfiguration) -> NDArray[np.bool_]:
    """Return which messages are of a device that sends at the moment of rating, (m,)."""
    of_value = [each.adjacency is not Adjacency.CELL for each in configuration.mechanisms]
    turn, whole = _turn_of(messages, np.arange(len(messages)))
    sender = messages.device * len(of_value) + messages.mechanism
    often = np.zeros(int(sender.max()) + 1, np.bool_)
    often[sender[~whole[turn]]] = True
    return np.asarray(often[sender] & np.array(of_value)[messages.mechanism], np.bool_)


def _rising(items: NDArray[np.uint64], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which sequences list their items in rising order, (k,)."""
    owner = np.repeat(np.arange(len(counts)), counts)
    falls = (items[1:] < items[:-1]) & (owner[1:] == owner[:-1])
    return np.asarray(np.bincount(owner[1:][falls], minlength=len(counts)) == 0, np.bool_)


def _shuffle_tail(
    messages: Messages, rows: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[float, str]:
    """Return ln p over all statistics of these sequences, and the least likely of them."""
    owner = np.repeat(np.arange(len(counts)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    length = counts[owner].astype(np.float64)
    middle = (length - 1) / 2
    position = np.arange(len(rows)) - first - middle
    items, n = messages.items[rows], counts.astype(np.float64)
    scores = {"neighbours": _ascents(items, owner, n)}
    rank = np.empty(len(rows))
    rank[np.lexsort((items, owner))] = np.arange(len(rows)) - first
    scores["keys"] = float(
        (position * (rank - middle)).sum() / np.sqrt((n**2 * (n + 1) ** 2 * (n - 1) / 144).sum())
    )
    mechanism = np.repeat(messages.mechanism, messages.count)[rows]
    for each in np.unique(mechanism):
        for report in np.unique(messages.reports[rows[mechanism == each]]):
            marked = (messages.reports[rows] == report) & (mechanism == each)
            k = np.bincount(owner[marked], minlength=len(counts))
            variance = (k * (1 - k / n) * n * (n + 1) / 12).sum()
            if variance > 0:
                scores[f"report {report}"] = float(position[marked].sum() / np.sqrt(variance))
    _, place = np.unique(items, return_inverse=True)
    often = np.bincount(place) >= _OCCURRENCES
    totals = np.bincount(place, weights=position)[often]
    spread = np.bincount(place, weights=(length**2 - 1) / 12)[often]
    tests = len(scores) + int(often.sum())
    if often.any():
        scores["items"] = float(np.abs(totals / np.sqrt(spread)).max())
    worst = max(scores, key=lambda name: abs(scores[name]))
    return tails.several(tails.normal_tail(scores[worst]), tests), worst


def _ascents(items: NDArray[np.uint64], owner: NDArray[np.int64], n: NDArray[np.float64]) -> float:
    """Return the standardised number of neighbours in rising order."""
    rising = int(((items[1:] > items[:-1]) & (owner[1:] == owner[:-1])).sum())
    return float((rising - ((n - 1) / 2).sum()) / np.sqrt(((n + 1) / 12).sum()))
