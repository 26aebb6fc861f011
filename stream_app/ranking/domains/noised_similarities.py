"""The public table from noisy sums of what devices rated together: computed once, free afterwards.

    C = V diag(l) V' + noise of deviation s;  edge = 2 s sqrt n                    (Wigner 1958)
    keep l > edge (1 + n^(-2/3))              noise alone exceeds it in 1 of 100 (Tracy-Widom)
    G = V diag(t / (t + RIDGE)) V',  t = sqrt(l^2 - edge^2)
    s_jk = max(G_jk, 0), over the largest within the domain of k, or into it from all others
    mean   3 + (sum_j - 3 n_j) / (n_j + beta)                      beta: the damping, see below
    d_jk   mean_j - mean_k

C_jk, n_j = C_jj: noisy weights of co-raters and raters. A single pair is mostly noise where a
direction of many pairs is not: the spectrum of the noise ends at the edge, and t is what is left
of an eigenvalue and of the cosine of its vector (Benaych-Georges and Nadakuditi 2011, section 3.1;
as `campaigns/learning/stage_learning.py`). If no direction clears the edge the table has no links.
The order of equal links is that of `links.strongest`. LAPACK's and numpy's sums differ by
machine in the last digits; the table is made once and published as bytes.
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
RIDGE = 30.0  # weighted devices: a direction of as many counts half
_MIDDLE = 3.0
_LEAST = 1 / 255  # of the strongest similarity: what the bytes of a table round to a link


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
    drawn = _MIDDLE + (sums.sums - _MIDDLE * raters) / (raters + beta)
    means = drawn.clip(LOWEST, HIGHEST).astype(np.float32)
    similar = smoothed(sums.counts, noise.deviation)
    targets, similarities, deviations = [], [], []
    for into in range(len(names)):
        columns = np.flatnonzero(domain == into)
        found = strongest(sums.keys, sums.keys[columns], _into(similar, domain, into), MOST_LINKS)
        places = np.where(found.places >= 0, columns[found.places], -1)
        targets.append(_wide(places, -1))
        similarities.append(_wide(found.similarities, 0))
        apart = means[:, None] - means[places]
        deviations.append(_wide(np.where(places >= 0, apart, 0), 0))
    return SimilarityTable(
        sums.version,
        terms.release,
        terms.epsilon,
        terms.delta,
        terms.spent,
        sums.keys,
        names,
        domain,
        means=means,
        rates=(raters / max(float(raters.sum()), 1e-9)).clip(0, 1).astype(np.float32),
        targets=np.stack(targets).astype(np.int32),
        similarities=np.stack(similarities).astype(np.float32),
        deviations=np.stack(deviations).clip(-MOST_DEVIATION, MOST_DEVIATION).astype(np.float32),
    )


def smoothed(counts: NDArray[np.floating], deviation: float) -> NDArray[np.float64]:
    """Return G (n, n) of noisy counts (n, n), whose noise off the diagonal has `deviation`."""
    values, vectors = np.linalg.eigh(counts.astype(np.float64))
    edge = 2 * deviation * math.sqrt(len(counts))
    kept = values > edge * (1 + len(counts) ** (-2 / 3))
    strengths = np.sqrt(np.square(values[kept]) - edge * edge)
    directions = vectors[:, kept]
    found: NDArray[np.float64] = (directions * (strengths / (strengths + RIDGE))) @ directions.T
    return found


def _into(
    similar: NDArray[np.float64], domain: NDArray[np.uint8], into: int
) -> NDArray[np.float64]:
    """Return (n, m) similarities 0 .. 1 to the items of a domain, from each other domain and from
    its own over the largest of either."""
    columns = np.flatnonzero(domain == into)
    found = similar[:, columns].clip(0, None)
    found[columns, np.arange(len(columns))] = 0
    for own in (True, False):
        rows = (domain == into) == own
        found[rows] /= max(float(found[rows].max(initial=0)), np.finfo(np.float64).tiny)
    return np.where(found >= _LEAST, found, 0)


def _wide(rows: NDArray[np.generic], empty: int) -> NDArray[np.generic]:
    """Return rows (n, k) as (n, MOST_LINKS); a small domain has fewer links."""
    missing = MOST_LINKS - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=empty)
