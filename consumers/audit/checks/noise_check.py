"""Whether the noise of each report is its own, and no less than claimed.

The report that is least likely on a cell is named by other reports, and counted.

    P(report = z | rating, all other reports)  >=  q_z = min over inputs v of L[z, v]

since noise is drawn afresh. Half of the reports name: cells are grouped by the mean
report of their item and of their account, and of each group the z is taken that falls short of q_z.
In the other half these z are trials that succeed with at least q_z each (`tail_check`). Then the
halves change places.

Reports with less noise than claimed undershoot q_z where other reports leave z improbable enough:
in randomised response a level of predicted probability below (q - q') / (p' - q'), p' and q' the
true ones; .058 where epsilon 3 is claimed as 2. Of independent ratings whose levels are all
likelier, no test of the wire can: other ratings under the claimed channel give the same law of all
reports. Of dependent ones, joint laws of several reports could show more; two on one cell are
tested below. Devices of known ratings show the rest (`canary_check.py`).

No two messages may agree more than chance allows:

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
from consumers.audit.checks.channel_check import masks_among
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, statistical, untestable
from consumers.audit.observed import Messages, Observed
from stream_app.privacy.privacy_map import Adjacency

_Integers = NDArray[np.int64]
PER_GROUP, MOST_GROUPS = 200, 64
_SHRINKING = 5.0  # reports at the overall mean that each item and account is given
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def least_likely(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield one finding for each mechanism with reports that claims something."""
    messages = observed.messages
    for place, mechanism in enumerate(configuration.mechanisms):
        chosen = messages.under(place)
        if mechanism.adjacency is Adjacency.NOTHING or not len(chosen):
            continue
        rows = messages.rows(chosen)
        accounts = np.repeat(messages.device[chosen], messages.count[chosen])
        counted = np.zeros((2, 3))  # of each half: successes, trials, expected at least
        for mask in masks_among(mechanism, messages.masks[rows]):
            under = messages.masks[rows] == mask
            items = np.unique(messages.items[rows[under]], return_inverse=True)[1]
            owners = np.unique(accounts[under], return_inverse=True)[1]
            reports = messages.reports[rows[under]].astype(np.int64)
            least = mechanism.likelihood(mask).min(axis=1)
            counted += _counted(reports, (items.reshape(-1), owners.reshape(-1)), least)
        log_p = min(
            tails.at_most_tail(int(seen), int(trials), float(expected / max(1, trials)))
            for seen, trials, expected in counted
        )
        seen, trials, expected = counted.sum(axis=0)
        yield statistical(
            f"{mechanism.id}: other reports predict none beyond its noise",
            tails.several(log_p, 2),
            f"the least likely came {seen:,.0f} times of {trials:,.0f}, expected {expected:,.0f}",
            **{"seen": int(seen), "expected": float(expected)},
        )


def _counted(
    reports: _Integers, sides: tuple[_Integers, ...], least: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return (2, 3) for reports (n,) under one mask, each half named by the other one."""
    found, groups = [], int(np.clip(len(reports) // PER_GROUP, 1, MOST_GROUPS))
    half = np.arange(len(reports), dtype=np.uint64) * _GOLDEN >> np.uint64(63) == 1
    for naming in (half, ~half):
        leaning = sum(_means(side, reports, naming) for side in sides)
        cuts = np.quantile(leaning, np.arange(1, groups) / groups)
        cells = np.searchsorted(cuts, leaning) * len(least) + reports
        named, counted = (
            np.bincount(cells[each], minlength=groups * len(least)).reshape(groups, -1)
            for each in (naming, ~naming)
        )
        expected = named.sum(axis=1, keepdims=True) * least
        short = (expected - named) / np.sqrt(np.maximum(expected, 1))
        z, rows = short.argmax(axis=1), np.arange(groups)
        kept = short[rows, z] > 1
        z, rows = z[kept], rows[kept]
        trials = counted.sum(axis=1)[rows]
        found.append((counted[rows, z].sum(), trials.sum(), (trials * least[z]).sum()))
    return np.array(found)


def _means(owners: _Integers, reports: _Integers, naming: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the shrunken mean report of the owner of each cell in the half that names, (n,)."""
    overall = reports[naming].mean() if naming.any() else 0.0
    sizes = np.bincount(owners[naming], minlength=int(owners.max()) + 1)
    sums = np.bincount(owners[naming], weights=reports[naming], minlength=len(sizes))
    return np.asarray(((sums + _SHRINKING * overall) / (sizes + _SHRINKING))[owners], np.float64)


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
