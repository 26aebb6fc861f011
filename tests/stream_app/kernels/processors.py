"""Digests of every kernel that uses SIMD vectors, computed on the processor that numba is set to.

    python -m tests.stream_app.kernels.processors [--compile-only] KIND FACTORS ...

The kinds:

    vectors     the operations of `machine/simd.py`
    step        read, dot product, move and write of the sketch, as the learners inline them
    arm64       machine code of the vector operations for 64-bit ARM; it is not run
    eigen       eigenvalues and vectors of symmetric matrices
    codes       qoLSH codes, by both kernels
    scan        axes, bytes and answers of the PCA index, and the axes' update; answers of qoLSH
    learners    `learn_many` and the look-up of factors of the sketch, literal and dense learners

Prints a JSON object: "zmm", whether the machine code of the chosen kind uses a 512-bit register
(null where nothing is compiled), and "digests", one for each number of factors (for `arm64`
whether the code adds four floats at once; null with `--compile-only`).

`--compile-only` compiles the kernels of `vectors`, `step`, `eigen` or `codes` and runs none, for a
processor whose instructions this one lacks. A learner and an index run kernels while they are
built, so they have no such mode.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from hashlib import blake2b

import numpy as np
from llvmlite import binding
from numba import config, njit, typeof, types

from stream_app.kernels.factorization import count_sketch_blocked as sketch
from stream_app.kernels.factorization.kalman_update import dot, move
from stream_app.kernels.linear_algebra import symmetric_eigen
from stream_app.kernels.machine.simd import add, flip, load, multiply, scale, store, total
from stream_app.kernels.retrieval import code_scan, pca_scan, qolsh
from stream_app.models.baselines.dense import DenseLearner
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.count_sketch import SketchLearner
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.models.retrieval.pca_index import PCAIndex
from stream_app.models.retrieval.qolsh_index import QoLSHIndex
from tests.stream_app.models.learners import CHANNELS, CLEAN, NOISY

_ROWS, _DEPTH, _EVENTS, _KEYS, _ITEMS, _BITS = 20, 3, 60, 12, 500, 100


def vectors_kernel(n: int) -> Callable[..., None]:
    """Return a kernel that applies every vector operation to rows of n floats."""

    @njit
    def operations(a, b, words, out):
        for row in range(words.size):
            v = flip(load(a, row * n, n), words[row])
            w = scale(add(v, load(b, row * n, n)), np.float32(0.7))
            store(out, row * (n + 1), multiply(w, v))
            out[row * (n + 1) + n] = total(w)

    return operations


def step_kernel(n: int) -> Callable[..., None]:
    """Return a kernel that moves the blocks of one row into those of the next, n floats each."""

    @njit
    def steps(C, pages, at, words, out):
        for row in range(1, words.shape[1]):
            p = sketch.read(C, at, words, row - 1, n, _DEPTH)
            q = sketch.read(C, at, words, row, n, _DEPTH)
            out[row] = dot(p, q)
            along = out[row] / (1.0 + out[row] * out[row])  # bounded: NaNs have no defined bits
            sketch.mark(pages, at, row, n, _DEPTH)
            sketch.write(C, at, words, row, n, _DEPTH, move(p, q, along, 0.125))

    return steps


def _call(kernel: Callable[..., None], *arguments: object) -> None:
    """Run a kernel, or only compile it for arguments of these types."""
    if "--compile-only" in sys.argv:
        kernel.compile(tuple(map(typeof, arguments)))  # type: ignore[attr-defined]
    else:
        kernel(*arguments)


def _digest(*arrays: np.ndarray) -> str:
    digest = blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _wide(kernel: Callable[..., None]) -> bool:
    inspect = getattr(kernel, "inspect_asm", None)
    return inspect is not None and any("zmm" in code for code in inspect().values())


def vectors(n: int) -> tuple[str, bool]:
    """Return the digest of all vector operations on n floats, and whether zmm occurs."""
    random, kernel = np.random.default_rng(n), vectors_kernel(n)
    a, b = random.normal(size=(2, _ROWS * n)).astype(np.float32)
    words = random.integers(0, 2**64, _ROWS, np.uint64)
    out = np.zeros(_ROWS * (n + 1), np.float32)
    _call(kernel, a, b, words, out)
    return _digest(out), _wide(kernel)


def step(n: int) -> tuple[str, bool]:
    """Return the digest of a sketch of n factors after some steps, and whether zmm occurs."""
    random, kernel = np.random.default_rng(n), step_kernel(n)
    C = random.normal(size=_ROWS * n).astype(np.float32)
    at = random.integers(0, _ROWS, (_DEPTH, _ROWS)) * n
    words = random.integers(0, 2**64, (_DEPTH, _ROWS), np.uint64)
    pages, out = np.zeros(1, np.uint8), np.zeros(_ROWS)
    _call(kernel, C, pages, at, words, out)
    assert np.isfinite(C).all()
    assert np.isfinite(out).all()
    return _digest(C, pages, out), _wide(kernel)


def eigen(n: int) -> tuple[str, bool]:
    """Return the digest of eigenvalues and vectors of an n x n matrix, and whether zmm occurs."""
    matrix = np.random.default_rng(n).normal(size=(n, n))
    matrix += matrix.T
    values, rows = np.zeros(n), np.zeros((n, n))
    _call(symmetric_eigen, matrix, values, rows)
    return _digest(values, rows), _wide(symmetric_eigen)


def codes(n: int) -> tuple[str, bool]:
    """Return the digest of codes of vectors of n floats, and whether zmm occurs."""
    random = np.random.default_rng(n)
    given = random.normal(size=(_ROWS, n)).astype(np.float32)
    bits = min(n + 9, 64)
    width, depth = (-(-size // 16) * 16 for size in (bits, n))
    frame, columns = np.zeros((n, width), np.float32), np.zeros((bits, depth), np.float32)
    frame[:, :bits] = random.normal(size=(n, bits))
    columns[:, :n] = frame[:, :bits].T
    gram, diagonal = np.zeros((bits, width), np.float32), np.zeros(width, np.float32)
    for j in range(bits):  # no matrix product: its order is the library's
        gram[:, j] = (frame[:, :bits] * frame[:, j : j + 1]).cumsum(axis=0, dtype=np.float32)[-1]
        diagonal[j] = gram[j, j]
    found, rest = np.zeros((_ROWS, 1), np.uint64), np.zeros((3, _ROWS), np.float32)
    _call(qolsh.encode, given, frame, columns, gram, diagonal, 5, 3, found, *rest)
    return _digest(found, rest), _wide(qolsh.encode)


def scan(n: int) -> tuple[str, bool]:
    """Return the digest of indexes of vectors of n floats and of their answers, and whether zmm
    occurs."""
    random = np.random.default_rng(n)
    vectors = random.normal(size=(_ITEMS, n)).astype(np.float32)
    vectors[7] *= np.float32(1e6)
    biases = random.normal(size=_ITEMS).astype(np.float32)
    index = PCAIndex(n, shortlist=_EVENTS)
    by_codes = [QoLSHIndex(n, _BITS, _KEYS, narrow=narrow) for narrow in (False, True)]
    for each in (index, *by_codes):
        each.update(np.arange(_ITEMS), vectors, biases)
    found = [index._coarse, index._fine, index._beyond, index._axes, index._scales]
    for query in vectors[:_ROWS]:
        for each in (index, *by_codes):
            found += each.search(query, _KEYS, lambda rows: rows % 3 > 0)
    return _digest(*found), _wide(pca_scan.search) and _wide(code_scan.search)


def arm64(n: int) -> tuple[str, bool]:
    """Return whether the vector operations on n floats become NEON additions."""
    kernel = vectors_kernel(n)
    floats, words = types.Array(types.float32, 1, "C"), types.Array(types.uint64, 1, "C")
    kernel.compile((floats, floats, words, floats))  # type: ignore[attr-defined]
    (code,) = kernel.inspect_llvm().values()  # type: ignore[attr-defined]
    target = binding.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(opt=3)
    code = re.sub("target triple = .*", f'target triple = "{target.triple}"', code)
    code = re.sub("target datalayout = .*", f'target datalayout = "{machine.target_data}"', code)
    # The only instruction of this processor in it counts references to arrays.
    code = re.sub(r"(tail )?call i8 @llvm\.x86\.atomic.*", "add i8 0, 0", code)
    assembly = machine.emit_assembly(binding.parse_assembly(code))
    return "neon" if re.search(r"fadd\tv\d+\.4s", assembly) else "scalar", False


def learners(n: int) -> tuple[str, bool]:
    """Return the digest of four learners of n factors after a batch, and whether zmm occurs."""
    random, found, wide = np.random.default_rng(n), [], False
    keys = random.integers(0, _KEYS, (2, _EVENTS)).astype(np.uint64)
    reports = random.integers(0, 5, _EVENTS).astype(np.uint8)
    channels = random.choice(np.array([CLEAN, NOISY], np.uint16), _EVENTS)
    for model in ("hybrid", "sketch", "literal", "dense"):
        size = 4 * _DEPTH * n * 16
        learner = build(
            model,
            CHANNELS,
            LearnerSpec(factors=n, depth=_DEPTH, sketch_bytes=size, scalars_bytes=512, seed=3),
        )
        assert isinstance(learner, SketchLearner | DenseLearner | HybridLearner)
        learner.learn_many(*keys, reports, channels, np.ones(_EVENTS, np.bool_))
        found += [*learner.arrays().values(), *learner.users(keys[0]), *learner.items(keys[1])]
        wide |= _wide(learner._learn)
    return _digest(*found), wide


def main() -> None:
    """Print the digests of the kind named first for the numbers of factors that follow."""
    name, *widths = [argument for argument in sys.argv[1:] if argument != "--compile-only"]
    executed = len(widths) + 2 == len(sys.argv)
    kinds = {"vectors": vectors, "step": step, "eigen": eigen, "codes": codes}
    more = {"arm64": arm64, "learners": learners, "scan": scan} if executed else {}
    kind = (kinds | more)[name]
    if kind is arm64:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    found = {n: kind(int(n)) for n in widths}
    wide = None if config.DISABLE_JIT else any(zmm for _, zmm in found.values())
    digests = {n: digest if executed else None for n, (digest, _) in found.items()}
    print(json.dumps({"zmm": wide, "digests": digests}))


if __name__ == "__main__":
    main()
