"""Item means with user biases: the smallest learner that is worth something.

    b_u += e / (n_u + 5),   b_i += e / (n_i + 5)      over the n ratings learned of each

Biases and counts lie in one hashed table a side; entities that share a slot share a bias.
"""

from __future__ import annotations

import numpy as np

from research.simple_learner import Entity, SimpleLearner
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.models.seeds import ITEMS, USERS


class ItemMeans(SimpleLearner):
    name = "item-means"

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        super().__init__(channels, spec)
        self._slots = max(1, spec.scalars_bytes // 32)
        self._table = self.keep("table", np.zeros((2, self._slots, 2)))  # side, slot: bias, count

    def user(self, key: int) -> Entity:
        return self.zero, self._table[0, self.slot(key, USERS, self._slots), 0]

    def item(self, key: int) -> Entity:
        return self.zero, self._table[1, self.slot(key, ITEMS, self._slots), 0]

    def learn_one(self, user: int, item: int, error: float) -> None:
        for side, use, key in ((0, USERS, user), (1, ITEMS, item)):
            entry = self._table[side, self.slot(key, use, self._slots)]
            entry[1] += 1
            entry[0] += error / (entry[1] + 5)
