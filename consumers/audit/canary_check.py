"""Devices of known ratings: a lower bound of the epsilon behind their reports.

    all    name for each report the input that the claimed channel makes likeliest: of k inputs
           equally often, at most e^eps / (e^eps + k - 1) are right (P(z | v) <= e^eps P(z | w) for
           each w, added up)
    pair   P(S | v) <= e^eps P(S | w),  S the reports of the largest claimed ratio

The first bound is tight for randomised response and takes every report; the second one sees a
single pair that is worse. Half of alpha is for the first and half for the k (k - 1) ordered pairs,
shared evenly by mechanisms and masks; the law of the reports is tested beside them. Inputs that a
mask does not tell apart are one. Right names differ in probability: their count exceeds its mean no
more often than if all were equal (Hoeffding 1956).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from consumers.audit.checks.channel_check import canary_input, canary_noise, masks_among
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, decided, judged, untestable
from consumers.audit.observed import Observed
from consumers.audit.tail_check import at_least, at_most
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency

_Integers = NDArray[np.int64]


def canary_findings(observed: Observed, configuration: PublicConfiguration) -> list[Finding]:
    """Return what canaries show of every mechanism that claims something, judged at `alpha`."""
    found: list[Finding] = []
    mechanisms = configuration.mechanisms
    claiming = [each for each in mechanisms if each.adjacency is not Adjacency.NOTHING]
    for mechanism in claiming:
        place = mechanisms.index(mechanism)
        claim = f"{mechanism.id}: canaries show no epsilon above {mechanism.epsilon}"
        known = list(_known(mechanism, place, observed, configuration))
        if not known:
            found.append(untestable(claim, "no two canaries of different inputs report under it"))
            continue
        shared = configuration.alpha / (2 * len(claiming) * len(known))
        epsilon, pair = np.max([epsilon_bounds(*each, shared) for each in known], axis=0)
        reports = sum(len(inputs) for inputs, *_ in known)
        above = epsilon > float(mechanism.epsilon or 0)
        measured = f"at least {epsilon:.3f}, {pair:.3f} by a pair alone, from {reports:,} reports"
        figures = {"mechanism": mechanism.id, "epsilon": epsilon, "pair": pair}
        found.append(decided(claim, int(above), measured, **figures))
        messages = observed.messages
        found += canary_noise(mechanism, messages, messages.under(place), configuration)
    return judged(found, configuration.alpha / 2)


def epsilon_bounds(
    inputs: _Integers, reports: _Integers, law: NDArray[np.float64], alpha: float
) -> tuple[float, float]:
    """Return lower bounds of epsilon by all inputs or a pair, and by a pair alone, which both hold
    with probability 1 - `alpha`.

    inputs, reports: (n,), columns and rows of the claimed `law`, (alphabet, k); each input occurs.
    """
    outcomes, k = law.shape
    counts = np.bincount(inputs * outcomes + reports, minlength=outcomes * k).reshape(k, outcomes)
    sizes = counts.sum(axis=1)
    named, right = law.argmax(axis=1), 0
    for column in range(k):  # the first ones of each input, so that all are equally many
        own = reports[inputs == column][: sizes.min()]
        right += int((named[own] == column).sum())
    share = at_least(right, int(sizes.min()) * k, alpha / 2)
    whole = math.log(share * (k - 1) / (1 - share)) if share else 0.0
    pair, each = 0.0, alpha / (4 * k * (k - 1))
    for v, w in permutations(range(k), 2):
        some = law[:, v] * law[:, w] > 0
        ratio = np.divide(law[:, v], law[:, w], out=np.zeros(outcomes), where=some)
        most = ratio >= ratio.max() * (1 - 1e-9)
        often = at_least(int(counts[v, most].sum()), int(sizes[v]), each)
        if often:
            rare = at_most(int(counts[w, most].sum()), int(sizes[w]), each)
            pair = max(pair, math.log(often / rare))
    return max(whole, pair), pair


def _known(
    mechanism: Mechanism, place: int, observed: Observed, configuration: PublicConfiguration
) -> Iterator[tuple[_Integers, _Integers, NDArray[np.float64]]]:
    """Yield inputs, reports and law under each mask, of inputs that were reported and differ."""
    messages = observed.messages
    rated = [configuration.canaries.get(each) for each in messages.devices]
    of_device = np.array([canary_input(mechanism, each) for each in rated], np.int64)
    chosen = messages.under(place)
    rows, inputs = messages.rows(chosen), of_device[messages.device[chosen]]
    inputs = np.repeat(inputs, messages.count[chosen])
    for mask in masks_among(mechanism, messages.masks[rows]):
        law = mechanism.likelihood(mask)
        under = (inputs >= 0) & (messages.masks[rows] == mask)
        _, first, kind = np.unique(law, axis=1, return_index=True, return_inverse=True)
        kinds, column = np.unique(kind.reshape(-1)[inputs[under]], return_inverse=True)
        if len(kinds) > 1:
            reports = messages.reports[rows][under].astype(np.int64)
            yield column.reshape(-1), reports, law[:, first[kinds]]
