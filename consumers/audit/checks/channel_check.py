"""The channel of each rating mechanism, recomputed from the reports on the wire.

    all reports, the reports on each item, the reports of each device: each group must be a mixture
    of the columns of the claimed channel (the hull), the smallest p-value counts with Bonferroni

Reports with less noise than claimed leave the hull wherever people agree: an item that nearly all
like, or cells of which most are empty. Reports with more noise stay inside, since more noise is
what other ratings under the claimed channel would look like. A canary, a device of the observer's
own whose ratings are known, tests both directions: its reports have one law.

Whatever the ratings are, the mean law of n reports is a mixture of the channel's columns:

    D = min over mixtures pi of  n KL(counts / n || L pi)            L: (k, v), columns sum to 1

An honest deployment exceeds x with probability at most `tails.divergence_tail(x, k)`, because the
true mixture is one of those over which the minimum is taken. The minimum is found by expectation
maximisation, pi_v <- pi_v g_v with g_v = sum_z (counts_z / n) L[z, v] / (L pi)_z. By concavity the
minimum is at most n ln(max g) below the value at pi, so that much is subtracted: the result is a
lower bound of D at every step, and an early end costs power, never a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
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


STEPS = 4000
_CLOSE = 0.05  # nats of n KL that are worth no further step


def hull_divergence(counts: NDArray[np.int64], channel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a lower bound of D for each group of counts (g, k); inf where a report is impossible.

    `channel` is (k, v). A group without reports has D = 0.
    """
    totals = counts.sum(axis=1).astype(np.float64)
    found = np.zeros(len(counts))
    impossible = (counts[:, channel.max(axis=1) <= 0] > 0).any(axis=1)
    found[impossible] = np.inf
    left = np.flatnonzero((totals > 0) & ~impossible)
    left = left[~_inside(counts[left] / totals[left, None], channel)]
    shares = counts[left] / totals[left, None]
    mixture = np.full((len(left), channel.shape[1]), 1 / channel.shape[1])
    for step in range(STEPS):
        if not len(left):
            break
        fitted = mixture @ channel.T
        ratio = np.divide(shares, fitted, out=np.zeros_like(shares), where=shares > 0)
        gain = ratio @ channel
        slack = totals[left] * np.log(np.maximum(gain.max(axis=1), 1.0))
        done = slack <= _CLOSE if step + 1 < STEPS else np.ones(len(left), np.bool_)
        if step % 8 == 0 or done.all():
            logs = np.log(ratio, out=np.zeros_like(ratio), where=ratio > 0)
            value = totals[left] * (shares * logs).sum(axis=1) - slack
            found[left[done]] = np.maximum(value[done], 0.0)
            kept = ~done
            left, shares, mixture, gain = left[kept], shares[kept], mixture[kept], gain[kept]
        mixture = mixture * gain
    return found


def point_divergence(counts: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    """Return n KL(counts / n || law) of one group (k,) against one law (k,)."""
    total = counts.sum()
    if not total:
        return 0.0
    shares = counts / total
    if (shares[law <= 0] > 0).any():
        return float("inf")
    some = shares > 0
    return float(total * (shares[some] * np.log(shares[some] / law[some])).sum())


def _inside(shares: NDArray[np.float64], channel: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which laws (g, k) are mixtures by the inverse of the channel, where it has one."""
    columns = channel.shape[1]
    if not len(shares) or np.linalg.matrix_rank(channel) < columns:
        return np.zeros(len(shares), np.bool_)
    weights, *_ = np.linalg.lstsq(channel, shares.T, rcond=None)
    exact = np.abs(channel @ weights - shares.T).max(axis=0) < 1e-12
    return np.asarray(exact & (weights.min(axis=0) >= 0), np.bool_)
