"""Contract of every mechanism over a whole profile: a set of items in, `profile_bytes` bytes out.

A profile is the set of items a user has rated, as distinct 64-bit keys. A mechanism turns it into
`profile_bytes` bytes under adjacency `cell`: one item added or removed. Its id determines codebook,
noise, cap and claim, so an allow-list of ids is a list of channels.

A mechanism may have a cap, `most`: it releases at most so many items of a profile, those that come
first in a public order (`codebook.first_items`). What a whole profile costs is then bounded, but an
item more can push another out of the release: of a capped profile it changes two items, so each
item in the release has half of epsilon. Any rule that keeps real items as long as there are any has
this price: of the profiles {a}, {b} and {a, b} with a cap of 1, two differ by an exchange.

The server computes from released profiles, as post-processing without any cost in epsilon:

    coordinates (m, L)    unbiased for the values before the noise
    sizes, overlaps       |P| of each, |A and B| of every pair
    evidence @ probes     an estimate of weight * 1[j in P] for every profile and item j

Sizes are noisy; with a prior of mean c0 and standard deviation s0 their posterior mean is

    (c0 / s0^2 + size / v) / (1 / s0^2 + 1 / v),   v = size_variance(c0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.privacy_map import Adjacency, InputMetric, Loss, OutputMeasure
from stream_app.privacy.randomness import RandomSource

MOST_ITEMS = 2**14
LARGEST_EPSILON = Fraction(64)


class ProfileMechanism(ABC):
    """A local mechanism over a whole profile; a frozen value."""

    length: int  # L, the number of bits or coordinates
    epsilon: Fraction | None  # the exact claim per item and release; None without noise
    delta: Fraction  # of the claim, exact; 0 for pure differential privacy
    most: int  # the cap: how many items a release holds at most, 1 to `MOST_ITEMS`
    family: ClassVar[str]
    input_metric: ClassVar[InputMetric] = InputMetric.PROFILE  # how far apart two profiles are

    @property
    def id(self) -> str:
        """The wire id, `family:length:...`, and `:most` with a cap."""
        cap = "" if self.most == MOST_ITEMS else f":{self.most}"
        return f"{self.family}:{self.length}:{self._claim}{cap}"

    @property
    @abstractmethod
    def _claim(self) -> str:
        """The fields of the id between length and cap."""

    @property
    def adjacency(self) -> Adjacency:
        """What epsilon protects: one item added or removed; nothing without noise."""
        return Adjacency.NOTHING if self.epsilon is None else Adjacency.CELL

    @property
    def output_measure(self) -> OutputMeasure:
        """How far apart two releases are; nothing without noise."""
        if self.epsilon is None:
            return OutputMeasure.NOTHING
        return OutputMeasure.APPROXIMATE if self.delta else OutputMeasure.PURE

    @abstractmethod
    def privacy_map(self, distance: int) -> Loss:
        """Return the most by which two releases of profiles at this `input_metric` distance differ
        in `output_measure`; ValueError below 0."""

    @property
    @abstractmethod
    def profile_bytes(self) -> int:
        """Size of a released profile."""

    @property
    def no_estimate(self) -> str:
        """The reason why the estimators return NaN; empty if they do not."""
        return ""

    @abstractmethod
    def certify(self) -> tuple[Certificate, ...]:
        """Prove the claim again on the table that is sampled from; ValueError if it fails."""

    @abstractmethod
    def release(self, items: NDArray[np.uint64], source: RandomSource) -> NDArray[np.uint8]:
        """Turn distinct item keys (c,) into (profile_bytes,) uint8; no other method draws noise.

        Counts as one release of a ticket and takes the same number of words for any profile; items
        over the cap are left out. Raises ValueError before a word is drawn unless `items` are at
        most 16384 distinct uint64 keys.
        """

    @abstractmethod
    def log_likelihood(self, released: NDArray[np.uint8], items: NDArray[np.uint64]) -> float:
        """Return ln P(released | items), exact up to float64; -inf if it is impossible."""

    @abstractmethod
    def coordinates(self, released: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return unbiased coordinates of released profiles (m, profile_bytes), shape (m, L)."""

    @abstractmethod
    def sizes(
        self, coordinates: NDArray[np.float32], catalogue: int = MOST_ITEMS
    ) -> NDArray[np.float64]:
        """Return |P| of each profile's coordinates, shape (m,), within 0 .. catalogue."""

    @abstractmethod
    def size_variance(self, size: float) -> float:
        """Return the variance of `sizes` at a true size."""

    @abstractmethod
    def overlaps(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Return |A and B| of every pair of coordinates (m, L) and (n, L), shape (m, n)."""

    @abstractmethod
    def weights(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight of 1[j in P] in the evidence for profiles of each size, shape (m,)."""

    @abstractmethod
    def evidence(
        self, coordinates: NDArray[np.float32], sizes: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """Return the matrix whose product with `probes` estimates memberships, shape (m, L)."""

    @abstractmethod
    def probes(self, items: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return one column per item key (c,), shape (L, c)."""

    @abstractmethod
    def evidence_variance(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the variance of an entry of evidence @ probes for each size, shape (m,)."""


def posterior_sizes(
    mechanism: ProfileMechanism,
    sizes: NDArray[np.float64],
    mean: float,
    deviation: float,
    catalogue: int = MOST_ITEMS,
) -> NDArray[np.float64]:
    """Return the posterior means of noisy sizes under a normal prior, within 1 .. catalogue."""
    variance, prior = mechanism.size_variance(mean), deviation**2
    if prior == 0 or not np.isfinite(variance):
        return np.full(len(sizes), np.clip(mean, 1, catalogue))
    if variance == 0:
        return np.clip(sizes, 1, catalogue)
    posterior = (mean / prior + sizes / variance) / (1 / prior + 1 / variance)
    return np.asarray(np.clip(posterior, 1, catalogue), np.float64)


def changed_items(most: int) -> int:
    """Return how many items of a release one item of a profile changes: 2 under a cap, else 1."""
    return 1 if most == MOST_ITEMS else 2


def check_most(most: int, epsilon: Fraction | None) -> None:
    """Raise ValueError unless `most` is 1 to `MOST_ITEMS`, and that without noise."""
    if type(most) is not int or not 1 <= most <= MOST_ITEMS:
        raise ValueError(f"at most {most!r} items in a profile: 1 to {MOST_ITEMS}")
    if epsilon is None and most < MOST_ITEMS:
        raise ValueError(
            f"at most {most} items in a profile without noise: a cap bounds a cost, and without "
            "noise nothing is protected; leave the cap out"
        )


def check_items(items: NDArray[np.uint64]) -> None:
    """Raise ValueError unless `items` are at most 16384 distinct keys, (c,) uint64."""
    if not isinstance(items, np.ndarray) or items.dtype != np.uint64 or items.ndim != 1:
        raise ValueError("items: give a one-dimensional uint64 array of item keys")
    if len(items) > MOST_ITEMS:
        raise ValueError(f"{len(items)} items: a profile has at most {MOST_ITEMS}; select fewer")
    if len(np.unique(items)) != len(items):
        raise ValueError("items: an item occurs twice in one profile; give each once")


def check_released(released: NDArray[np.uint8], size: int) -> None:
    """Raise ValueError unless `released` is (m, size) uint8."""
    if released.dtype != np.uint8 or released.ndim != 2 or released.shape[1] != size:
        raise ValueError(f"profiles of shape {released.shape}: give (m, {size}) bytes")


def check_epsilon(epsilon: Fraction, least: Fraction) -> None:
    """Raise ValueError unless epsilon is a Fraction in least .. 64 with at most six decimals."""
    if not isinstance(epsilon, Fraction):
        raise ValueError(  # noqa: TRY004 (one error for bad input)
            f"epsilon {str(epsilon)[:40]}: give an exact number, Fraction(8) or Fraction(1, 2)"
        )
    if not least <= epsilon <= LARGEST_EPSILON or epsilon.denominator > 10**6:
        # The largest floats end at 1.8e308; a longer number is not shown.
        shown = f"{float(epsilon):g}" if abs(epsilon) < 10**300 else "of many digits"
        raise ValueError(
            f"epsilon {shown}: {least} to {LARGEST_EPSILON}, with at most six decimals; "
            "use inf to protect nothing"
        )
