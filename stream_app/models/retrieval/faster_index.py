"""Indexes whose method is chosen by the time that both take for the items that they hold."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.auto_index import COUNT, AutoIndex, everything
from stream_app.models.retrieval.factory import build
from stream_app.models.retrieval.index import Index

_ROUNDS = 3
_CLEARLY = 0.8


def new_index(method: str, factors: int, code_bits: int, seed: int) -> Index:
    """Return an empty index; "auto" measures which one is faster here."""
    index = build(method, factors, code_bits, seed)
    if isinstance(index, AutoIndex):
        index.is_faster = is_clearly_faster
    return index


def is_clearly_faster(first: Index, second: Index, queries: NDArray[np.float32]) -> bool:
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
