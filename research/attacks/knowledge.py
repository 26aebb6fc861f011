"""What an attacker on profiles knows beforehand: the catalogue, shares of items, sizes of profiles.

    share_j = (raters of j + 1/2) / (users + 1)        from the profiles of other, training users
    odds_j  = ln(q_j / (1 - q_j)),  q = share scaled to a sum of c        (Balu 2016, s. 3.5.1)

With flat odds every item has q = c / n. Sizes are the mechanism's noisy estimates, drawn towards
the mean of the training users by the variance of the noise; where a release has no estimate
(epsilon 0) they are that mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.profiles.profile_mechanism import ProfileMechanism, posterior_sizes

_MOST = 0.98  # of a scaled share: nothing is certain beforehand


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Item keys (n,), share (n,) of each within 0 and 1, and mean and deviation of the sizes."""

    catalogue: NDArray[np.uint64]
    shares: NDArray[np.float64]
    size: float
    deviation: float

    @classmethod
    def of_training(
        cls, profiles: Sequence[NDArray[np.uint64]], catalogue: NDArray[np.uint64]
    ) -> Knowledge:
        """Return what the profiles of training users show; `catalogue`: rising keys.

        ValueError without a profile or an item, and for an item outside the catalogue.
        """
        if not profiles or not len(catalogue):
            raise ValueError(f"{len(profiles)} profiles over {len(catalogue)} items: give one each")
        items = np.concatenate(profiles)
        places = np.searchsorted(catalogue, items)
        if (places == len(catalogue)).any() or (catalogue[places] != items).any():
            raise ValueError("a training profile holds an item outside the catalogue")
        counts = np.bincount(places, minlength=len(catalogue))
        sizes = np.array([len(profile) for profile in profiles], np.float64)
        shares = (counts + 0.5) / (len(profiles) + 1)
        return cls(catalogue, shares, max(1.0, float(sizes.mean())), float(sizes.std()))

    def odds(self, size: float) -> NDArray[np.float64]:
        """Return the prior log-odds of every item for a profile of `size` items, (n,)."""
        scaled = np.clip(self.shares * size / self.shares.sum(), 1e-9, _MOST)
        return np.asarray(np.log(scaled) - np.log1p(-scaled), np.float64)

    def flat(self, size: float) -> NDArray[np.float64]:
        """Return the same log-odds for every item, (n,)."""
        share = min(size / len(self.catalogue), _MOST)
        return np.full(len(self.catalogue), np.log(share) - np.log1p(-share))

    def sizes(
        self, mechanism: ProfileMechanism, coordinates: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Return the posterior mean of each profile's size, (m,), within 1 and the catalogue."""
        if mechanism.no_estimate:
            return np.full(len(coordinates), self.size)
        most = len(self.catalogue)
        found = mechanism.sizes(coordinates, most)
        return posterior_sizes(mechanism, found, self.size, self.deviation, most)
