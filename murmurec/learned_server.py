"""A server without Kafka: a worker's state that learns sanitized ratings as messages bring them.

    presence public       one rating a message, in the order of the ratings
    presence protected    one message a device: its report on every cell of the public scope

The item side is derived at every tenth of the messages, and a few ratings of each batch are ranked
by every method before they are learned, as a worker does it beside its stream. Nothing is held out
by the replica; what is tested is withheld before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation import AdaptiveDevices, Devices, FixedReports
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource
from stream_app.ranking.online_choice import OnlineChoice, start_of
from stream_app.serving import list_samples, message_samples
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ingredients import Ingredients
from stream_app.serving.recommender import Recommender
from stream_app.serving.standing import Standing
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import Batch

MESSAGES = 512  # applied together
DERIVATIONS = 10
SAMPLES = 8_000  # ratings of the whole stream that are ranked before they are learned


class CleanRatings(NamedTuple):
    """What the devices hold, in time order: keys of users and items (n,), levels (n,)."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    levels: NDArray[np.uint8]


class LearnedServer:
    """A replica and the messages of its devices."""

    def __init__(self, mechanism: Mechanism, model: str, sizes: LearnerSpec) -> None:
        self.mechanism = mechanism
        spec = StateSpec(
            mechanisms=(mechanism,),
            partitions=1,
            model=model,
            factors=sizes.factors,
            depth=sizes.depth,
            sketch_bytes=sizes.sketch_bytes,
            scalars_bytes=sizes.scalars_bytes,
            held_out=0.0,
            seed=sizes.seed,
        )
        self.replica = Replica(spec)
        self.recommender = Recommender(self.replica, Catalogue(), "exact")
        self.choices = [OnlineChoice()]
        self._samples = 0
        self.learned = 0
        self._offset = 0
        self._seqs: dict[int, int] = {}

    def rate(
        self,
        ratings: CleanRatings,
        source: RandomSource,
        *,
        user_bias: bool = False,
    ) -> Iterator[int]:
        """Learn each rating's report; yield the number learned after every batch."""
        devices, total = self._devices(ratings, source, user_bias), len(ratings.users)
        size = max(1, min(MESSAGES, -(-total // (2 * DERIVATIONS))))
        self._samples = -(-SAMPLES * size // total)
        for first in range(0, total, size):
            rows = np.arange(first, min(first + size, total))
            reports, masks = devices.report(rows, self.replica.learner)
            counts = np.ones(len(rows), np.int64)
            users, items = ratings.users[rows], ratings.items[rows]
            self._apply(users, counts, items, reports, masks)
            self.learned += len(rows)
            self._derive_at_tenths(first, self.learned, total)
            yield self.learned

    def send_cells(
        self,
        users: NDArray[np.uint64],
        scope: NDArray[np.uint64],
        cells: NDArray[np.uint8],
        source: RandomSource,
    ) -> Iterator[int]:
        """Learn one message of each user (u,) on the scope (s,): inputs `cells` (u, s) of the
        mechanism; yield the cells done after every batch."""
        some, total = max(1, 2 * MESSAGES // max(len(scope), 1)), len(users)
        self._samples = -(-SAMPLES * some // total)
        missing = self.mechanism.alphabet - 1
        for first in range(0, total, some):
            people = users[first : first + some]
            reports = self.mechanism.release(cells[first : first + some].reshape(-1), source)
            counts = np.full(len(people), len(scope), np.int64)
            items = np.tile(scope, len(people))
            self._apply(people, counts, items, reports, np.zeros(len(items), np.uint16))
            self.learned += int((reports != missing).sum())
            self._derive_at_tenths(first, first + len(people), total)
            yield (first + len(people)) * len(scope)

    def _derive_at_tenths(self, before: int, done: int, total: int) -> None:
        if done * DERIVATIONS // total > before * DERIVATIONS // total:
            self.derive()

    def derive(self) -> None:
        """Derive the item side and serve by what was measured."""
        found = Ingredients.taken_from(self.replica)
        if found is not None:
            recommender, seed = self.recommender, self.replica.spec.seed
            recommender.adopt(
                found.derived(recommender.side, "exact", 256, seed, recommender.level)
            )
        self.choices[0].start = start_of(self.recommender.side)
        self.recommender.standing = Standing.of_choice(self.choices[0])

    def _devices(self, ratings: CleanRatings, source: RandomSource, user_bias: bool) -> Devices:
        mechanism = self.mechanism
        if mechanism.masks:
            channels = Channels.from_mechanisms([mechanism])
            return AdaptiveDevices(mechanism, channels, *ratings, source, user_bias=user_bias)
        return FixedReports(mechanism.release(ratings.levels, source))

    def _apply(
        self,
        users: NDArray[np.uint64],
        counts: NDArray[np.int64],
        items: NDArray[np.uint64],
        reports: NDArray[np.uint8],
        masks: NDArray[np.uint16],
    ) -> None:
        n = len(users)
        seqs = np.empty(n, np.int64)
        for row, user in enumerate(users.tolist()):
            seqs[row] = self._seqs[user] = self._seqs.get(user, 0) + 1
        zeros = np.zeros(n, np.uint8)
        batch = Batch(
            partition=0,
            offsets=self._offset + np.arange(n, dtype=np.int64),
            sizes=np.zeros(n, np.int64),
            devices=np.stack((users, np.zeros(n, np.uint64)), axis=1),
            seqs=seqs,
            mechanisms=zeros,
            counts=counts,
            reasons=zeros,
            epochs=np.zeros(n, np.int64),
            items=items,
            reports=reports,
            masks=masks,
        )
        self._offset += n
        served, most = self.recommender.served, self._samples
        pending = list_samples.before(self.recommender, served, batch, most) if served else []
        messages = message_samples.before(self.recommender, served, batch, most) if served else []
        outcome = self.replica.apply(batch)
        self.recommender.mark_stale(outcome.rows)
        self.recommender.replaced(self.replica.end_round(self.replica.cut + 1, (self._offset,)))
        for choice in self.choices:
            for sample in list_samples.after(self.recommender, pending):
                sample.score(choice)
            for message in message_samples.after(messages, outcome):
                message.score(choice)
