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


def sums(unit: np.ndarray, frame: np.ndarray, signs: np.ndarray) -> tuple[np.float32, np.float32]:
    """Return x'Wb and |Wb|^2 from scratch."""
    image = frame @ signs
    return np.float32(unit @ image), np.float32(image @ image)


def objective(unit: np.ndarray, frame: np.ndarray, signs: np.ndarray) -> np.float32:
    """Return (x'Wb)^2 / |Wb|^2 from scratch, 0 where x'Wb <= 0 or Wb = 0."""
    num, den = sums(unit, frame, signs)
    return np.float32(num * num / den) if num > 0 and den > np.float32(1e-9) else np.float32(0)


class Best:
    """The code to beat: by the quotient num^2 / den."""

    def __init__(self, unit: np.ndarray, frame: np.ndarray) -> None:
        self.given = unit, frame
        self.square = np.float32(0)

    def set(self, signs: np.ndarray, gain: float = 1.0) -> None:
        num, den = sums(*self.given, signs)
        self.square = np.float32(0)
        if num > 0 and den > np.float32(1e-9):
            value = np.float32(num * num) / den
            self.square = np.float32(np.float32(value) * np.float32(gain))

    def beaten(self, signs: np.ndarray) -> bool:
        num, den = sums(*self.given, signs)
        if num <= 0 or den <= np.float32(1e-9):
            return False
        return bool(np.float32(num * num) / den > self.square)


def flipped(signs: np.ndarray, places: list[int]) -> np.ndarray:
    return np.where(np.isin(np.arange(len(signs)), places), -signs, signs)


def encode(unit: np.ndarray, frame: np.ndarray, flips: int, starts: int = 1) -> np.ndarray:
    """Return the greedy code as signs, each candidate reconstructed from scratch."""
    projection = frame.T @ unit
    uncertain = np.argsort(np.abs(projection), kind="stable")
    found, kept = None, Best(unit, frame)
    for start in range(starts):
        places = [int(j) for i, j in enumerate(uncertain) if start >> i & 1]
        signs = flipped(np.where(projection >= 0, 1.0, -1.0), places)
        for _ in range(flips):
            best, choice = Best(unit, frame), None
            best.set(signs, 1 + 2e-6)
            for j in range(len(signs)):
                if best.beaten(candidate := flipped(signs, [j])):
                    best.set(candidate)
                    choice = candidate
            if choice is None:
                break
            signs = choice
        if found is None or kept.beaten(signs):
            found = signs
            kept.set(signs)
    assert found is not None
    return found


def pack(signs: np.ndarray) -> list[int]:
    """Return the 64-bit words of a code."""
    words = [0] * -(-len(signs) // 64)
    for j, sign in enumerate(signs):
        if sign > 0:
            words[j // 64] |= 1 << (j % 64)
    return words
