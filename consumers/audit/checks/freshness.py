"""Whether noise is drawn afresh: no two messages or profiles may agree more than chance allows.

    reports    two columns of n reports are equal with probability at most c^n,
               c = max over inputs of  sum_z P(z | v)^2
    cells      two reports on one cell agree with probability at most c
    blip       two profiles differ in each bit with probability at least 2 p (1 - p)
    jlt        the difference of two profiles has mean square at least 2 V

A seeded or copied source, a report that is memorised and sent as new, and an old profile's noise
on a changed profile all show here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, statistical, untestable
from consumers.audit.observed import Messages, Observed, Profile
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism


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
    for name, made in observed.mechanisms.items():
        own = [profile for profile in observed.profiles if profile.mechanism == name]
        claim = f"{name}: the noise of every profile is its own"
        if made.epsilon is None or len(own) < 2:
            yield untestable(claim, "fewer than two profiles with noise")
            continue
        yield _profiles(claim, made, own)


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


def _profiles(claim: str, mechanism: ProfileMechanism, own: list[Profile]) -> Finding:
    """Return the finding about profiles of one device, and of neighbours on the topic."""
    by_device: dict[bytes, list[Profile]] = defaultdict(list)
    for profile in own:
        by_device[profile.device].append(profile)
    pairs = list(pairwise(own))
    pairs += [pair for each in by_device.values() for pair in pairwise(each)]
    worst, least = 0.0, np.inf
    for first, second in pairs:
        both = np.stack([first.released, second.released])
        if isinstance(mechanism, Blip):
            bits, p = mechanism.bits(both), float(mechanism.flip)
            apart = int((bits[0] != bits[1]).sum())
            log_p = tails.at_most_tail(apart, mechanism.length, 2 * p * (1 - p))
            ratio = apart / (mechanism.length * 2 * p * (1 - p))
        elif isinstance(mechanism, Jlt):
            step = np.diff(mechanism.integers(both), axis=0).astype(np.float64)
            ratio = float((step**2).mean() / (2 * float(mechanism.variance)))
            log_p = tails.below_chi_square(ratio, mechanism.length)
        else:
            continue
        worst, least = min(worst, log_p), min(least, ratio)
    measured = f"{len(pairs):,} pairs, the closest at {least:.2f} of the least expected distance"
    return statistical(claim, tails.several(worst, len(pairs)), measured, closest=float(least))
