"""The obvious versions of decoding and learning: Bayes by enumeration, one rating at a time.

Hashes are Python integers, vectors numpy float64 arrays, tables dictionaries where the product has
arrays.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from stream_app.kernels.factorization.count_sketch_blocked import MULTIPLIERS
from stream_app.kernels.factorization.initialization import UNIT
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.seeds import CELLS, ITEMS, USERS, derive_seed

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def odd(h: int) -> int:
    return 2 * sum((h >> shift) & 0xFFFF for shift in (0, 16, 32, 48)) - 262139


def stars(levels: int) -> np.ndarray:
    return np.array([1 + 4 * v / (levels - 1) for v in range(levels)])


def discrete_normal(t: float, u: float, levels: int) -> np.ndarray:
    """Return the probabilities of the levels: a normal of precision u at them, with mean t."""
    x = stars(levels)

    def at(a: float) -> np.ndarray:
        logs = a * np.arange(levels) - u * (x - 1) ** 2 / 2
        odds = np.exp(logs - logs.max())
        return odds / odds.sum()

    low, high = -1000.0, 1000.0
    for _ in range(100):
        a = (low + high) / 2
        low, high = (a, high) if float(at(a) @ x) < t else (low, a)
    return at(high)


@cache
def grid_prior(i: int, j: int, levels: int) -> np.ndarray:
    return discrete_normal(1.15 + i * 3.7 / 74, j / 4, levels)


def prior(rhat: float, V: float, levels: int) -> np.ndarray:
    """Return the prior over the levels: between the four neighbours of a grid over mean and
    precision."""
    x, y = (min(max(rhat, 1.15), 4.85) - 1.15) * 74 / 3.7, min(4 / V, 40)
    i, j = min(int(x), 73), min(int(y), 39)
    x, y = x - i, y - j
    below = (1 - x) * grid_prior(i, j, levels) + x * grid_prior(i + 1, j, levels)
    above = (1 - x) * grid_prior(i, j + 1, levels) + x * grid_prior(i + 1, j + 1, levels)
    return np.asarray((1 - y) * below + y * above)


def decode(
    rhat: float,
    V: float,
    channel: np.ndarray,
    z: int,
    absent: np.ndarray | None = None,
    g: float = 1.0,
) -> tuple[float, float, float]:
    """Return (e, rho, P(z)) by Bayes' rule over all levels, with "no rating" if presence is hidden.

    absent: P(z | no rating); g: the prior probability of a rating. The rating of a cell that has
    none keeps its prior, so its posterior is a mixture with two means and two variances.
    """
    x = stars(channel.shape[1])
    pi = prior(rhat, V, len(x))
    none = 0.0 if absent is None else float(absent[z]) * (1 - g)
    rated = float(pi @ channel[z]) * (g if absent is not None and absent[z] > 0 else 1.0)
    if float(pi @ channel[z]) == 0:
        return 0.0, 0.0, none
    post = pi * channel[z]
    post = post / post.sum()
    w = rated / (rated + none) if rated + none > 0 else 0.0
    m0, m1 = min(max(rhat, 1.15), 4.85), float(post @ x)
    q0 = max(float(pi @ (x - m0) ** 2), 1e-3)
    q1 = float(post @ (x - m1) ** 2)
    mean = w * m1 + (1 - w) * m0
    variance = w * (q1 + (m1 - mean) ** 2) + (1 - w) * (q0 + (m0 - mean) ** 2)
    return mean - m0, max(1 - variance / q0, -1), rated + none


class Vectors:
    """Storage of vectors: `read` and `add` by side and key."""

    def __init__(self, factors: int, seed: int, parameters: Parameters) -> None:
        self.d, self.p = factors, parameters
        self.salts = [int(derive_seed(seed, USERS)), int(derive_seed(seed, ITEMS))]

    def hash(self, side: int, key: int) -> int:
        return mix((key + self.salts[side]) % WORD)


class Rows(Vectors):
    """A dictionary of vectors: dense."""

    def __init__(self, factors: int, seed: int, parameters: Parameters) -> None:
        super().__init__(factors, seed, parameters)
        self.rows: dict[tuple[int, int], np.ndarray] = {}

    def read(self, side: int, key: int) -> np.ndarray:
        h, sd = self.hash(side, key), (self.p.user_sd, self.p.item_sd)[side]
        first = [sd / UNIT * odd(mix((h + c * GOLDEN) % WORD)) for c in range(self.d)]
        return self.rows.get((side, key), np.array(first))

    def add(self, side: int, key: int, delta: np.ndarray) -> None:
        self.rows[side, key] = self.read(side, key) + delta


class Sketch(Vectors):
    """k rows of cells; `places` gives the cells and the signs of the components."""

    def __init__(
        self, factors: int, depth: int, width: int, seed: int, parameters: Parameters
    ) -> None:
        super().__init__(factors, seed, parameters)
        self.k, self.w = depth, width
        sd, s = parameters.cell_sd * math.sqrt(depth), mix(int(derive_seed(seed, CELLS)))
        cells = [sd / UNIT * odd(mix((s + x * GOLDEN) % WORD)) for x in range(depth * width)]
        self.C = np.array(cells).reshape(depth, width)

    def places(self, side: int, key: int) -> list[tuple[int, int, int, int]]:
        raise NotImplementedError

    def read(self, side: int, key: int) -> np.ndarray:
        out = np.zeros(self.d)
        for j, c, cell, sign in self.places(side, key):
            out[c] += sign * self.C[j, cell] / self.k
        return out

    def add(self, side: int, key: int, delta: np.ndarray) -> None:
        for j, c, cell, sign in self.places(side, key):
            self.C[j, cell] += sign * delta[c]


class Blocked(Sketch):
    def places(self, side: int, key: int) -> list[tuple[int, int, int, int]]:
        h, found = self.hash(side, key), []
        for j in range(self.k):
            g = h * int(MULTIPLIERS[j]) % WORD
            g ^= g >> 32
            block = (g >> 32) * (self.w // self.d) >> 32
            bits = g if self.d <= 32 else mix((g + GOLDEN) % WORD)
            for c in range(self.d):
                found.append((j, c, block * self.d + c, 1 - 2 * (bits >> (c % 64) & 1)))
        return found


class Literal(Sketch):
    def places(self, side: int, key: int) -> list[tuple[int, int, int, int]]:
        h, found = self.hash(side, key), []
        for j in range(self.k):
            for c in range(self.d):
                g = mix((h + (j // 2 * self.d + c + 1) * GOLDEN) % WORD)
                address, sign = (g & 0x7FFFFFFF, g >> 31) if j % 2 else (g >> 33, g >> 32)
                found.append((j, c, address * self.w >> 31, 1 - 2 * (sign & 1)))
        return found


class Scalars:
    """bias, and the variances of bias and vector as shares, by (side, key)."""

    def __init__(self) -> None:
        self.table: dict[object, list[float]] = {}

    def slot(self, h: int, side: int, key: int) -> object:
        return side, key

    def of(self, h: int, side: int, key: int) -> list[float]:
        return self.table.get(self.slot(h, side, key), [0.0, 1.0, 1.0])

    def put(self, h: int, side: int, key: int, values: list[float]) -> None:
        self.table[self.slot(h, side, key)] = values


class HashedScalars(Scalars):
    """The same in buckets of four slots, claimed by tags."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots, self.tags = slots, {}  # type: dict[int, int]

    def slot(self, h: int, side: int, key: int) -> object:
        first, tag = 4 * ((h >> 32) * (self.slots // 4) >> 32), max(h & 0xFFFFFFFF, 1)
        for s in range(first, first + 4):
            if self.tags.get(s, tag) == tag:
                return s
        return first + h % 4

    def put(self, h: int, side: int, key: int, values: list[float]) -> None:
        s = self.slot(h, side, key)
        self.tags.setdefault(s, max(h & 0xFFFFFFFF, 1))  # type: ignore[arg-type]
        self.table[s] = values


class Hybrid(Vectors):
    """Rows of an entity's own while they last, then shared ones that hold what was learned."""

    def __init__(
        self, factors: int, rows: int, shared: int, seed: int, p: Parameters, scalars: HashedScalars
    ) -> None:
        super().__init__(factors, seed, p)
        self.rows, self.s = rows, scalars
        self.own: dict[int, np.ndarray] = {}  # by slot, in the order of first learning
        self.blocks = np.zeros((shared, factors))

    def first(self, side: int, key: int) -> np.ndarray:
        h, sd = self.hash(side, key), (self.p.user_sd, self.p.item_sd)[side]
        return np.array([sd / UNIT * odd(mix((h + c * GOLDEN) % WORD)) for c in range(self.d)])

    def place(self, side: int, key: int) -> tuple[int, int, int, np.ndarray]:
        """Return the slot, the tag, the block and the signs of an entity."""
        h = self.hash(side, key)
        g = h * int(MULTIPLIERS[0]) % WORD
        g ^= g >> 32
        bits = g if self.d <= 32 else mix((g + GOLDEN) % WORD)
        signs = np.array([1 - 2 * (bits >> (c % 64) & 1) for c in range(self.d)])
        slot = int(self.s.slot(h, side, key))  # type: ignore[call-overload]
        return slot, max(h & 0xFFFFFFFF, 1), (g >> 32) * len(self.blocks) >> 32, signs

    def read(self, side: int, key: int) -> np.ndarray:
        slot, tag, block, signs = self.place(side, key)
        if self.s.tags.get(slot) == tag and slot in self.own:
            return self.own[slot]
        learned = signs * self.blocks[block] if slot in self.s.tags else 0.0
        return self.first(side, key) + learned

    def add(self, side: int, key: int, delta: np.ndarray) -> None:
        slot, tag, block, signs = self.place(side, key)
        if slot not in self.s.tags:
            self.s.tags[slot] = tag
            if len(self.own) < self.rows:
                self.own[slot] = self.first(side, key)
        if self.s.tags[slot] == tag and slot in self.own:
            self.own[slot] = self.own[slot] + delta
        else:
            self.blocks[block] += signs * delta


class Learner:
    """Learn one rating at a time, by the formulas of `kalman_update.py` of the kernels."""

    def __init__(self, vectors: Vectors, scalars: Scalars, p: Parameters) -> None:
        self.v, self.s, self.p = vectors, scalars, p
        self.mean, self.mean_variance = 3.0, p.mean_variance

    def learn(
        self,
        user: int,
        item: int,
        z: int,
        channel: np.ndarray,
        *,
        exact: bool,
        learn: bool = True,
        absent: np.ndarray | None = None,
        g: float = 1.0,
    ) -> tuple[float, float, bool, float]:
        """Return (predicted, error, refused, P(z)); the last NaN where it is not decoded."""
        k, d = self.p, self.v.d
        hu, hi = self.v.hash(0, user), self.v.hash(1, item)
        (bu, sbu, su), (bi, sbi, si) = self.s.of(hu, 0, user), self.s.of(hi, 1, item)
        vbu, vu = sbu * k.user_bias_variance, su * k.user_variance
        vbi, vi = sbi * k.item_bias_variance, si * k.item_variance
        p, q = self.v.read(0, user), self.v.read(1, item)
        rhat = self.mean + bu + bi + float(p @ q)
        T = vbu + vbi + vu * float(q @ q) + vi * float(p @ p) + k.coupling * d * vu * vi
        S = k.noise + T
        predicted = min(max(rhat, 1), 5)
        if z >= channel.shape[0]:
            return predicted, 0.0, True, math.nan
        if exact:
            e, rho = stars(channel.shape[1])[z] - min(max(rhat, 1.15), 4.85), 1.0
            probability = math.nan
        else:
            V = k.prior_variance + k.prior_slope * T
            e, rho, probability = decode(rhat, V, channel, z, absent, g)
        if e * e > k.clip or not learn:
            return predicted, e, e * e > k.clip, probability
        gu, gi = vu * (1 + k.early_gain * sbu), vi * (1 + k.early_gain * sbi)
        self.v.add(0, user, gu / S * (e * q - k.user_shrink * rho * p))
        self.v.add(1, item, gi / S * (e * p - k.item_shrink * rho * q))
        gain = self.mean_variance / (S + self.mean_variance)
        self.mean = min(max(self.mean + gain * e, 1), 5)
        self.mean_variance -= gain * self.mean_variance * rho
        rated = g if absent is not None and absent[z] > 0 else 1.0
        for side, h, key, other, first_bias, first, drift in (
            (0, hu, user, float(q @ q), k.user_bias_variance, k.user_variance, k.user_drift),
            (1, hi, item, float(p @ p), k.item_bias_variance, k.item_variance, k.item_drift),
        ):
            b, share_b, share = self.s.of(h, side, key)
            vb, v = share_b * first_bias, share * first
            b += vb / S * (e - k.bias_shrink * rho * b)
            share_b = share_b * (1 - vb * rho / S) + drift * rated
            share *= 1 - k.coupling * v * other * rho / S
            held = [min(max(x, 1e-6), 1.0) for x in (share_b, share)]
            self.s.put(h, side, key, [min(max(b, -8), 8), *held])
        return predicted, e, False, probability
