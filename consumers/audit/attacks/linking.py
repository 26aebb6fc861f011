"""Linking two pseudonyms of one person, where different mechanisms appear under different ones.

A and B are the pseudonyms that report under one mechanism and not under the other. Every pseudonym
becomes a vector: the items that it reported (1, or the unbiased estimate of presence), its messages
by time, or its messages by size. Vectors are centred by their group and compared by cosine. If
nobody has two pseudonyms, the best of the |B| matches of a pseudonym is best by chance: with scores
of an exponential tail the gap between the first and the second exceeds 3 times that between the
second and the third with probability 2/5 (spacings of order statistics, Renyi 1953). Where people
have two, the true match stands out. A share of clear best matches above `CHANCE` cannot be chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
from consumers.audit.attacks.evidence import candidates
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, statistical, untestable
from consumers.audit.observed import Observed
from stream_app.privacy.privacy_map import Adjacency

FEWEST, MOST = 20, 1500  # pseudonyms of a group
CHANCE = 0.6
_CLEAR = 3.0
_COLUMNS = 4096
_MINUTES = 10

Vectors = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Links:
    """The best match in the second group for each pseudonym of the first."""

    first: tuple[bytes, ...]
    best: tuple[bytes, ...]
    clear: NDArray[np.bool_]
    chance: float  # of hitting the right pseudonym at random


def linking(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield the findings about pseudonyms of one mechanism, and of different ones."""
    yield _twins(observed, configuration)
    claim = "pseudonyms of different mechanisms cannot be linked"
    pairs = list(_groups(observed, configuration))
    if not pairs:
        reason = "no two mechanisms with separate groups of 20 pseudonyms"
        yield untestable(claim, reason)
        return
    worst, shown, tests = 0.0, 0.0, 0
    for (one, first), (other, second) in pairs:
        for kind in ("items", "times", "sizes"):
            found = link(observed, configuration, (one, first), (other, second), kind)
            clear = int(found.clear.sum())
            tests, shown = tests + 1, max(shown, clear / len(found.first))
            worst = min(worst, tails.at_least_tail(clear, len(found.first), CHANCE))
    measured = f"the best match is clear for {shown:.0%} at most, {CHANCE:.0%} by chance"
    yield statistical(claim, tails.several(worst, tests), measured, clear=shown)


def _twins(observed: Observed, configuration: PublicConfiguration) -> Finding:
    """Return the finding about pseudonyms of one mechanism; both of a pair find each other, so they
    count as one."""
    claim = "a person has one pseudonym under a mechanism"
    worst, shown, tests = 0.0, 0.0, 0
    for name, devices in _under(observed, configuration).items():
        own = sorted(devices)[:MOST]
        if len(own) < 2 * FEWEST:
            continue
        found = link(observed, configuration, (name, own), (name, own))
        clear = int(found.clear.sum())
        tests, shown = tests + 1, max(shown, clear / len(own))
        worst = min(worst, tails.at_least_tail(clear // 2, len(own) // 2, CHANCE))
    if not tests:
        return untestable(claim, f"no mechanism with {2 * FEWEST} pseudonyms")
    measured = f"the best match is clear for {shown:.0%} at most, {CHANCE:.0%} by chance"
    return statistical(claim, tails.several(worst, tests), measured, clear=shown)


def link(
    observed: Observed,
    configuration: PublicConfiguration,
    first: tuple[str, list[bytes]],
    second: tuple[str, list[bytes]],
    kind: str = "items",
) -> Links:
    """Return the attack of (mechanism id, pseudonyms) on (mechanism id, pseudonyms)."""
    a = _vectors(observed, configuration, *first, kind)
    b = _vectors(observed, configuration, *second, kind)
    scores = a @ b.T
    if first == second:
        np.fill_diagonal(scores, -1.0)  # no pseudonym is matched with itself
    top = -np.sort(-scores, axis=1)[:, :3]
    clear = (top[:, 0] - top[:, 1] > _CLEAR * (top[:, 1] - top[:, 2])) & (
        top[:, 0] - top[:, 1] > 1e-9
    )
    best = tuple(second[1][place] for place in scores.argmax(axis=1).tolist())
    return Links(tuple(first[1]), best, np.asarray(clear, np.bool_), 1 / len(second[1]))


def _groups(
    observed: Observed, configuration: PublicConfiguration
) -> Iterator[tuple[tuple[str, list[bytes]], tuple[str, list[bytes]]]]:
    """Yield every pair of mechanisms whose pseudonyms are mostly different, the smaller first."""
    under = _under(observed, configuration)
    for (one, first), (other, second) in combinations(under.items(), 2):
        alone = sorted((len(only), name, sorted(only)[:MOST]) for name, only in (
            (one, first - second), (other, second - first),
        ))  # fmt: skip
        if alone[0][0] >= FEWEST:
            yield (alone[0][1], alone[0][2]), (alone[1][1], alone[1][2])


def _under(observed: Observed, configuration: PublicConfiguration) -> dict[str, set[bytes]]:
    """Return the pseudonyms of each mechanism."""
    messages = observed.messages
    return {
        each.id: {
            messages.devices[d] for d in np.unique(messages.device[messages.under(place)]).tolist()
        }
        for place, each in enumerate(configuration.mechanisms)
    }


def _vectors(
    observed: Observed,
    configuration: PublicConfiguration,
    name: str,
    devices: list[bytes],
    kind: str,
) -> Vectors:
    """Return one centred vector of length 1 for each pseudonym."""
    place = {device: row for row, device in enumerate(devices)}
    found = _from_messages(observed, configuration, name, place, kind)
    found -= found.mean(axis=0)
    lengths = np.sqrt((found**2).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0))


def _from_messages(
    observed: Observed,
    configuration: PublicConfiguration,
    name: str,
    place: dict[bytes, int],
    kind: str,
) -> Vectors:
    messages = observed.messages
    number = next(i for i, each in enumerate(configuration.mechanisms) if each.id == name)
    mechanism = configuration.mechanisms[number]
    row_of = np.array([place.get(device, -1) for device in messages.devices], np.int64)
    chosen = messages.under(number)
    chosen = chosen[row_of[messages.device[chosen]] >= 0]
    owner = row_of[messages.device[chosen]]
    if kind == "items":
        rows = messages.rows(chosen)
        items = candidates(observed, configuration)[:_COLUMNS]
        known = np.isin(messages.items[rows], items)
        column = np.searchsorted(items, messages.items[rows][known])
        owner, width = np.repeat(owner, messages.count[chosen])[known], len(items)
        reports = messages.reports[rows][known]
        hidden = mechanism.adjacency is Adjacency.CELL
        weight = mechanism.presence(reports) if hidden else np.ones(len(reports))
    else:
        column = messages.time[chosen] // (60_000 * _MINUTES) % _COLUMNS
        column = column if kind == "times" else messages.count[chosen] % _COLUMNS
        width, weight = _COLUMNS, np.ones(len(chosen))
    found = np.zeros((len(place), width))
    np.add.at(found, (owner, column), weight)
    return found
