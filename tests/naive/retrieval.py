"""The obvious versions of encoding, selection and search: nothing incremental or approximate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MASK = 2**32 - 1


def tie(row: int, salt: int) -> int:
    x = (row ^ salt) & MASK
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & MASK
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & MASK
    return x ^ (x >> 16)


def top(scores: np.ndarray, count: int, salt: int, names: list[int] | None = None) -> list[int]:
    """Return the places of the best scores, best first, ties by falling hash."""
    named = range(len(scores)) if names is None else names
    order = sorted(range(len(scores)), key=lambda i: (-float(scores[i]), -tie(named[i], salt)))
    return order[: max(count, 0)]


def score(vector: np.ndarray, bias: np.float32, p: np.ndarray) -> np.float32:
    """Return bias + q . p in float32, added from left to right."""
    total = np.float32(bias)
    for a, b in zip(p, vector, strict=True):
        total = np.float32(total + np.float32(a * b))
    return total


def search(
    vectors: np.ndarray,
    biases: np.ndarray,
    p: np.ndarray,
    count: int,
    keep: Callable[[np.ndarray], np.ndarray],
    salt: int,
) -> tuple[list[int], list[float]]:
    scores = np.array([score(v, b, p) for v, b in zip(vectors, biases, strict=True)], np.float32)
    kept = [i for i in top(scores, len(scores), salt) if keep(np.array([i]))[0]][: max(count, 0)]
    return kept, [float(scores[i]) for i in kept]


def objective(unit: np.ndarray, frame: np.ndarray, signs: np.ndarray) -> np.float32:
    """Return (x'Wb)^2 / |Wb|^2 from scratch, 0 where x'Wb <= 0 or Wb = 0."""
    image = frame @ signs
    num, den = np.float32(unit @ image), np.float32(image @ image)
    return np.float32(num * num / den) if num > 0 and den > np.float32(1e-9) else np.float32(0)


def encode(unit: np.ndarray, frame: np.ndarray, flips: int) -> np.ndarray:
    """Return the greedy code as signs, each candidate reconstructed from scratch."""
    signs = np.where(frame.T @ unit >= 0, 1.0, -1.0)
    now = objective(unit, frame, signs)
    for _ in range(flips):
        flipped = [np.where(np.arange(len(signs)) == j, -signs, signs) for j in range(len(signs))]
        values = [objective(unit, frame, candidate) for candidate in flipped]
        best = int(np.argmax(values))
        if values[best] <= np.float32(now * np.float32(1 + 2e-6)):
            break
        signs, now = flipped[best], values[best]
    return signs


def pack(signs: np.ndarray) -> list[int]:
    """Return the 64-bit words of a code."""
    words = [0] * -(-len(signs) // 64)
    for j, sign in enumerate(signs):
        if sign > 0:
            words[j // 64] |= 1 << (j % 64)
    return words
