"""The report that is least likely on a cell, named by other reports, and counted.

    P(report = z | rating, all other reports)  >=  q_z = min over inputs v of L[z, v]

since the noise of each report is its own. Half of the reports name: cells are grouped by the mean
report of their item and of their account, and of each group the z is taken that falls short of q_z.
In the other half these z are trials that succeed with at least q_z each (`tail_check`). Then the
halves change places.

Reports with less noise than claimed undershoot q_z where other reports leave z improbable enough:
in randomised response a level of predicted probability below (q - q') / (p' - q'), p' and q' the
true ones; .058 where epsilon 3 is claimed as 2. Of independent ratings whose levels are all
likelier, no test of the wire can: other ratings under the claimed channel give the same law of all
reports. Of dependent ones, joint laws of several reports could show more; two on one cell are
tested (`freshness.py`). Devices of known ratings show the rest (`canary_check.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
from consumers.audit.checks.channel_check import masks_among
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, statistical
from consumers.audit.observed import Observed
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
