"""Every index by name: the one table used by settings and contract tests.

    exact    every score, then the best: the reference
    qolsh    256-bit codes, then exact scores of a shortlist (Balu 2016, chapter 5)
    pca      a byte a component along the principal axes, then exact scores of a shortlist
    auto     exact while that is measured to be faster, then pca: the default

A new index is one file (`index.py` has the base class) and one row here.

Indexes whose method is chosen by the time that both take for the items that they hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.auto_index import COUNT, AutoIndex, everything
from stream_app.models.retrieval.exact_index import ExactIndex
from stream_app.models.retrieval.index import StoredIndex
from stream_app.models.retrieval.pca_index import PCAIndex
from stream_app.models.retrieval.qolsh_index import QoLSHIndex

Index = StoredIndex | AutoIndex


class IndexSpec(NamedTuple):
    """The sizes of an index: components of a vector, bits of a code, seed of ties and codes."""

    factors: int
    code_bits: int = 256
    seed: int = 1


INDEXES: dict[str, Callable[[IndexSpec], Index]] = {
    "auto": lambda spec: AutoIndex(spec.factors, spec.seed),
    "exact": lambda spec: ExactIndex(spec.factors, spec.seed),
    "pca": lambda spec: PCAIndex(spec.factors, seed=spec.seed),
    "qolsh": lambda spec: QoLSHIndex(spec.factors, spec.code_bits, seed=spec.seed),
}


def build(method: str, factors: int, code_bits: int = 256, seed: int = 1) -> Index:
    """Return an empty index; raises ValueError, with all names, for an unknown one."""
    if method not in INDEXES:
        raise ValueError(f"index {method!r}: must be one of {', '.join(INDEXES)}")
    return INDEXES[method](IndexSpec(factors, code_bits, seed))


_ROUNDS = 3
_CLEARLY = 0.8


def new_index(method: str, factors: int, code_bits: int, seed: int) -> Index:
    """Return an empty index; "auto" measures which one is faster here."""
    index = build(method, factors, code_bits, seed)
    if isinstance(index, AutoIndex):
        index.is_faster = is_clearly_faster
    return index


def is_clearly_faster(
    first: StoredIndex, second: StoredIndex, queries: NDArray[np.float32]
) -> bool:
    """Return whether the second index answers in less than 4/5 of the time of the first one: the
    best of some rounds in turn, after one that compiles."""
    best = [np.inf, np.inf]
    for number in range(_ROUNDS + 1):
        for place, index in enumerate((first, second)):
            began = time.perf_counter()
            for query in queries:
                index.search(query, COUNT, everything)
            if number:
                best[place] = min(best[place], time.perf_counter() - began)
    return bool(best[1] < _CLEARLY * best[0])
