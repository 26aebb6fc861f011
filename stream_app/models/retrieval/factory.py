"""Every index by name: the one table used by settings and contract tests.

    exact    every score, then the best: the reference
    qolsh    256-bit codes, then exact scores of a shortlist (Balu 2016, chapter 5)
    pca      a byte a component along the principal axes, then exact scores of a shortlist
    auto     exact while that is measured to be faster, then pca: the default

A new index is one file (`base.py` has the base class) and one row here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stream_app.models.retrieval.auto_index import AutoIndex
from stream_app.models.retrieval.exact_index import ExactIndex
from stream_app.models.retrieval.index import Index
from stream_app.models.retrieval.pca_index import PCAIndex
from stream_app.models.retrieval.qolsh_index import QoLSHIndex


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


def check_index(method: str) -> str:
    """Return the name of an index, or raise ValueError with all names."""
    if method not in INDEXES:
        raise ValueError(f"index {method!r}: must be one of {', '.join(INDEXES)}")
    return method


def build(method: str, factors: int, code_bits: int = 256, seed: int = 1) -> Index:
    """Return an empty index; raises ValueError for an unknown name."""
    return INDEXES[check_index(method)](IndexSpec(factors, code_bits, seed))
