"""Information in nats per item that a released profile reveals (Balu 2016, section 3.3).

    single   I(released; X_j)        learned by a decoder that tests each item separately
    joint    I(released; P) / c      learned by a decoder that tests whole profiles; >= single

BLIP, p = 1 - (1 - 1/L)^K, pi_c = 1 - (1-p)^c, flipped share q_c = (1-e) pi_c + e (1 - pi_c), with
e = 1 / (1 + e^(epsilon/K)) and h the entropy of a coin:

    single = L (h(q_c) - (1-p) h(q_(c-1)) - p h(e))                                       (3.16)
    joint  = L (h(q_c) - h(e)) / c                                                        (3.19)

JLT, noise of standard deviation sigma on codewords of length 1:

    single = L/2 ln(1 + 1 / (c - 1 + L sigma^2))                                          (3.25)
    joint  = L/(2c) ln(1 + c / (L sigma^2))                                               (3.26)

Differences from the thesis: its approximation 3.18, L p (h(q) - h(e)), drops a term of the same
order and can exceed the joint value, so it is omitted. The bound printed in 3.25 does not hold;
epsilon / (32 + 2 epsilon (c-1) / L) does (`jlt_single_bound`). Stein's bound 3.12 is asymptotic;
`false_positives_least` bounds a single test, by the data processing inequality of the divergence.

These are averages and do not bound the worst case: the guarantee is epsilon. For items that are in
a profile independently of each other, epsilon bounds both: joint <= epsilon tanh(epsilon / 2). All
logarithms are natural.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LN2 = math.log(2)


def coin(p: float) -> float:
    """Return the entropy of Bernoulli(p) in nats (Balu 2016, eq. 3.17)."""
    return sum(-q * math.log(q) for q in (p, 1 - p) if q > 0)


def flip_share(epsilon: float, hashes: int) -> float:
    """Return 1 / (1 + e^(epsilon / K)) (3.4), without overflow; 0 for an infinite epsilon."""
    g = epsilon / hashes
    return math.exp(-g) / (1 + math.exp(-g))


def blip_single(length: int, hashes: int, epsilon: float, size: int) -> float:
    """Return I(released; X_j) in nats for a profile of `size` >= 1 items (3.16)."""
    p, flip = -math.expm1(hashes * math.log1p(-1 / length)), flip_share(epsilon, hashes)
    with_it, without = (_flipped(length, hashes, flip, c) for c in (size, size - 1))
    return length * (coin(with_it) - (1 - p) * coin(without) - p * coin(flip))


def blip_joint(length: int, hashes: int, epsilon: float, size: int) -> float:
    """Return I(released; P) / c in nats for a profile of c = `size` >= 1 items (3.19)."""
    flip = flip_share(epsilon, hashes)
    return length * (coin(_flipped(length, hashes, flip, size)) - coin(flip)) / size


def jlt_single(length: int, sigma: float, size: int) -> float:
    """Return I(released; X_j) in nats (3.25)."""
    return length / 2 * math.log1p(1 / (size - 1 + length * sigma**2))


def jlt_joint(length: int, sigma: float, size: int) -> float:
    """Return I(released; P) / c in nats (3.26)."""
    return length / (2 * size) * math.log1p(size / (length * sigma**2))


def jlt_single_bound(length: int, epsilon: float, size: int) -> float:
    """Return the corrected bound of 3.25, for the noise of Lemma 2 and epsilon < ln(1 / delta)."""
    return epsilon / (32 + 2 * epsilon * (size - 1) / length)


def independent_bound(epsilon: float) -> float:
    """Return epsilon tanh(epsilon / 2), an upper bound of `joint` for independent items."""
    return epsilon * math.tanh(epsilon / 2)


def bloom_hashes(length: int, size: int) -> int:
    """Return ceil(ln 2 * L / c), the hashes of a Bloom filter for `size` items (3.20)."""
    return math.ceil(LN2 * length / size)


def bloom_limit(false_positives: float, epsilon: float) -> tuple[float, float]:
    """Return (single, joint) of a filter for a false positive rate in (0, 1), large c (3.23)."""
    rate = -math.log(false_positives)
    joint = rate / LN2 * (1 - coin(1 / (1 + 2 ** (-epsilon / rate))) / LN2)
    return LN2 * joint, joint


def joint_gain(
    epsilon: float, bits_per_item: NDArray[np.float64], size: int = 100
) -> NDArray[np.float64]:
    """Return joint - single in nats at each L/c, with hashes by 3.20 (figure 3.1, right)."""
    found = []
    for bits in bits_per_item.tolist():
        length = math.ceil(bits * size)
        setting = length, bloom_hashes(length, size), epsilon, size
        found.append(blip_joint(*setting) - blip_single(*setting))
    return np.array(found)


def false_positives_least(nats: float, missed: float) -> float:
    """Return the least false alarm rate of a test with miss rate `missed`, given I in nats.

    exp(-(I + h(missed)) / (1 - missed)): 3.12 with the entropy term of a finite sample.
    """
    return math.exp(-(nats + coin(missed)) / (1 - missed))


def _flipped(length: int, hashes: int, flip: float, size: int) -> float:
    share = -math.expm1(size * hashes * math.log1p(-1 / length))
    return (1 - flip) * share + flip * (1 - share)
