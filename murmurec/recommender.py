"""A recommender in this process: the server's model, trained directly on ratings.

>>> from murmurec import Recommender
>>> ratings = {"user": [1, 1, 2, 2, 3], "item": [10, 11, 10, 12, 11], "rating": [5, 1, 5, 4, 2]}
>>> model = Recommender(model="dense", factors=8).fit(ratings)
>>> [item for item, stars in model.recommend(3, k=2)]
[10, 12]
>>> model.predict([3], [10]).shape
(1,)

With a mechanism (`Recommender("rr:5:2")`) each rating is sanitized before it is learned, as on its
device, so the model is the one that a server would learn; the noise comes from a seed, so that a
figure can be repeated. This process still holds the raw ratings: only a `Device` keeps a rating
from the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from murmurec.common import Progress, progress_lines
from murmurec.learned_lists import LearnedLists
from murmurec.ratings import Ratings, columns_of, ids_of, item_keys, user_keys
from producers.datasets.load import Dataset, is_timed
from producers.scale import Scale
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from stream_app.wire import EPOCH_SECONDS, Visit, is_now

_BATCH = 8192
_LOWEST, _HIGHEST = 1.0, 5.0  # the internal scale of every learner


class Recommender:
    """Matrix factorization learned online, and lists by what goes together.

    Args:
        mechanism: id of a mechanism that protects the value of a rating, `"rr:5:2"`; None learns
            the ratings as they are.
        model: `"hybrid"` (fixed memory, the server's default), `"dense"` (more accurate, grows),
            `"sketch"`, `"literal"` or `"hashing"`.
        factors, depth: length of a latent vector; rows of the sketch.
        sketch_bytes: memory of the vectors.
        scale: minimum, maximum and step of the ratings; None reads it off the first ratings.
        seed: of every hash, the initial vectors and the noise.

    Predictions after n ratings depend on these ratings in their order alone, not on how they were
    cut into calls; lists also on when earlier ones were asked for. Ratings without times that are
    sorted by user are learned in a random order. Raises ValueError for arguments out of range.
    """

    def __init__(
        self,
        mechanism: str | None = None,
        *,
        model: str = "hybrid",
        factors: int = 32,
        depth: int = 4,
        sketch_bytes: int = 1 << 24,
        scale: tuple[float, float, float] | None = None,
        seed: int = 0,
    ) -> None:
        for name, size in (("factors", factors), ("depth", depth), ("sketch_bytes", sketch_bytes)):
            if isinstance(size, bool) or not isinstance(size, int):
                raise ValueError(  # noqa: TRY004 (one error for bad arguments)
                    f"{name} {size!r}: give a whole number from 1 up"
                )
        self.model, self.factors, self.depth = model, factors, depth
        self.sketch_bytes, self.seed = sketch_bytes, seed
        self._mechanism_id = mechanism
        self._given_scale = None if scale is None else Scale(*scale)
        self._scale: Scale | None = None
        # Bad arguments raise now, not at the first fit; the levels are the mechanism's.
        levels = 5 if mechanism is None else registry.parse(mechanism).levels
        self._start(self._given_scale or Scale(1, levels, 1))
        self._scale = self._given_scale

    def fit(self, ratings: Ratings, *, progress: Progress | None = None) -> Self:
        """Reset the model and learn these ratings, in time order where times are given.

        Without times the order of the rows is taken, unless they are sorted by user: then users are
        mixed at random by a fixed seed, or the model would meet one after the other. `progress` is
        called with the ratings learned and their total, every 8,192; by default a line is printed
        on stderr every ten seconds.
        """
        self._scale = self._given_scale
        data = columns_of(ratings, self._scale)  # raises before the model is reset
        self._start(data.scale)
        return self._learn(data, progress)

    def partial_fit(self, ratings: Ratings, *, progress: Progress | None = None) -> Self:
        """Learn more ratings: a data frame, a mapping of columns, a tuple of arrays or a file.

        Rows without times are learned in their order. Raises ValueError for invalid ratings or
        ratings off the scale; nothing is learned then.
        """
        data = columns_of(ratings, self._scale, seed=None)
        if self._scale is None:
            self._start(data.scale)
        return self._learn(data, progress)

    def _learn(self, data: Dataset, progress: Progress | None) -> Self:
        progress = progress or progress_lines("learning")
        users, items = user_keys(data.users), item_keys(data.items)
        reports = self._mechanism.release(data.levels, self._source)
        predicted = np.empty(len(users))
        channels = np.zeros(_BATCH, np.uint16)
        learn = np.ones(_BATCH, np.bool_)
        for first in range(0, len(users), _BATCH):
            part = slice(first, first + _BATCH)
            n = len(users[part])
            update = self._learner.learn_many(
                users[part], items[part], reports[part], channels[:n], learn[:n]
            )
            predicted[part] = update.predicted
            progress(first + n, len(users))
        days = None
        if data.timestamps is not None and is_timed(data.timestamps):
            days = data.timestamps.astype(np.int64) // EPOCH_SECONDS
        rows = self._lists.learned(users, items, reports, predicted, days)
        known, at = np.unique(rows, return_index=True)
        self._items += data.items[at[known >= len(self._items)]].tolist()
        return self

    def predict(
        self, users: Iterable[int | str], items: Iterable[int | str]
    ) -> NDArray[np.float64]:
        """Return the predicted rating of each (user, item), (n,), within the scale."""
        pair = ids_of(_column(users), "user"), ids_of(_column(items), "item")
        if len(pair[0]) != len(pair[1]):
            raise ValueError(f"{len(pair[0])} users and {len(pair[1])} items: give one each")
        if not len(pair[0]):
            return np.empty(0)
        keys = user_keys(pair[0]), item_keys(pair[1])
        return self._on_scale(self._learner.predict_many(*keys))

    def recommend(
        self, user: int | str, k: int = 10, *, exclude_seen: bool = True, for_: Visit = "next"
    ) -> list[tuple[int | str, float]]:
        """Return at most k items, best first, with their predicted ratings.

        The order is that of what goes together among the learned ratings and of popularity, as a
        worker ranks; predicted ratings need not fall along it. What goes together is derived at the
        first call after `fit`, and again when the ratings have grown by a tenth; that takes seconds
        for a million.

        Items that the user has rated are left out, so there may be fewer than k. An unknown user
        gets the popular items. `for_`: what is liked at the "next" visit, or "now", in this one;
        ValueError for another.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"k {k!r}: ask for 1 or more items")
        key = user_keys(ids_of([user], "user"))
        rows = self._lists.best(key[0], k, exclude_seen=exclude_seen, now=is_now(for_))
        items = self._lists.keys[rows]
        stars = self._on_scale(self._learner.predict_many(np.repeat(key, len(items)), items))
        return [(self._items[row], float(s)) for row, s in zip(rows.tolist(), stars, strict=True)]

    def because(self, user: int | str, items: Iterable[int | str]) -> list[int | str | None]:
        """Return for each item the rated one that adds most to its place in the user's list; None
        where none does, as in a list of popular items."""
        wanted = ids_of(_column(items), "item")
        if not len(wanted):
            return []
        rows = self._lists.because(user_keys(ids_of([user], "user"))[0], item_keys(wanted))
        return [self._items[row] if row >= 0 else None for row in rows.tolist()]

    def similar(self, item: int | str, k: int = 10) -> list[int | str]:
        """Return at most k items that go with one, nearest first, for no user; none for an item of
        which too little is known."""
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"k {k!r}: ask for 1 or more items")
        rows = self._lists.near(item_keys(ids_of([item], "item"))[0], k)
        return [self._items[row] for row in rows.tolist()]

    def _start(self, scale: Scale) -> None:
        """Reset the model for ratings on this scale."""
        self._scale = scale
        self._mechanism = _mechanism_of(self._mechanism_id, scale)
        self._source = SeededSource(self.seed)
        channels = Channels.from_mechanisms([self._mechanism])
        self._learner: Learner = build(
            self.model,
            channels,
            LearnerSpec(
                factors=self.factors,
                depth=self.depth,
                sketch_bytes=self.sketch_bytes,
                seed=self.seed,
            ),
        )
        self._items: list[int | str] = []
        self._lists = LearnedLists(channels, self._learner)

    def _on_scale(self, stars: NDArray[np.float64]) -> NDArray[np.float64]:
        values = (self._scale or Scale()).values
        low, high = float(values[0]), float(values[-1])
        return np.asarray(low + (stars - _LOWEST) / (_HIGHEST - _LOWEST) * (high - low))


def _mechanism_of(id: str | None, scale: Scale) -> Mechanism:
    mechanism = (
        registry.parse(id) if id is not None else registry.mechanism("none", scale.levels, None)
    )
    if mechanism.levels != scale.levels:
        raise ValueError(
            f"mechanism {mechanism.id}: has {mechanism.levels} levels, but the scale {scale} has "
            f"{scale.levels}"
        )
    if mechanism.inputs > mechanism.levels or mechanism.masks:
        raise ValueError(
            f"mechanism {mechanism.id}: needs a public scope or item table, which a Recommender "
            "lacks; use rr, or murmurec.evaluate"
        )
    return mechanism


def _column(ids: Iterable[int | str]) -> object:
    return ids if hasattr(ids, "__array__") or isinstance(ids, list | tuple) else list(ids)
