"""Hand-written vector instructions against plain loops that LLVM vectorises: the step of a rating.

A step reads the vectors of a user and an item, takes their three dot products and moves both, as
the learners do between decoding and the biases; d = 32, k = 4. Both versions must leave the same
bits. Process CPU time, versions in turn, median of the ratios.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np
from numba import njit

from stream_app.kernels.factorization import count_sketch_blocked as sketch
from stream_app.kernels.factorization.kalman_update import dot, move
from stream_app.kernels.machine.simd import add, load, store
from tests.benchmarks.figure import Figure

D, K, STEPS, BLOCKS, ROUNDS = 32, 4, 200_000, 2048, 7
ALONG, BACK = 0.01, 0.001


@njit(inline="always")
def plain_dot(p, q, products):
    for n in range(D):
        c = np.uint64(n)
        products[c] = p[c] * q[c]
    for half in (16, 8, 4):  # the order in which `simd.total` adds
        for n in range(half):
            products[np.uint64(n)] += products[np.uint64(n + half)]
    return np.float64((products[0] + products[2]) + (products[1] + products[3]))


@njit(inline="always")
def plain_move(p, q, along, back, step):
    for n in range(D):
        c = np.uint64(n)
        step[c] = np.float32(along) * q[c] + np.float32(-back) * p[c]


@njit(inline="always")
def plain_read(C, at, words, n, out):
    # All rows in one pass: a pass a row would wait for its own stores.
    a0, a1 = np.uint64(at[0, n]), np.uint64(at[1, n])
    a2, a3 = np.uint64(at[2, n]), np.uint64(at[3, n])
    w0, w1 = np.uint32(words[0, n]), np.uint32(words[1, n])
    w2, w3 = np.uint32(words[2, n]), np.uint32(words[3, n])
    for m in range(D):
        c, bit, first = np.uint64(m), np.uint32(m), np.uint32(1)
        v0 = -C[a0 + c] if (w0 >> bit) & first else C[a0 + c]
        v1 = -C[a1 + c] if (w1 >> bit) & first else C[a1 + c]
        v2 = -C[a2 + c] if (w2 >> bit) & first else C[a2 + c]
        v3 = -C[a3 + c] if (w3 >> bit) & first else C[a3 + c]
        out[c] = (((v0 + v1) + v2) + v3) * np.float32(1.0 / K)


@njit(inline="always")
def plain_write(C, at, words, n, step):
    for j in range(K):
        a, w = np.uint64(at[j, n]), np.uint32(words[j, n])
        for m in range(D):
            c = np.uint64(m)
            C[a + c] += -step[c] if (w >> np.uint32(m)) & np.uint32(1) else step[c]


@njit
def sketch_simd(C, pages, at, words, out):
    for n in range(0, at.shape[1], 2):
        p = sketch.read(C, at, words, n, D, K)
        q = sketch.read(C, at, words, n + 1, D, K)
        out[n] = dot(p, p) + dot(q, q)
        e = dot(p, q)
        for side in range(2):
            sketch.mark(pages, at, n + side, D, K)
        sketch.write(C, at, words, n, D, K, move(p, q, ALONG * e, BACK))
        sketch.write(C, at, words, n + 1, D, K, move(q, p, ALONG * e, BACK))


@njit
def sketch_plain(C, pages, at, words, out):
    p, q, products = np.empty(D, np.float32), np.empty(D, np.float32), np.empty(D, np.float32)
    steps = np.empty((2, D), np.float32)
    for n in range(0, at.shape[1], 2):
        plain_read(C, at, words, n, p)
        plain_read(C, at, words, n + 1, q)
        out[n] = plain_dot(p, p, products) + plain_dot(q, q, products)
        e = plain_dot(p, q, products)
        plain_move(p, q, ALONG * e, BACK, steps[0])
        plain_move(q, p, ALONG * e, BACK, steps[1])
        for side in range(2):
            for j in range(K):
                sketch.touch_floats(pages, at[j, n + side], D)
            plain_write(C, at, words, n + side, steps[side])


@njit
def dense_simd(C, pages, at, _words, out):
    for n in range(0, at.shape[1], 2):
        p, q = load(C, at[0, n], D), load(C, at[0, n + 1], D)
        out[n] = dot(p, p) + dot(q, q)
        e = dot(p, q)
        for side in range(2):
            sketch.touch_floats(pages, at[0, n + side], D)
        store(C, at[0, n], add(p, move(p, q, ALONG * e, BACK)))
        store(C, at[0, n + 1], add(q, move(q, p, ALONG * e, BACK)))


@njit
def dense_plain(C, pages, at, _words, out):
    p, q, products = np.empty(D, np.float32), np.empty(D, np.float32), np.empty(D, np.float32)
    steps = np.empty((2, D), np.float32)
    for n in range(0, at.shape[1], 2):
        a, b = np.uint64(at[0, n]), np.uint64(at[0, n + 1])
        for m in range(D):
            p[np.uint64(m)] = C[a + np.uint64(m)]
            q[np.uint64(m)] = C[b + np.uint64(m)]
        out[n] = plain_dot(p, p, products) + plain_dot(q, q, products)
        e = plain_dot(p, q, products)
        plain_move(p, q, ALONG * e, BACK, steps[0])
        plain_move(q, p, ALONG * e, BACK, steps[1])
        for side in range(2):
            sketch.touch_floats(pages, at[0, n + side], D)
        for m in range(D):
            C[a + np.uint64(m)] = p[np.uint64(m)] + steps[0, m]
        for m in range(D):
            C[b + np.uint64(m)] = q[np.uint64(m)] + steps[1, m]


def _timed(kernel: Callable[..., None]) -> tuple[float, bytes]:
    random = np.random.default_rng(1)
    C = (0.3 * random.standard_normal(BLOCKS * D)).astype(np.float32)
    # Users in the lower half, items in the upper: no step moves one block twice as two vectors.
    half = BLOCKS // 2
    at = random.integers(0, half, (K, 2 * STEPS)) * D
    at[:, 1::2] += half * D
    words = random.integers(0, 2**64, at.shape, np.uint64)
    pages, out = np.zeros(1 + C.nbytes // 2**16, np.uint8), np.zeros(2 * STEPS)
    began = process_time()
    kernel(C, pages, at, words, out)
    return process_time() - began, C.tobytes() + pages.tobytes() + out.tobytes()


def measure() -> list[Figure]:
    """Return the time of plain loops relative to vectors; raises where their bits differ."""
    figures = []
    pairs = (("sketch", sketch_simd, sketch_plain), ("dense", dense_simd, dense_plain))
    for name, simd, plain in pairs:
        if _timed(simd)[1] != _timed(plain)[1]:  # compiles, too
            raise AssertionError(f"{name}: plain loops leave other bits than vectors")
        ratios = [_timed(plain)[0] / _timed(simd)[0] for _ in range(ROUNDS)]
        ratio = float(np.median(ratios))
        figures.append(Figure(f"step {name}, plain loops over SIMD vectors", ratio, "ratio"))
    return figures
