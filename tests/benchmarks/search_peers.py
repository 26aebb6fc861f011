"""Top-100 searches beside FAISS and hnswlib: inner product with biases, d = 32, query by query.

    exact, pca, qoLSH    the indexes of a worker, asked through `search`
    numpy                q . p + b by the matrix product, argpartition, argsort: exact
    FAISS flat           IndexFlatIP over [q, b] and [p, 1]: exact
    FAISS binary         IndexBinaryFlat over qoLSH codes of 256 bits, the 1000 nearest by Hamming
                         distance, then exact by numpy. Codes know directions alone, so they are of
                         [q, b, r] and [p, 1, 0], r such that all items have one length
    FAISS HNSW           M = 16, construction 100, by ef
    hnswlib              the same; both up to 100,000 items, above which building takes minutes

One thread; the CPU time of the process. The catalogue is that of `retrieval`. Recall@10 and @100
are against the exact index, both of the answer of 100.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.index import ExactIndex
from stream_app.models.retrieval.pca_index import PCAIndex
from stream_app.models.retrieval.qolsh_index import Encoder, QoLSHIndex
from tests.benchmarks import contest
from tests.benchmarks.contest import Contender, not_installed
from tests.benchmarks.figure import Figure
from tests.benchmarks.retrieval import COUNT, FACTORS, catalogue, everything, filled

SIZES = (10_000, 100_000, 1_000_000)
_GRAPHS_UP_TO = 100_000
_EFS = (100, 200, 400, 800)
_NEAREST = 1000  # by Hamming distance
_TARGETS = {10_000: ">= 3", 100_000: ">= 9", 1_000_000: ">= 25"}
Search = Callable[[NDArray[np.float32]], NDArray[np.integer]]


def measure(sizes: tuple[int, ...] = SIZES) -> list[Figure]:
    """Return queries a second and recall of every method, and ratios to FAISS flat."""
    return [figure for n in sizes for figure in _of_size(n)]


def _of_size(n: int) -> Iterator[Figure]:
    vectors, biases, users = catalogue(n)
    ours = {
        "exact": ExactIndex(FACTORS), "pca": PCAIndex(FACTORS), "qoLSH": QoLSHIndex(FACTORS)
    }  # fmt: skip
    searches: dict[str, Search] = {}
    for name, index in ours.items():
        filled(index, vectors, biases)
        searches[name] = lambda p, index=index: index.search(p, COUNT, everything)[0]
    both = np.ascontiguousarray(np.hstack((vectors, biases[:, None])))
    searches["numpy"] = lambda p: _by_numpy(vectors, biases, p)
    searches |= dict(_of_faiss(both)) | dict(_of_hnswlib(both))
    best = [searches["exact"](p) for p in users]
    taken = contest.contest(
        [
            Contender(name, lambda _, search=search: [search(p) for p in users], len(users))
            for name, search in searches.items()
        ]
    )
    for name, search in searches.items():
        method, _, setting = name.partition(", ")
        title = f"search {method}, {n:,} items" + (f", {setting}" if setting else "")
        rate, seconds = 1 / taken[name].median, taken[name].rounds
        yield Figure(title, rate, "queries/s", low=1 / max(seconds), high=1 / min(seconds))
        pairs = [(true, search(p)) for p, true in zip(users, best, strict=True)]
        for count in (10, COUNT):
            found = np.mean([np.isin(true[:count], given[:count]) for true, given in pairs])
            yield Figure(title, float(found), f"recall@{count}")
    for module in ("faiss", "hnswlib"):
        if contest.peer(module) is None:
            yield not_installed(f"search {module}, {n:,} items", module)
    if "FAISS flat" in taken:
        for name in (*ours, "numpy", "FAISS binary"):
            target = _TARGETS.get(n, "") if name == "pca" else ""
            yield taken[name].times_faster_than(
                taken["FAISS flat"], f"{name} against FAISS flat, {n:,} items", target
            )


def _by_numpy(
    vectors: NDArray[np.float32], biases: NDArray[np.float32], p: NDArray[np.float32]
) -> NDArray[np.integer]:
    """Return the places of the best, best first."""
    scores = vectors @ p + biases
    best = np.argpartition(scores, max(len(scores) - COUNT, 0))[-COUNT:]
    return best[np.argsort(scores[best])[::-1]]


def _of_faiss(both: NDArray[np.float32]) -> Iterator[tuple[str, Search]]:
    faiss: Any = contest.peer("faiss")
    if faiss is None:
        return
    faiss.omp_set_num_threads(1)
    flat = faiss.IndexFlatIP(both.shape[1])
    flat.add(both)
    yield "FAISS flat", lambda p: flat.search(_asked(p), COUNT)[1][0]
    yield "FAISS binary", _of_codes(faiss, both)
    if len(both) > _GRAPHS_UP_TO:
        return
    graph = faiss.IndexHNSWFlat(both.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = 100
    graph.add(both)
    for ef in _EFS:

        def search(p: NDArray[np.float32], ef: int = ef) -> NDArray[np.integer]:
            graph.hnsw.efSearch = ef
            found: NDArray[np.integer] = graph.search(_asked(p), COUNT)[1][0]
            return found

        yield f"FAISS HNSW, ef = {ef}", search


def _of_codes(faiss: Any, both: NDArray[np.float32]) -> Search:
    """Return a search by Hamming distance, then exact."""
    squares = (both.astype(np.float64) ** 2).sum(axis=1, keepdims=True)
    rest = np.sqrt(squares.max() - squares).astype(np.float32)
    encoder = Encoder(both.shape[1] + 1)
    index = faiss.IndexBinaryFlat(encoder.bits)
    index.add(encoder.encode(np.hstack((both, rest))).words.view(np.uint8))

    def search(p: NDArray[np.float32]) -> NDArray[np.integer]:
        asked = _asked(p)
        code = encoder.encode(np.append(asked, np.float32(0))[None]).words.view(np.uint8)
        rows = index.search(code, min(_NEAREST, len(both)))[1][0]
        best: NDArray[np.integer] = rows[_by_numpy(both[rows, :-1], both[rows, -1], p)]
        return best

    return search


def _of_hnswlib(both: NDArray[np.float32]) -> Iterator[tuple[str, Search]]:
    hnswlib: Any = contest.peer("hnswlib")
    if hnswlib is None or len(both) > _GRAPHS_UP_TO:
        return
    graph = hnswlib.Index(space="ip", dim=both.shape[1])
    graph.init_index(max_elements=len(both), M=16, ef_construction=100)
    graph.set_num_threads(1)
    graph.add_items(both)
    for ef in _EFS:

        def search(p: NDArray[np.float32], ef: int = ef) -> NDArray[np.integer]:
            graph.set_ef(ef)
            found: NDArray[np.integer] = graph.knn_query(_asked(p), COUNT)[0][0].astype(np.int64)
            return found

        yield f"hnswlib, ef = {ef}", search


def _asked(p: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.append(p, np.float32(1))[None, :]
