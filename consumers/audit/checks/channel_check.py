"""The channel of each rating mechanism, recomputed from the reports on the wire.

    all reports, the reports on each item, the reports of each device: each group must be a mixture
    of the columns of the claimed channel (`hull.py`), the smallest p-value counts with Bonferroni

Reports with less noise than claimed leave the hull wherever people agree: an item that nearly all
like, or cells of which most are empty. Reports with more noise stay inside, since more noise is
what other ratings under the claimed channel would look like. A canary, a device of the observer's
own whose ratings are known, tests both directions: its reports have one law.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
from consumers.audit.checks.hull import hull_divergence, point_divergence
from consumers.audit.configuration import NO_RATING, PublicConfiguration
from consumers.audit.findings import Finding, statistical, untestable
from consumers.audit.observed import Messages, Observed
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency

FEWEST = 40  # reports of an item or a device that is looked at by itself
MOST_GROUPS = 4000  # items and devices that are: those with the most reports


def channels(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield one finding a mechanism of the allow-list, and one more where it has canaries."""
    for place, mechanism in enumerate(configuration.mechanisms):
        claim = f"{mechanism.id}: reports follow the claimed channel"
        messages = observed.messages.under(place)
        if mechanism.adjacency is Adjacency.NOTHING:
            yield untestable(claim, "this mechanism claims nothing")
        elif not len(messages):
            yield untestable(claim, "no report of this mechanism")
        else:
            yield _hull_finding(claim, mechanism, observed.messages, messages)
            if configuration.canaries:
                yield from canary_noise(mechanism, observed.messages, messages, configuration)


def _hull_finding(
    claim: str, mechanism: Mechanism, messages: Messages, chosen: NDArray[np.int64]
) -> Finding:
    rows = messages.rows(chosen)
    devices = np.repeat(messages.device[chosen], messages.count[chosen])
    worst, where, groups = 0.0, "all reports", 0
    for mask in masks_among(mechanism, messages.masks[rows]):
        under = rows[messages.masks[rows] == mask] if mechanism.masks else rows
        channel, reports = mechanism.likelihood(mask), messages.reports[under]
        for name, owners in (
            ("all reports", np.zeros(len(under), np.int64)),
            ("one item", np.unique(messages.items[under], return_inverse=True)[1]),
            ("one device", devices[np.isin(rows, under)] if mechanism.masks else devices),
        ):
            counts = _largest(owners, reports, len(channel), 0 if name == "all reports" else FEWEST)
            found = hull_divergence(counts, channel)
            groups += len(found)
            outcomes = int((channel.max(axis=1) > 0).sum())
            for divergence in found[found > 0]:
                log_p = tails.divergence_tail(float(divergence), outcomes)
                if log_p < worst:
                    worst, where = log_p, name
    measured = f"{len(rows):,} reports, {groups:,} groups, the least likely: {where}"
    return statistical(
        claim, tails.several(worst, groups), measured, reports=len(rows), groups=groups, worst=where
    )


def canary_noise(
    mechanism: Mechanism,
    messages: Messages,
    chosen: NDArray[np.int64],
    configuration: PublicConfiguration,
) -> Iterator[Finding]:
    """Yield the finding of the canaries that report under a mechanism."""
    claim = f"{mechanism.id}: canaries have exactly the claimed noise"
    worst, groups, reports = 0.0, 0, 0
    for device, rated in configuration.canaries.items():
        level = canary_input(mechanism, rated)
        if level < 0 or device not in messages.devices:
            continue
        own = chosen[messages.device[chosen] == messages.devices.index(device)]
        rows = messages.rows(own)
        for mask in masks_among(mechanism, messages.masks[rows]):
            law = mechanism.likelihood(mask)[:, level]
            under = rows[messages.masks[rows] == mask] if mechanism.masks else rows
            counts = np.bincount(messages.reports[under], minlength=len(law))
            groups, reports = groups + 1, reports + len(under)
            worst = min(worst, tails.divergence_tail(point_divergence(counts, law), len(law)))
    if not reports:
        yield untestable(claim, "no canary reports under this mechanism")
        return
    yield statistical(claim, tails.several(worst, groups), f"{reports:,} reports", reports=reports)


def canary_input(mechanism: Mechanism, rated: int | None) -> int:
    """Return the input of a canary's reports; -1 for one that has none, or is no canary."""
    if rated == NO_RATING and mechanism.adjacency is Adjacency.CELL:
        return mechanism.inputs - 1
    return rated if rated is not None and 0 <= rated < mechanism.inputs else -1


def masks_among(mechanism: Mechanism, masks: NDArray[np.uint16]) -> list[int]:
    """Return the masks beside some reports; 0 for a mechanism without."""
    return [int(mask) for mask in np.unique(masks)] if mechanism.masks else [0]


def _largest(
    owners: NDArray[np.int64], reports: NDArray[np.uint8], alphabet: int, fewest: int
) -> NDArray[np.int64]:
    """Return the counts (g, alphabet) of the owners with the most reports, at least `fewest`."""
    if not len(owners):
        return np.empty((0, alphabet), np.int64)
    sizes = np.bincount(owners)
    kept = np.argsort(-sizes, kind="stable")[:MOST_GROUPS]
    kept = kept[sizes[kept] >= max(1, fewest)]
    place = np.full(len(sizes), -1, np.int64)
    place[kept] = np.arange(len(kept))
    rows = place[owners] >= 0
    cells = place[owners[rows]] * alphabet + reports[rows]
    counts = np.bincount(cells, minlength=len(kept) * alphabet)
    return np.asarray(counts.reshape(len(kept), alphabet), np.int64)
