"""Speed of encoding and search, and recall: process CPU time.

The real catalogue is that of a factorization of MovieLens 1M, trained here, whole and in random
parts of it, where the data set is found; without it those figures are listed as skipped.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.models.retrieval.index import ExactIndex, Ranker, StoredIndex, recall
from stream_app.models.retrieval.qolsh_index import Encoder, QoLSHIndex
from tests.benchmarks.figure import Figure
from tests.benchmarks.statistics import best_seconds
from tests.fixtures.movielens import load, skipped
from tests.naive import retrieval as naive

FACTORS, COUNT, QUERIES = 32, 100, 200


def everything(rows: np.ndarray) -> np.ndarray:
    return np.ones(len(rows), np.bool_)


def catalogue(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return item vectors of varying length and falling spectrum, biases of deviation .3, users."""
    rng = np.random.default_rng(seed)
    spectrum = 0.15 + 0.85 ** np.arange(FACTORS)
    lengths = rng.gamma(6, 1 / 6, (n, 1))
    vectors = 0.4 * rng.standard_normal((n, FACTORS)) * spectrum * lengths
    users = 0.5 * rng.standard_normal((QUERIES, FACTORS)) * spectrum
    biases = 0.3 * rng.standard_normal(n)
    return vectors.astype(np.float32), biases.astype(np.float32), users.astype(np.float32)


@njit(cache=True)
def _descend(users, items, ratings, order, mean, P, Q, user_biases, item_biases):
    """Learn every rating once by plain gradient steps."""
    for t in order:
        u, i = users[t], items[t]
        error = ratings[t] - mean - user_biases[u] - item_biases[i]
        for k in range(P.shape[1]):
            error -= P[u, k] * Q[i, k]
        user_biases[u] += 0.01 * (error - 0.02 * user_biases[u])
        item_biases[i] += 0.01 * (error - 0.02 * item_biases[i])
        for k in range(P.shape[1]):
            p, q = P[u, k], Q[i, k]
            P[u, k] += 0.01 * (error * q - 0.05 * p)
            Q[i, k] += 0.01 * (error * p - 0.05 * q)


def learned() -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return item vectors, biases and users of a factorization of MovieLens 1M after 15 passes."""
    data = load()
    if data is None:
        return None
    users, items = (np.unique(keys, return_inverse=True)[1] for keys in (data.users, data.items))
    ratings = (data.levels + 1).astype(np.float32)
    rng = np.random.default_rng(1)
    P = (0.1 * rng.standard_normal((users.max() + 1, FACTORS))).astype(np.float32)
    Q = (0.1 * rng.standard_normal((items.max() + 1, FACTORS))).astype(np.float32)
    user_biases, item_biases = np.zeros(len(P), np.float32), np.zeros(len(Q), np.float32)
    for _ in range(15):
        order = rng.permutation(len(ratings))
        _descend(users, items, ratings, order, ratings.mean(), P, Q, user_biases, item_biases)
    return Q, item_biases, P[rng.choice(len(P), QUERIES, replace=False)]


def filled(index: StoredIndex, vectors: np.ndarray, biases: np.ndarray) -> StoredIndex:
    index.update(np.arange(len(vectors)), vectors, biases)
    return index


def search_microseconds(index: StoredIndex, users: np.ndarray) -> float:
    def run() -> None:
        for p in users:
            index.search(p, COUNT, everything)

    return best_seconds(run) / len(users) * 1e6


def recalls(fast: StoredIndex, exact: StoredIndex, users: np.ndarray) -> tuple[float, float]:
    """Return mean recall@10 and recall@100, of searches for as many."""

    def mean(count: int) -> float:
        answers = ([i.search(p, count, everything)[1] for i in (fast, exact)] for p in users)
        return float(np.mean([recall(found, true) for found, true in answers]))

    return mean(10), mean(100)


def encoding() -> list[Figure]:
    figures = []
    for factors, bits, flips, target in ((8, 16, 5, ""), (33, 256, 10, ">= 0.3")):
        encoder = Encoder(factors, bits, flips)
        vectors = np.random.default_rng(1).standard_normal((4000, factors)).astype(np.float32)
        seconds = best_seconds(lambda e=encoder, v=vectors: e.encode(v)) / 4000
        name = f"qoLSH encode d={factors}, L={bits}, M={flips}"
        figures.append(Figure(name, 1e-6 / seconds, "M/s", target))
    units = vectors[:20] / np.linalg.norm(vectors[:20], axis=1, keepdims=True)
    slow = best_seconds(lambda: [naive.encode(u, encoder._W, 10) for u in units], 2) / 20
    figures.append(Figure(f"{name}, over the naive version", slow / seconds, "ratio", ">= 100"))
    return figures


def selecting(n: int) -> Figure:
    """Return the time of np.argpartition divided by that of the kernel, for the best 100 of n."""
    scores = np.random.default_rng(1).standard_normal(n).astype(np.float32)
    ranker = Ranker(1)
    ours = best_seconds(lambda: ranker.best(scores, COUNT), 30)
    numpy = best_seconds(lambda: np.argpartition(scores, n - COUNT)[n - COUNT :], 30)
    return Figure(f"np.argpartition over top_k, {COUNT} of {n:,}", numpy / ours, "ratio")


def measure() -> list[Figure]:
    """Return encoding rates, search times by catalogue size and recalls."""
    figures = encoding() + [selecting(n) for n in (1000, 3706, 100_000)]
    for n in (300, 1000, 2000, 3706, 30_000, 100_000):
        figures += searching(f"{n:,} items", *catalogue(n))
    real = learned()
    if real is None:
        return figures + skipped("qoLSH on a learned catalogue")
    vectors, biases, users = real
    for n in (300, 1000, 2000, len(vectors)):
        rows = np.random.default_rng(1).choice(len(vectors), n, replace=False)
        figures += searching(f"{n:,} learned items", vectors[rows], biases[rows], users)
    return figures


def searching(
    size: str, vectors: np.ndarray, biases: np.ndarray, users: np.ndarray
) -> list[Figure]:
    """Return times and recalls of both indexes over one catalogue."""
    exact = filled(ExactIndex(FACTORS), vectors, biases)
    fast = filled(QoLSHIndex(FACTORS), vectors, biases)
    times = search_microseconds(exact, users), search_microseconds(fast, users)
    at_10, at_100 = recalls(fast, exact, users)
    slowest = {"3,706 items": "<= 60"}.get(size, ""), {"100,000 items": "<= 400"}.get(size, "")
    return [
        Figure(f"exact top {COUNT} of {size}", times[0], "us", slowest[0]),
        Figure(f"qoLSH top {COUNT} of {size}", times[1], "us", slowest[1]),
        Figure(f"qoLSH over exact, {size}", times[1] / times[0], "ratio"),
        Figure(f"qoLSH recall@10 of {size}", at_10, "share", ">= 0.95"),
        Figure(f"qoLSH recall@100 of {size}", at_100, "share"),
    ]
