"""The public configuration of a deployment, which is all that the observer is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.accounting.budget_plans import LEAST_DELTA
from stream_app.privacy.mechanism import Mechanism
from stream_app.wire import PARTITIONS

NO_RATING = -1  # of a canary that has rated nothing, whatever number of levels a mechanism has
PERSON_DELTA = 1e-6
MOST_EPOCHS = 4096  # between two turns of an item
PERSON_BUDGET = 20.0  # nats: the default of an account, for the whole person


@dataclass(frozen=True)
class PublicConfiguration:
    """What a deployment states in public.

    mechanisms   the allow-list
    scope        the public list of items, rising keys (n,); None: not given to the observer
    enrolled     pseudonyms that are enrolled and were so before the two newest epochs of the topic
                 (an account emits from the epoch after it enrolled on, and the newest does not
                 count before a twentieth has emitted), where that list is public; None: not given
    canaries     pseudonym -> the level index of every rating that the observer's own device
                 reports, or `NO_RATING`
    budget       epsilon of a whole person in 365 days, in nats, at `delta`
    rounds       how often a cell may be reported
    rotate_every  epochs between two turns of an item; None: not given, the log shows it
    scope_key    decides in which epochs an item has its turn
    alpha        probability with which an honest deployment may be accused
    """

    mechanisms: tuple[Mechanism, ...]
    partitions: int = PARTITIONS
    accept_tests: bool = False
    scope: NDArray[np.uint64] | None = None
    enrolled: frozenset[bytes] | None = None
    canaries: Mapping[bytes, int] = field(default_factory=dict)
    budget: float = PERSON_BUDGET
    delta: float = PERSON_DELTA
    rounds: int = 1
    rotate_every: int | None = None
    scope_key: int = 1
    alpha: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha {self.alpha}: a probability above 0 and below 1")
        if not self.budget > 0:
            raise ValueError(f"budget {self.budget}: a person's epsilon is above 0")
        if not float(LEAST_DELTA) <= self.delta < 1:
            raise ValueError(f"delta {self.delta:g}: give 1e-15 to 1")
        if not 1 <= self.rounds <= 1000:
            raise ValueError(f"rounds {self.rounds}: a cell is reported 1 to 1000 times")
        if self.rotate_every is not None and not 1 <= self.rotate_every <= MOST_EPOCHS:
            raise ValueError(f"rotate every {self.rotate_every}: give 1 to {MOST_EPOCHS} epochs")
