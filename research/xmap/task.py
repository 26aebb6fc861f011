"""Cold users of a domain: some users of both domains, all of whose target ratings are held out.

The cold users are drawn from those who rated in both domains; the rest is learned. A held-out
rating is relevant to a list where it is 4 stars or more. Lists are of the whole target domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from research.xmap.adjusted_cosine import RatedCells, item_means, rated_cells

SHARE = 0.2  # of the users of both domains
RELEVANT = 4.0  # stars
LEAST_USERS = 10
_PRIOR = 5.0  # ratings at the mean of all, in the mean of an item
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TwoDomains:
    """Ratings in columns (r,): users 0 .. people - 1; items 0 .. sources - 1 of the source domain,
    those of the target domain after them, 0 .. targets - 1 more; stars 1 .. 5.

    user_keys (people,), item_keys (sources + targets,): the ids that were given.
    """

    users: Numbers
    items: Numbers
    stars: NDArray[np.float64]
    people: int
    sources: int
    targets: int
    user_keys: NDArray[np.generic]
    item_keys: NDArray[np.generic]

    @property
    def in_target(self) -> NDArray[np.bool_]:
        """Which ratings (r,) are of the target domain."""
        return np.asarray(self.items >= self.sources)

    @property
    def straddlers(self) -> Numbers:
        """The users who rated in both domains."""
        return np.intersect1d(self.users[self.in_target], self.users[~self.in_target])


def two_domains(
    users: ArrayLike, items: ArrayLike, stars: ArrayLike, in_target: ArrayLike
) -> TwoDomains:
    """Return ratings of two domains; users and items (r,) are ids of any kind, stars 1 .. 5.

    Raises:
        ValueError: an item is in both domains, a domain is empty, fewer than 10 users rated in
            both, lengths differ, or stars are not in 1 .. 5.
    """
    values, target = np.asarray(stars, np.float64), np.asarray(in_target, bool)
    if len({len(np.asarray(each)) for each in (users, items, values, target)}) > 1:
        raise ValueError("users, items, stars and domains: columns of one length are needed")
    if not ((values >= 1) & (values <= 5)).all():
        raise ValueError("ratings of two domains: stars must be 1 to 5")
    user_keys, by_user = np.unique(np.asarray(users), return_inverse=True)
    keys, by_item = np.unique(np.asarray(items), return_inverse=True)
    inside = np.bincount(by_item, target, len(keys)), np.bincount(by_item, ~target, len(keys))
    both = np.flatnonzero((inside[0] > 0) & (inside[1] > 0))
    if len(both):
        raise ValueError(
            f"item {str(keys[both[0]])[:40]} is in both domains, and {len(both) - 1} others: an "
            "item is of one domain"
        )
    order = np.argsort(inside[0] > 0, kind="stable")  # the source domain first
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.arange(len(keys))
    targets = int((inside[0] > 0).sum())
    if not 0 < targets < len(keys):
        raise ValueError(f"{len(keys) - targets} source and {targets} target items: 1 or more each")
    found = TwoDomains(
        by_user.astype(np.int64),
        numbers[by_item],
        values,
        len(user_keys),
        len(keys) - targets,
        targets,
        user_keys,
        keys[order],
    )
    if len(found.straddlers) < LEAST_USERS:
        raise ValueError(
            f"{len(found.straddlers)} users rated in both domains: {LEAST_USERS} are needed, since "
            "nothing else links the two"
        )
    return found


class Cold(NamedTuple):
    """A cold user: number, rated source items (h,) and stars; held-out target items (t,) and
    stars, t >= 1."""

    user: int
    items: Numbers
    stars: NDArray[np.float64]
    held: Numbers
    truth: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ColdTask:
    """What is learned, and the cold users. learned: rows of `data`; source, target: their tables,
    one row for each person; source_means (n,), target_means (m,): shrunken mean ratings."""

    data: TwoDomains
    learned: Numbers
    source: RatedCells
    target: RatedCells
    source_means: NDArray[np.float64]
    target_means: NDArray[np.float64]
    plain_means: NDArray[np.float64]
    cold: tuple[Cold, ...]


def cold_task(data: TwoDomains, seed: int = 0, share: float = SHARE) -> ColdTask:
    """Return the task of one split; `share` of the users of both domains are cold, 1 at least."""
    if not 0 < share < 1:
        raise ValueError(f"share {share} of cold users: must be above 0 and below 1")
    straddlers = data.straddlers
    count = max(1, int(share * len(straddlers)))
    drawn = np.random.default_rng((seed, 0)).permutation(straddlers)[:count]
    held = data.in_target & np.isin(data.users, drawn)
    learned = np.flatnonzero(~held)
    users, items = data.users[learned], data.items[learned]
    size = data.sources + data.targets
    cells = rated_cells(users, items, data.stars[learned], data.people, size)
    source = cells.take(np.arange(data.sources))
    target = cells.take(np.arange(data.sources, data.sources + data.targets))
    middle = float(data.stars[learned].mean())
    return ColdTask(
        data,
        learned,
        source,
        target,
        _shrunken(source),
        _shrunken(target),
        item_means(target, middle),
        tuple(_cold(data, held, int(user)) for user in np.sort(drawn)),
    )


def _cold(data: TwoDomains, held: NDArray[np.bool_], user: int) -> Cold:
    rows = np.flatnonzero(data.users == user)
    known, tested = rows[~held[rows]], rows[held[rows]]
    return Cold(
        user,
        data.items[known],
        data.stars[known],
        data.items[tested] - data.sources,
        data.stars[tested],
    )


def _shrunken(cells: RatedCells) -> NDArray[np.float64]:
    counts, total = cells.present.sum(axis=0), cells.stars.sum(axis=0)
    overall = total.sum() / max(counts.sum(), 1)
    return np.asarray((total + _PRIOR * overall) / (counts + _PRIOR))
