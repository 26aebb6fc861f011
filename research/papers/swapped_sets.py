"""The top k with one item swapped, and the chain over such sets, as Park and Acharya 2011 print it.

Reference only: NO guarantee. Every set of the family shares k - 1 items with the true top k, so
which sets can be released at all depends on the data, whatever epsilon is (section 4.4 there calls
this an accuracy of 90 %). What is private is `research/score_noise/k_subset.py`.

    S_0 = the top k;  S_t = without position k - j1 + 1, plus position k + j2        (section 4.4)
    printed    j1 = (a + 1) - floor((a + 1) / N1),  a = floor((j - 1) / N2)
               j2 = floor((j - 1) / (N1 N2)) N2 + (j - floor(j / N2))
    corrected  t = 0, 1, ..: b = t div (N1 N2), r = t mod (N1 N2)
               j1 = r div N2 + 1,  j2 = b N2 + r mod N2 + 1

    birth and death (31)  lambda_j = (phi_{j+1} / phi_j)^(epsilon/2),  mu_{j+1} = 1 / lambda_j
    stationary phi^epsilon (32), which is not the target phi^(epsilon/2) of (28)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.randomness import RandomSource

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def printed_swaps(count: int, left: int, right: int) -> Integers:
    """Return (count, 2): j1 and j2 for j = 1 .. count by the formulas of the paper, with windows
    of `left` (N1) and `right` (N2) positions."""
    j = np.arange(1, count + 1)
    block = (j - 1) // right + 1
    return np.stack((block - block // left, (j - 1) // (left * right) * right + j - j // right), 1)


def swaps(items: int, k: int, left: int, right: int) -> Integers:
    """Return every (j1, j2) of the family once, N1 N2 floor((items - k) / N2) rows, in the order
    that the windows of section 4.4 mean."""
    if not 1 <= left <= k or right < 1 or k + right > items:
        raise ValueError(
            f"windows of {left} and {right} positions for {k} of {items} items: 1 to {k} and 1 to "
            f"{items - k}"
        )
    t = np.arange(left * right * ((items - k) // right))
    block, rest = np.divmod(t, left * right)
    return np.stack((rest // right + 1, block * right + rest % right + 1), 1)


def sums_of_sets(scores: Floats, k: int, pairs: Integers) -> Floats:
    """Return f of S_0 and of the sets of `pairs` (m, 2), (m + 1,); scores (n,) falling."""
    best = float(scores[:k].sum())
    changed = scores[k + pairs[:, 1] - 1] - scores[k - pairs[:, 0]]
    return np.concatenate(([best], best + changed))


@dataclass(frozen=True, eq=False)
class SwapChain:
    """The chain over sets in a given order; logs (m,): ln phi of each; step: Delta t.

    Raises ValueError where a probability to stay would be negative (36).
    """

    logs: Floats
    epsilon: float
    step: float

    def __post_init__(self) -> None:
        """Check equation 36."""
        if (stay := float(self.staying.min())) < 0:
            raise ValueError(f"step {self.step:g}: a probability to stay of {stay:.3g} (36)")

    @property
    def forward(self) -> Floats:
        """(m - 1,): the probability to go from set j to j + 1, lambda_j Delta t."""
        return self.step * np.exp(self.epsilon / 2 * np.diff(self.logs))

    @property
    def backward(self) -> Floats:
        """(m - 1,): the probability to go from set j + 1 to j, mu_{j+1} Delta t."""
        return self.step * np.exp(-self.epsilon / 2 * np.diff(self.logs))

    @property
    def staying(self) -> Floats:
        """(m,): the probability to stay."""
        left: Floats = np.append(self.forward, 0.0) + np.append(0.0, self.backward)
        return 1 - left

    @property
    def stationary(self) -> Floats:
        """(m,): the law that the chain leaves unchanged, phi^epsilon (32)."""
        return power_law(self.logs, self.epsilon)

    @property
    def target(self) -> Floats:
        """(m,): the law that the paper asks for, phi^(epsilon/2) (28)."""
        return power_law(self.logs, self.epsilon / 2)

    @property
    def least_relaxation(self) -> float:
        """A lower bound of the relaxation time in steps, from the variational form of the spectral
        gap: the variance of a function of the set under the stationary law, over what a step
        changes of it. The functions: the position, and on which side of a cut it is."""
        law, position = self.stationary, np.arange(len(self.logs))
        flow = law[:-1] * self.forward
        before = np.cumsum(law)[:-1]
        cuts = before * np.cumsum(law[::-1])[::-1][1:] / flow
        mean = law @ position
        return float(max(law @ (position - mean) ** 2 / flow.sum(), cuts.max()))

    def after(self, law: Floats, steps: int) -> Floats:
        """Return the law (m,) after so many steps from one."""
        forward, backward, staying = self.forward, self.backward, self.staying
        for _ in range(steps):
            moved = law * staying
            moved[1:] += law[:-1] * forward
            moved[:-1] += law[1:] * backward
            law = moved
        return law

    def run(self, steps: int, source: RandomSource) -> Integers:
        """Return the sets visited (steps + 1,), from the top k on."""
        up, down = np.append(self.forward, 0.0).tolist(), [0.0, *self.backward.tolist()]
        drawn = (source.words(steps) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        at, visited = 0, [0]
        for uniform in drawn.tolist():
            if uniform < up[at]:
                at += 1
            elif uniform < up[at] + down[at]:
                at -= 1
            visited.append(at)
        return np.array(visited)


def power_law(logs: Floats, power: float) -> Floats:
    """Return phi^power as a law (m,), from ln phi."""
    law: Floats = np.exp(power * (logs - logs.max()))
    law /= law.sum()
    return law


def draw_swaps(law: Floats, draws: int, source: RandomSource) -> Integers:
    """Return sets (draws,) of the family by a law over it, each drawn on its own: what the chain
    is meant to approximate. As little private as the family."""
    drawn = (source.words(draws) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    reached = np.cumsum(law)
    found = np.searchsorted(reached, drawn * reached[-1], side="right")
    return np.asarray(np.minimum(found, len(law) - 1), np.int64)
