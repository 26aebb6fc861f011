"""The public table of how items go together, within a domain and from one domain to another.

    targets[d, a, p]       the p-th strongest link of item a into domain d, as a place of `keys`; -1
    similarities[d, a, p]  how much a stands for the target, 0 .. 1; 0 where there are fewer links
    deviations[d, a, p]    by how many stars item a is rated above the target

Every number is computed from one noisy sum over devices, once: whatever is computed from the table
reveals nothing more. `epsilon` at `delta` is what this table costs a device, everything that it
reported included; `spent` is that of all tables so far together, at the same delta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.domains.alter_ego import HIGHEST, LOWEST, Middles
from stream_app.ranking.domains.links import DomainLinks

MOST_ITEMS = 4096
MOST_DOMAINS = 16
MOST_NAME = 50  # characters
MOST_DEVIATION = HIGHEST - LOWEST  # stars


@dataclass(frozen=True, eq=False)
class SimilarityTable:
    """n items of D domains with at most k links of each item into each domain.

    version: the cut whose lists were summed. release: which table it is, from 1. keys (n,) uint64,
    each once; domain (n,) uint8, the place of each item's domain in `domains`, whose names rise and
    of which "" holds the items without one. means (n,) float32: mean rating, 1 .. 5. rates (n,)
    float32: what share of the weight of all lists is on the item, 0 .. 1.

    Raises:
        ValueError: shapes that do not fit, an item twice, a target outside of its domain, or a
            number out of its range.
    """

    version: int
    release: int
    epsilon: float
    delta: float
    spent: float
    keys: NDArray[np.uint64]
    domains: tuple[str, ...]
    domain: NDArray[np.uint8]
    means: NDArray[np.float32]
    rates: NDArray[np.float32]
    targets: NDArray[np.int32]
    similarities: NDArray[np.float32]
    deviations: NDArray[np.float32]

    def __post_init__(self) -> None:
        self._check_terms()
        self._check_items()
        self._check_links()

    def __len__(self) -> int:
        return len(self.keys)

    def place_of(self, domain: str) -> int:
        """Return the place of a domain; ValueError names the known ones for any other."""
        if domain not in self.domains:
            known = ", ".join(name or "(none)" for name in self.domains)
            raise ValueError(f"domain {domain[:60]!r} is not in the table; it has {known}")
        return self.domains.index(domain)

    def of_domain(self, domain: str) -> NDArray[np.intp]:
        """Return the places (m,) of the items of a domain."""
        return np.flatnonzero(self.domain == self.place_of(domain))

    def sources_of(self, source: str | None, target: str) -> NDArray[np.intp]:
        """Return the places of the items of a domain; with None those of all but the target."""
        if source is None:
            return np.flatnonzero(self.domain != self.place_of(target))
        return self.of_domain(source)

    def links(self, source: str | None, target: str) -> DomainLinks:
        """Return the links of the items of one domain to those of another, or of the same; with
        None those of the items of all domains but the target."""
        rows, columns = self.sources_of(source, target), self.of_domain(target)
        within = np.full(len(self) + 1, -1, np.int32)  # the last place takes what is no link
        within[columns] = np.arange(len(columns), dtype=np.int32)
        into = self.place_of(target)
        places = within[self.targets[into, rows]]
        return DomainLinks(
            self.keys[rows], self.keys[columns], places, self.similarities[into, rows]
        )

    def middles(self, source: str | None, target: str) -> Middles:
        """Return the mean ratings of the items of two domains, in the order of `links`."""
        return Middles(
            self.means[self.sources_of(source, target)], self.means[self.of_domain(target)]
        )

    def is_bridged(self, source: str | None, target: str) -> bool:
        """Return whether any item of one domain, with None of any other, has a link to a target."""
        rows = self.targets[self.place_of(target), self.sources_of(source, target)]
        return bool((rows >= 0).any())

    def _check_terms(self) -> None:
        if self.version < 0 or self.release < 1:
            raise ValueError(
                f"release {self.release} of cut {self.version}: counted from 1, cuts from 0"
            )
        if not 0 < self.epsilon <= self.spent * (1 + 1e-9) or not np.isfinite(self.spent):
            raise ValueError(
                f"epsilon {self.epsilon} of {self.spent} spent: must be above 0, and no more"
            )
        if not 0 < self.delta < 1:
            raise ValueError(f"delta {self.delta}: must be above 0 and below 1")

    def _check_items(self) -> None:
        n, names = len(self), self.domains
        if not 1 <= n <= MOST_ITEMS:
            raise ValueError(f"{n} items: a table has 1 to {MOST_ITEMS}")
        if not 1 <= len(names) <= MOST_DOMAINS or list(names) != sorted(set(names)):
            raise ValueError(f"{len(names)} domains: 1 to {MOST_DOMAINS}, rising, each once")
        if not all(name == "" or is_name(name) for name in names):
            raise ValueError(f"domains: each of 1 to {MOST_NAME} printable characters")
        if len(np.unique(self.keys)) != n:
            raise ValueError("an item is in the table twice")
        if not len(self.domain) == len(self.means) == len(self.rates) == n:
            raise ValueError("domains, means and rates: one for each item")
        if int(self.domain.max()) >= len(names):
            raise ValueError(f"an item is of domain {int(self.domain.max())} of {len(names)}")
        _check_range("mean rating", self.means, LOWEST, HIGHEST)
        _check_range("rate", self.rates, 0, 1)

    def _check_links(self) -> None:
        shape = (len(self.domains), len(self))
        arrays = (self.targets, self.similarities, self.deviations)
        if (
            any(each.ndim != 3 or each.shape[:2] != shape for each in arrays)
            or len({each.shape for each in arrays}) > 1
        ):
            raise ValueError("links: one table of targets, similarities and deviations a domain")
        _check_range("similarity", self.similarities, 0, 1)
        _check_range("deviation", self.deviations, -MOST_DEVIATION, MOST_DEVIATION)
        if not self.targets.size:
            return
        if not -1 <= int(self.targets.min()) <= int(self.targets.max()) < len(self):
            raise ValueError(f"a link leads outside of {len(self)} items")
        for into in range(len(self.domains)):
            found = self.targets[into]
            if (self.domain[found[found >= 0]] != into).any():
                raise ValueError("a link into a domain leads to an item of another one")
            _check_rows(found, self.similarities[into])


def is_name(name: str) -> bool:
    """Return whether a domain of the catalogue may be called so."""
    return 1 <= len(name) <= MOST_NAME and name.isprintable() and name == name.strip()


def _check_rows(targets: NDArray[np.int32], similarities: NDArray[np.float32]) -> None:
    """Raise ValueError unless rows fall, end where there is no link, and name a target once."""
    linked = targets >= 0
    if (similarities[~linked] != 0).any() or (np.diff(similarities, axis=1) > 0).any():
        raise ValueError("the links of an item: the strongest first, and 0 where there is none")
    ordered = np.sort(targets, axis=1)
    if ((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)).any():
        raise ValueError("an item has two links to one target")
    if (targets == np.arange(len(targets))[:, None]).any():
        raise ValueError("an item has a link to itself")


def _check_range(noun: str, values: NDArray[np.float32], least: float, most: float) -> None:
    if not ((values >= least) & (values <= most)).all():  # not a number is in no range
        raise ValueError(f"a {noun} is not in {least:g} .. {most:g}")
