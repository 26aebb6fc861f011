"""Upper bounds on tail probabilities, as natural logarithms, valid for every sample size.

    divergence   n KL(counts / n || p) of n independent draws over k outcomes:
                 P(>= x) <= e^-x (e x / (k - 1))^(k - 1)   for x > k - 1   (Agrawal 2020, Thm 1.2)
    share        the same for a count of successes, one-sided (Chernoff 1952)
    normal       P(|z| >= x) <= 2 e^(-x^2 / 2)
    chi-square   P(|Q / d - 1|) of d squares (Laurent and Massart 2000, Lemma 1)
    counts       `at_least` and `at_most` bound a probability (Clopper and Pearson 1934)

The draws behind one group of reports have different inputs, so their laws differ. The bounds hold
with p the mean law: both rest on the mean of a product over the outcomes of functions e^(c ln c) of
their counts, which are log-convex, and for such a product independent draws of different laws have
at most the mean of equal ones (averaging two laws adds (sum_z d_z r_z)^2 >= 0; Hoeffding 1956 for
two outcomes).
"""

from __future__ import annotations

import math

import numpy as np


def divergence_tail(divergence: float, outcomes: int) -> float:
    """Return ln of a bound on P(n KL >= divergence) over `outcomes` possible outcomes."""
    free = outcomes - 1
    if free < 1:
        return 0.0 if divergence <= 0 else -math.inf
    if divergence <= free:
        return 0.0
    return free - divergence + free * math.log(divergence / free)


def _binary_divergence(share: float, probability: float) -> float:
    total = 0.0
    for a, b in ((share, probability), (1 - share, 1 - probability)):
        if a > 0:
            total += math.inf if b <= 0 else a * math.log(a / b)
    return max(0.0, total)


def at_most_tail(successes: int, trials: int, probability: float) -> float:
    """Return ln of a bound on P(X <= successes) where each trial succeeds with at least
    `probability`."""
    if not trials or successes >= trials * probability:
        return 0.0
    return -trials * _binary_divergence(successes / trials, probability)


def at_least_tail(successes: int, trials: int, probability: float) -> float:
    """Return ln of a bound on P(X >= successes) where each trial succeeds with at most
    `probability`."""
    return at_most_tail(trials - successes, trials, 1 - probability)


def normal_tail(z: float) -> float:
    """Return ln of a bound on P(|Z| >= |z|), two-sided."""
    return min(0.0, math.log(2) - z * z / 2)


def below_chi_square(ratio: float, free: int) -> float:
    """Return ln of a bound on P(Q / free <= ratio)."""
    return 0.0 if ratio >= 1 or free < 1 else -free * (1 - ratio) ** 2 / 4


def several(log_p: float, tests: int) -> float:
    """Return ln p of the smallest of `tests` p-values, by the union bound."""
    return min(0.0, log_p + math.log(max(1, tests)))


def at_least(successes: int, trials: int, alpha: float) -> float:
    """Return a lower bound of a probability, which fails with probability `alpha` at most."""
    return 1 - at_most(trials - successes, trials, alpha)


def at_most(successes: int, trials: int, alpha: float) -> float:
    """Return an upper bound of the same kind: the p at which so few successes are as likely as
    `alpha`, rounded up."""
    if successes == trials:
        return 1.0
    low, high = successes / trials, 1.0
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    counts = np.arange(successes + 1)
    ways = logs[trials] - logs[counts] - logs[trials - counts]
    while low < (p := (low + high) / 2) < high:
        terms = ways + counts * math.log(p) + (trials - counts) * math.log1p(-p)
        low, high = (p, high) if float(np.exp(terms).sum()) > alpha else (low, p)
    return high
