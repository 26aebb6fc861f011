"""Which method serves, with what measured quality; a copy, which another thread may make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isnan

from stream_app.ranking.online_choice import LEAST_EVENTS, METHODS, OnlineChoice
from stream_app.ranking.scores import Weights
from stream_app.serving.together.measured import Measured

POPULAR = METHODS[0]


@dataclass(frozen=True)
class Standing:
    """The method that serves, the weights of its blend, and nDCG@10 and HR@10 by method; a method
    without a measurement is missing."""

    method: str = POPULAR
    weights: Weights = field(default_factory=Weights)
    ndcg: Mapping[str, float] = field(default_factory=dict)
    hit_rate: Mapping[str, float] = field(default_factory=dict)

    def with_lists_of(self, method: str, measured: Measured) -> Standing:
        """Return the standing with the measured quality of one more method, once it is known."""
        if measured.events < LEAST_EVENTS:
            return self
        return replace(
            self,
            ndcg={**self.ndcg, method: measured.ndcg},
            hit_rate={**self.hit_rate, method: measured.hit_rate},
        )

    @classmethod
    def of_choice(cls, choice: OnlineChoice) -> Standing:
        """Return the standing after what `choice` has observed."""
        if choice.events < LEAST_EVENTS:  # a few lists are no measurement
            return cls(choice.best, choice.weights)
        ndcg = {name: choice.ndcg(name) for name in METHODS}
        hit_rate = {name: choice.hit_rate(name) for name in METHODS}
        return cls(
            choice.best,
            choice.weights,
            {name: value for name, value in ndcg.items() if not isnan(value)},
            {name: value for name, value in hit_rate.items() if not isnan(value)},
        )
