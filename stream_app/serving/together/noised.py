"""The public table of noised similarities, ready for the queries of a worker.

    s_kj    the stronger of the published links k -> j and j -> k, else 0
    D_jk    the published deviation of either of them, with its sign, else 0

What a list or a near item is made of is then the table, and of the state only what the asker rated:
no other device is in it beyond the noise of the release. Shown ratings are the table's means.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.domains.similarity_table import SimilarityTable
from stream_app.ranking.similarity import COSINE, SLOPE_ONE
from stream_app.serving.together.co_rated import CoRated


class NoisedSimilarities(CoRated):
    """The links of a published table as (n, n), for lists by `method`."""

    def __init__(self, table: SimilarityTable, method: str = COSINE) -> None:
        size = len(table)
        similar, apart = (np.zeros((size, size), np.float32) for _ in range(2))
        for targets, strengths, deviations in zip(
            table.targets, table.similarities, table.deviations, strict=True
        ):
            rows, ranks = np.nonzero(targets >= 0)
            columns = targets[rows, ranks]
            similar[rows, columns] = strengths[rows, ranks]
            apart[rows, columns] = deviations[rows, ranks]
        both = np.maximum(similar, similar.T)
        deviations_of = _antisymmetric(apart) if method == SLOPE_ONE else None
        self._take(table.version, table.keys, both, deviations_of)
        self.means, self.source = table.means, "/published"


def _antisymmetric(apart: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return deviations of which either half is known for both: (j, k) is -(k, j)."""
    found: NDArray[np.float32] = np.where(apart != 0, apart, -apart.T)
    return found
