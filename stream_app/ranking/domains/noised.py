"""The public table from noisy sums of what devices rated together: computed once, free afterwards.

    s_jk = max(c_jk, 0) / sqrt((n_j + beta) (n_k + beta))      beta: the damping, see below
    a link where c_jk is above sqrt(2 ln n) standard deviations of its noise, n items: noise alone
           gives an item less than one (Donoho and Johnstone 1994)
    step   an item without a link into a domain takes  s_ab s_bt  over the items b of its own
           domain that have one: the path over a bridge of Guerraoui et al. (2017, section 4.2)
    mean   3 + (sum_j - 3 n_j) / (n_j + beta)
    d_jk   (sum of r_j - r_k) / (max(c_jk, 0) + beta)

c_jk, n_j: noisy weights of co-raters and raters. The order of equal links is that of
`links.strongest`. Numpy's float sums are those of elements alone, so machines agree to rounding;
the table is made once and published as bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.domains.alter_ego import HIGHEST, LOWEST
from stream_app.ranking.domains.links import strongest
from stream_app.ranking.domains.similarity_table import MOST_DEVIATION, SimilarityTable
from stream_app.ranking.similarity.table import CoRatingTable

MOST_LINKS = 50
_MIDDLE = 3.0
_BRIDGES = 10  # of an item's links within its domain, those that a step goes over


@dataclass(frozen=True)
class Noise:
    """Standard deviation of the noise of a count of two items, and the damping beta, both in the
    units of counts."""

    deviation: float
    damping: float


@dataclass(frozen=True)
class Terms:
    """What a release costs a device, alone and with all before it; `release` counts from 1."""

    release: int
    epsilon: float
    delta: float
    spent: float


def similarity_table(
    sums: CoRatingTable, domain_of: list[str], noise: Noise, terms: Terms
) -> SimilarityTable:
    """Return the public table of noisy sums; domain_of: the domain of each item, "" for none."""
    names = tuple(sorted(set(domain_of)))
    domain = np.array([names.index(name) for name in domain_of], np.uint8)
    beta = np.float32(noise.damping)
    raters = sums.raters.clip(0)
    linked = sums.counts > np.float32(clear(len(sums.keys)) * noise.deviation)
    norms = 1 / np.sqrt(raters + beta)
    similar = np.where(linked, sums.counts * (norms[:, None] * norms), 0).clip(0, 1)
    np.fill_diagonal(similar, 0)
    apart = sums.differences / (sums.counts.clip(0) + beta)
    targets, similarities, deviations = [], [], []
    for into in range(len(names)):
        columns = np.flatnonzero(domain == into)
        found = strongest(
            sums.keys, sums.keys[columns], _reached(similar, domain, into), MOST_LINKS
        )
        places = np.where(found.places >= 0, columns[found.places], -1)
        targets.append(_wide(places, -1))
        similarities.append(_wide(found.similarities, 0))
        chosen = np.take_along_axis(apart, places.clip(0), axis=1)
        deviations.append(_wide(np.where(places >= 0, chosen, 0), 0))
    means = _MIDDLE + (sums.sums - _MIDDLE * raters) / (raters + beta)
    return SimilarityTable(
        sums.version,
        terms.release,
        terms.epsilon,
        terms.delta,
        terms.spent,
        sums.keys,
        names,
        domain,
        means=means.clip(LOWEST, HIGHEST).astype(np.float32),
        rates=(raters / max(float(raters.sum()), 1e-9)).clip(0, 1).astype(np.float32),
        targets=np.stack(targets).astype(np.int32),
        similarities=np.stack(similarities).astype(np.float32),
        deviations=np.stack(deviations).clip(-MOST_DEVIATION, MOST_DEVIATION).astype(np.float32),
    )


def clear(items: int) -> float:
    """Return how many standard deviations of its noise a count of a link is above."""
    return math.sqrt(2 * math.log(max(items, 2)))


def _reached(
    similar: NDArray[np.float32], domain: NDArray[np.uint8], into: int
) -> NDArray[np.float32]:
    """Return (n, m) similarities to the items of a domain, over a bridge where there is no link."""
    across = similar[:, domain == into].copy()
    for item in np.flatnonzero((domain != into) & ~(across > 0).any(axis=1)):
        own = np.where(domain == domain[item], similar[item], 0)
        bridges = np.argsort(-own, kind="stable")[:_BRIDGES]
        steps = own[bridges, None] * similar[np.ix_(bridges, np.flatnonzero(domain == into))]
        across[item] = steps.max(axis=0, initial=0)
    return across


def _wide(rows: NDArray[np.generic], empty: int) -> NDArray[np.generic]:
    """Return rows (n, k) as (n, MOST_LINKS); a small domain has fewer links."""
    missing = MOST_LINKS - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=empty)
