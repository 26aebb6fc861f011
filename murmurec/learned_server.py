"""A server without Kafka: a worker's state that learns sanitized ratings as messages bring them.

    presence public       each rating once, in single, daily or packed messages, in time order
    presence protected    one message a device: its report on every cell of the public scope

The item side is derived, and the weights of the lists are learned, once all messages are. As
in a deployment by default, one rating in twenty is held out of everything; what is tested is
withheld before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.fleet.replay import CHUNK
from stream_app.evaluation import AdaptiveDevices, Devices, FixedReports
from stream_app.evaluation.ranking import messages_of
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import Ingredients, ServedMethod
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import Batch

MESSAGES = 512  # of one rating that are applied together


class CleanRatings(NamedTuple):
    """What the devices hold, in time order: keys of users and items (n,), levels (n,), days since
    1970 (n,)."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    levels: NDArray[np.uint8]
    days: NDArray[np.int64]


class LearnedServer:
    """A replica and the messages of its devices."""

    def __init__(
        self, mechanism: Mechanism, model: str, sizes: LearnerSpec, held_out: float = 0.05
    ) -> None:
        self.mechanism = mechanism
        spec = StateSpec(
            mechanisms=(mechanism,),
            partitions=1,
            model=model,
            factors=sizes.factors,
            depth=sizes.depth,
            sketch_bytes=sizes.sketch_bytes,
            scalars_bytes=sizes.scalars_bytes,
            held_out=held_out,
            seed=sizes.seed,
        )
        self.replica = Replica(spec)
        self.recommender = Recommender(self.replica, Catalogue(), "exact")
        self.learned = 0
        self._offset = 0
        self._seqs: dict[int, int] = {}

    def rate(
        self,
        ratings: CleanRatings,
        source: RandomSource,
        form: str = "single",
        *,
        user_bias: bool = False,
    ) -> Iterator[int]:
        """Learn each rating's report, in messages of this form; yield the number learned after
        every batch."""
        devices = self._devices(ratings, source, user_bias)
        sent = messages_of(form, ratings.users, ratings.items, ratings.days, CHUNK)
        starts = np.concatenate(([0], np.cumsum(sent.counts)))
        first = 0
        while first < len(sent.counts):
            end = np.searchsorted(starts, starts[first] + MESSAGES, "right") - 1
            some = slice(first, max(first + 1, int(end)))
            rows = sent.rows[starts[some.start] : starts[some.stop]]
            reports, masks = devices.report(rows, self.replica.learner)
            users = ratings.users[sent.rows[starts[some]]]
            sizes, days = sent.counts[some], sent.days[some]
            self._apply(users, sizes, days, ratings.items[rows], reports, masks)
            self.learned += len(rows)
            first = some.stop
            if first == len(sent.counts):
                self.derive()
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
        missing = self.mechanism.alphabet - 1
        for first in range(0, total, some):
            people = users[first : first + some]
            reports = self.mechanism.release(cells[first : first + some].reshape(-1), source)
            counts = np.full(len(people), len(scope), np.int64)
            items = np.tile(scope, len(people))
            days, masks = np.zeros(len(people), np.int64), np.zeros(len(items), np.uint16)
            self._apply(people, counts, days, items, reports, masks)
            self.learned += int((reports != missing).sum())
            if first + some >= total:
                self.derive()
            yield (first + len(people)) * len(scope)

    def derive(self) -> None:
        """Derive the item side and serve by it."""
        found, recommender = Ingredients.taken_from(self.replica), self.recommender
        if found is not None:
            served = found.derived()
            recommender.adopt(served)
            recommender.standing = ServedMethod.measured(
                served.derived, public=served.channel is None
            )

    def _devices(self, ratings: CleanRatings, source: RandomSource, user_bias: bool) -> Devices:
        mechanism = self.mechanism
        if mechanism.masks:
            channels = Channels.from_mechanisms([mechanism])
            return AdaptiveDevices(mechanism, channels, *ratings[:3], source, user_bias=user_bias)
        return FixedReports(mechanism.release(ratings.levels, source))

    def _apply(
        self,
        users: NDArray[np.uint64],
        counts: NDArray[np.int64],
        days: NDArray[np.int64],
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
            epochs=days,
            items=items,
            reports=reports,
            masks=masks,
        )
        self._offset += n
        outcome = self.replica.apply(batch)
        self.recommender.mark_stale(outcome.rows)
        # Cuts name no days, as where ratings have no retention: a device keeps its history.
        self.recommender.replaced(self.replica.end_round(self.replica.cut + 1, (self._offset,)))
