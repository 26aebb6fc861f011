"""What is known of each two items from the devices that rated both.

    counts[j, k]      = |Phi(j, k)|              Phi(j, k): the devices that rated j and k
    differences[j, k] = sum over i in Phi(j, k) of  r_ij - r_ik
    products[j, k]    = sum over i in Phi(j, k) of  r_ij r_ik

Slope One (Park and Acharya 2011, equation 3) and cosine (equation 7) are functions of these sums
alone. A live table is a copy of the state of a replica.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class CoRatingTable:
    """Sums over co-raters of n items, made from what is co-rated up to cut `version`.

    Stars are those of the internal scale, 1 .. 5; a debiased value may lie outside. keys (n,)
    uint64: the items. counts (n, n): co-raters, symmetric; diagonal: the raters n_j. differences
    (n, n): the sum of r_j - r_k, antisymmetric. products (n, n): the sum of r_j r_k, symmetric;
    diagonal: the sum of r_j^2, debiased. sums (n,): the sum of r_j over the raters of j. variance
    (n,): mean variance of the noise of a value of item j, 0 where nothing is noised.
    """

    version: int
    keys: NDArray[np.uint64]
    counts: NDArray[np.float32]
    differences: NDArray[np.float32]
    products: NDArray[np.float32]
    sums: NDArray[np.float32]
    variance: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Refuse arrays whose shapes do not fit together."""
        size = len(self.keys)
        for name in ("counts", "differences", "products"):
            if getattr(self, name).shape != (size, size):
                raise ValueError(
                    f"{name} of shape {getattr(self, name).shape}: must be ({size}, {size})"
                )
        for name in ("sums", "variance"):
            if getattr(self, name).shape != (size,):
                raise ValueError(f"{name} of shape {getattr(self, name).shape}: must be ({size},)")

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def raters(self) -> NDArray[np.float32]:
        """(n,): the raters of each item, the diagonal of `counts`."""
        return self.counts.diagonal()


def slots_of(keys: NDArray[np.uint64], items: ArrayLike) -> NDArray[np.int64]:
    """Return (m,) the place of each of `items` (m,) in `keys` (n,), -1 where it is not there."""
    wanted = np.asarray(items, np.uint64)
    if not len(keys):
        return np.full(wanted.shape, -1, np.int64)
    order = np.argsort(keys, kind="stable")
    at = order[np.searchsorted(keys[order], wanted).clip(0, len(keys) - 1)]
    return np.where(keys[at] == wanted, at, -1).astype(np.int64)
