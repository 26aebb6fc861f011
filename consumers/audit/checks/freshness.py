"""Whether noise is drawn afresh: no two messages may agree more than chance allows.

    reports    two columns of n reports are equal with probability at most c^n,
               c = max over inputs of  sum_z P(z | v)^2
    cells      two reports on one cell agree with probability at most c

A seeded or copied source, and a report that is memorised and sent as new, show here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, statistical, untestable
from consumers.audit.observed import Messages, Observed
from stream_app.privacy.privacy_map import Adjacency


def freshness(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield one finding for each mechanism whose noise can be compared."""
    for place, mechanism in enumerate(configuration.mechanisms):
        claim = f"{mechanism.id}: the noise of every report is its own"
        if mechanism.adjacency is Adjacency.NOTHING:
            continue
        if mechanism.masks:
            yield untestable(claim, "reports of different partitions are not compared")
            continue
        chosen = observed.messages.under(place)
        if len(chosen) < 2:
            yield untestable(claim, "fewer than two messages")
            continue
        agree = float((mechanism.likelihood() ** 2).sum(axis=0).max())
        columns, equal = _equal_columns(observed.messages, chosen, agree)
        cells, pairs, repeated = _repeated_cells(observed.messages, chosen, agree)
        measured = f"{equal:,} equal columns; {repeated:,} of {pairs:,} repeated cells agree"
        yield statistical(claim, tails.several(min(columns, cells), 2), measured, equal=equal)


def _equal_columns(
    messages: Messages, chosen: NDArray[np.int64], agree: float
) -> tuple[float, int]:
    """Return ln p of the columns of reports that are equal, and how many are."""
    by_length: dict[int, list[bytes]] = defaultdict(list)
    for message in chosen.tolist():
        start, end = messages.first[message], messages.first[message + 1]
        by_length[int(end - start)].append(messages.reports[start:end].tobytes())
    worst, equal = 0.0, 0
    for length, columns in by_length.items():
        twice = len(columns) - len(set(columns))
        pairs = len(columns) * (len(columns) - 1) / 2
        if twice:
            log_p = np.log(pairs) + length * np.log(agree)
            equal += twice if log_p < 0 else 0
            worst = min(worst, float(log_p))
    return tails.several(worst, len(by_length)), equal


def _repeated_cells(
    messages: Messages, chosen: NDArray[np.int64], agree: float
) -> tuple[float, int, int]:
    """Return ln p of the repeated cells whose reports agree, their pairs and the agreements."""
    rows = messages.rows(chosen)
    owner = np.repeat(messages.device[chosen], messages.count[chosen])
    order = np.lexsort((rows, messages.items[rows], owner))
    owner, items = owner[order], messages.items[rows][order]
    reports = messages.reports[rows][order]
    same = (owner[1:] == owner[:-1]) & (items[1:] == items[:-1])
    # Every second pair of a run would share a report: disjoint pairs are independent.
    starts = np.flatnonzero(same)
    starts = starts[np.concatenate((np.ones(min(1, len(starts)), bool), np.diff(starts) > 1))]
    agreeing = int((reports[starts] == reports[starts + 1]).sum())
    return tails.at_least_tail(agreeing, len(starts), agree), len(starts), agreeing
