"""The measurements behind the figure of the trade-off, on one file of ratings.

    accuracy   test RMSE of one pass under each family and epsilon, reports decoded through the
               exact channel; `naive` takes the report of `rr` for the rating. Where presence is
               protected: over the public scope, with few factors
    references item means of the true ratings, and the learner without any noise
    volume     cells that one user publishes: real and fake ones, over the whole catalogue
    sigma      noise of a projected profile: the paper's Lemma 2 and the analytic Gaussian

Noise comes from a seed; nothing is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from stream_app import evaluation
from stream_app.errors import UsageError
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import LEARNERS, build
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.exact.gaussian_calibration import analytic_variance, lemma_variance
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.identity import Identity

NAIVE = "naive"  # the reports of `rr`, read as ratings
BY_VALUE = (NAIVE, *registry.families(Adjacency.VALUE))
BY_CELL = registry.families(Adjacency.CELL)
BY_LIKE = tuple(f for f in BY_CELL if "value" in registry.family_class(f).no_estimate)  # no stars
DELTA = Fraction(1, 1_000_000)
_CELL_BYTES = 4
_PRESENCE_BYTES = 4 << 20
_FEW_FACTORS = 8


@dataclass(frozen=True)
class TradeoffOptions:
    """The parameters of a measurement."""

    epsilons: tuple[Fraction, ...]
    model: str = "dense"
    factors: int = 32
    scope: int = 300
    seed: int = 0

    @property
    def runs(self) -> int:
        """The number of passes of a learner over the data."""
        return 1 + len(self.epsilons) * len(BY_VALUE + BY_CELL)


def measure(
    dataset: Dataset, options: TradeoffOptions, advance: Callable[[], None]
) -> dict[str, Any]:
    """Return the data of the figure; `advance` is called after each of `options.runs`."""
    data = _Data(dataset, options)
    clean = data.by_value("none", None)
    advance()
    accuracy, likes, scoped = [], [], float("nan")
    for family in (*BY_VALUE, *BY_CELL):
        for epsilon in options.epsilons:
            run = data.by_cell if family in BY_CELL else data.by_value
            result = run(family, epsilon)
            if family in BY_LIKE:
                likes.append(_row_of_likes(family, epsilon, options, result))
            else:
                scoped = result.rmse_baseline if family in BY_CELL else scoped
                accuracy.append(_row(family, epsilon, options, result))
            advance()
    return {
        "data": dataset.name,
        "scale": str(dataset.scale),
        "ratings": len(dataset),
        "users": data.people,
        "items": data.catalogue,
        "ratings_per_user": len(dataset) / data.people,
        "scope": data.scope,
        "model": options.model,
        "seed": options.seed,
        "accuracy": accuracy,
        "likes": likes,
        "references": {
            "item_means": {"all items": clean.rmse_baseline, f"{data.scope} items": scoped},
            "clean": {"all items": clean.rmse},
        },
        "volume": list(_volume(data, options.epsilons)),
        "delta": float(DELTA),
        "sigma": list(_sigma(options.epsilons)),
    }


class _Data:
    """A data set as the columns of a learner's input."""

    def __init__(self, dataset: Dataset, options: TradeoffOptions) -> None:
        ordered = dataset.in_time_order(options.seed)
        values = dataset.scale.values
        self.options = options
        self.users, self.items = user_keys(ordered.users), item_keys(ordered.items)
        self.levels: NDArray[np.uint8] = ordered.levels
        truth = evaluation.TrueRatings(ordered.ratings, float(values[0]), float(values[-1]))
        self.events = evaluation.EvaluationData(self.users, self.items, truth)
        self.step = len(values)
        self.people, self.catalogue = len(np.unique(self.users)), len(np.unique(self.items))
        self.scope = min(options.scope, self.catalogue)

    def by_value(self, family: str, epsilon: Fraction | None) -> evaluation.EvaluationResult:
        """Return one pass over all ratings; `naive` reads the reports of `rr` as ratings."""
        released_by = "rr" if family == NAIVE else family
        mechanism = registry.mechanism(released_by, self.step, epsilon)
        source = SeededSource(self.options.seed)
        channels = Channels.from_mechanisms([Identity(self.step) if family == NAIVE else mechanism])
        devices: evaluation.Devices
        if mechanism.masks:
            columns = self.users, self.items, self.levels
            devices = evaluation.AdaptiveDevices(mechanism, channels, *columns, source)
        else:
            devices = evaluation.FixedReports(mechanism.release(self.levels, source))
        learner = self._learner(channels, self.options.factors)
        return evaluation.evaluate(
            self.events, devices, learner,
            protocol="one-pass", mechanism=mechanism.id, seed=self.options.seed,
        )  # fmt: skip

    def by_cell(self, family: str, epsilon: Fraction) -> evaluation.EvaluationResult:
        """Return one pass over every cell of the public scope."""
        mechanism: Mechanism = registry.mechanism(family, self.step, epsilon)
        channels, seed = Channels.from_mechanisms([mechanism]), self.options.seed
        learner = self._learner(channels, min(_FEW_FACTORS, self.options.factors))
        presence = PresenceRates(channels, _PRESENCE_BYTES, seed)
        return evaluation.evaluate_scope(
            self.events,
            evaluation.ScopeDevices(self.levels, mechanism, SeededSource(seed), self.scope),
            learner, presence, seed=seed,
        )  # fmt: skip

    def _learner(self, channels: Channels, factors: int) -> Learner:
        entities = self.people + self.catalogue
        return build(
            self.options.model,
            channels,
            LearnerSpec(
                factors=factors,
                sketch_bytes=entities * factors * _CELL_BYTES,
                scalars_bytes=max(64, 64 * entities),
                seed=self.options.seed,
            ),
        )


def _row(
    family: str, epsilon: Fraction, options: TradeoffOptions, result: evaluation.EvaluationResult
) -> dict[str, Any]:
    adjacency = "cell" if family in BY_CELL else "value"
    return {
        "family": family,
        "mechanism": result.mechanism,
        "adjacency": adjacency,
        "epsilon": float(epsilon),
        "rmse": result.rmse,
        "rmse_item_means": result.rmse_baseline,
        "tested": result.events,
        "scope": result.scope,
        "factors": min(_FEW_FACTORS, options.factors) if family in BY_CELL else options.factors,
    }


def _row_of_likes(
    family: str, epsilon: Fraction, options: TradeoffOptions, result: evaluation.EvaluationResult
) -> dict[str, Any]:
    return {
        "family": family,
        "mechanism": result.mechanism,
        "epsilon": float(epsilon),
        "log_loss": result.log_loss,
        "log_loss_item_shares": result.log_loss_baseline,
        "cells": result.cells,
        "scope": result.scope,
        "factors": min(_FEW_FACTORS, options.factors),
    }


def _volume(data: _Data, epsilons: Sequence[Fraction]) -> Iterator[dict[str, Any]]:
    """Yield the expected number of cells of a user of mean activity, from the exact channels."""
    rated = len(data.levels) / data.people
    shares = np.bincount(data.levels, minlength=data.step) / len(data.levels)
    for family in BY_CELL:
        for epsilon in epsilons:
            mechanism = registry.mechanism(family, data.step, epsilon)
            published = 1 - mechanism.likelihood()[mechanism.alphabet - 1]
            real, fake = float(published[: data.step] @ shares), float(published[data.step])
            yield {
                "family": family,
                "epsilon": float(epsilon),
                "real": rated * real,
                "fake": (data.catalogue - rated) * fake,
            }


def _sigma(epsilons: Sequence[Fraction]) -> Iterator[dict[str, float]]:
    """Yield the noise of both calibrations at a sensitivity of 1."""
    for epsilon in epsilons:
        yield {
            "epsilon": float(epsilon),
            "paper": float(lemma_variance(epsilon, DELTA)) ** 0.5,
            "analytic": float(analytic_variance(epsilon, DELTA)) ** 0.5,
        }


def check_sizes(model: str, factors: int, scope: int, seed: int) -> None:
    """Raise UsageError for a parameter of either figure that is out of range."""
    if model not in LEARNERS:
        raise UsageError(f"--model {model[:40]}: choose one of {', '.join(LEARNERS)}")
    if not 1 <= factors <= 256:
        raise UsageError(f"--factors {factors}: 1 to 256")
    if scope < 1:
        raise UsageError(f"--scope {scope}: at least 1 item")
    if not 0 <= seed < 2**63:
        raise UsageError(f"--seed {seed}: give a number from 0 to 2^63-1")
