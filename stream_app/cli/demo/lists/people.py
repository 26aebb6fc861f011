"""The people of a demo as only a demo knows them: what they like, and how lists fit that.

likes     a generated person's genres, the favourite first; of a file the two genres that are most
          above everybody's in what the person likes, of the ratings that devices have
fit       mean share of a list that is in a genre that the person likes
shown     two people with different favourites: of the third nearest to the median nDCG, those
          nearest to the mean fit
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from murmurec.ratings import item_keys, user_keys
from producers.datasets.columns import Description
from producers.datasets.load import Dataset
from producers.ranking.ranker import LIKED_STARS
from stream_app.wire import Item, parse_item

Lists = Mapping[int, Sequence[int]]
"""Keys of items, best first, by the key of a user."""

_LEAST_LIKES, _MOST_GENRES = 5, 2
_MIDDLING = 3  # of three users one is


@dataclass(frozen=True, eq=False)
class People:
    """The ratings that devices have, and for a generated world the genres that people lean to, by
    user."""

    published: Dataset
    favourites: Mapping[int, tuple[str, ...]]
    _likes: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def users(self) -> NDArray[np.uint64]:
        """The key of the user of each row, (n,)."""
        return user_keys(self.published.users)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """The key of the item of each row, (n,)."""
        return item_keys(self.published.items)

    @cached_property
    def stars(self) -> NDArray[np.float64]:
        """Each rating on 1 .. 5, (n,)."""
        return 1 + 4 * self.published.levels / (self.published.scale.levels - 1)

    @cached_property
    def items(self) -> dict[int, Item]:
        """The id of each item by its key."""
        names, first = np.unique(self.published.items, return_index=True)
        return dict(zip(self.keys[first].tolist(), names.tolist(), strict=True))

    @cached_property
    def _planted(self) -> dict[int, tuple[str, ...]]:
        names = np.array(list(self.favourites), np.int64)
        return dict(zip(user_keys(names).tolist(), self.favourites.values(), strict=True))

    @cached_property
    def _common(self) -> Counter[str]:
        """How often likes are of each genre, of all people."""
        rows = np.flatnonzero(self.stars >= LIKED_STARS)
        items, counts = np.unique(self.keys[rows], return_counts=True)
        found: Counter[str] = Counter()
        for item, count in zip(items.tolist(), counts.tolist(), strict=True):
            found.update(dict.fromkeys(self.about(item).genres, count))
        return found

    def about(self, item: int) -> Description:
        """Return what is public of an item."""
        name = str(self.items[item])
        return (self.published.described or {}).get(parse_item(name)) or Description(name)

    def rated(self, user: int) -> list[tuple[int, float]]:
        """Return items and stars of a user, the best rated first."""
        rows = np.flatnonzero(self.users == np.uint64(user))
        rows = rows[np.argsort(-self.stars[rows], kind="stable")]
        return list(zip(self.keys[rows].tolist(), self.stars[rows].tolist(), strict=True))

    def typical(self, user: int) -> list[tuple[int, float]]:
        """Return items and stars of a user, those of liked genres first, and the best first."""
        return sorted(self.rated(user), key=lambda pair: (not self.fits(user, pair[0]), -pair[1]))

    def likes(self, user: int) -> tuple[str, ...]:
        """Return the genres that a user likes; none where they are not known."""
        if user not in self._likes:
            self._likes[user] = (
                self._planted.get(user, ()) if self.favourites else self._leaning(user)
            )
        return self._likes[user]

    def _leaning(self, user: int) -> tuple[str, ...]:
        liked = [item for item, stars in self.rated(user) if stars >= LIKED_STARS]
        own = Counter(genre for item in liked for genre in self.about(item).genres)
        if len(liked) < _LEAST_LIKES or not own:
            return ()
        total, all_own = self._common.total(), own.total()
        lead = {genre: own[genre] / all_own - self._common[genre] / total for genre in own}
        best = sorted(lead, key=lambda genre: (-lead[genre], genre))[:_MOST_GENRES]
        return tuple(genre for genre in best if lead[genre] > 0)

    def fits(self, user: int, item: int) -> bool:
        """Return whether an item is of a genre that a user likes."""
        return not set(self.likes(user)).isdisjoint(self.about(item).genres)

    def fit(self, lists: Lists) -> dict[int, float]:
        """Return the share of each list in liked genres, of users whose likes are known."""
        return {
            user: float(np.mean([self.fits(user, item) for item in items]))
            for user, items in lists.items()
            if items and self.likes(user)
        }

    def shown(self, gains: Mapping[int, float], fit: Mapping[int, float]) -> list[int]:
        """Return two users with different favourites, of the third whose nDCG is nearest the
        median, those whose lists hold about the mean share of liked genres; fewer where there are
        not two. gains: nDCG by user; NaN without a list."""
        users = [user for user, gain in gains.items() if not np.isnan(gain)]
        if not users:
            return []
        middle = float(np.median([gains[user] for user in users]))
        users.sort(key=lambda each: abs(gains[each] - middle))
        users = users[: max(2, len(users) // _MIDDLING)]
        usual = float(np.mean(list(fit.values()) or [0.0]))
        users.sort(key=lambda each: abs(fit.get(each, 0.0) - usual))  # stable
        first, *others = users
        likes = self.likes(first)[:1]
        second = next((each for each in others if self.likes(each)[:1] != likes), None)
        return [first, *([second] if second is not None else others[:1])]
