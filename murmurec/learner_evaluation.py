"""Accuracy of a learner of sanitized ratings: ratings, devices and a learner of the size they need.

The learner sees reports only; the noise comes from a seed, so that a figure can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from murmurec.common import Progress, research
from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from producers.scale import Scale
from stream_app import evaluation
from stream_app.evaluation import EvaluationResult
from stream_app.models.baselines.learners import LEARNERS
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hybrid import SHARED_PART, HybridLearner
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.parsing import parse_fraction
from stream_app.privacy.randomness import SeededSource

DEFAULT_EPSILON = Fraction(2)
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?|[0-9]{1,6}/[0-9]{1,6}")
_CELL_BYTES = 4
_SCOPE = 300
_PRESENCE_BYTES = 4 << 20


@dataclass(frozen=True)
class Options:
    """Options that are rarely changed.

    depth: rows of the sketch. scope: the number of items of the public scope, the most rated ones,
    where presence is protected; 300 or all by default. user_bias: whether a device chooses the
    groups of a partition also by the user's bias, estimated from its own released reports.
    """

    depth: int = 4
    scope: int | None = None
    user_bias: bool = False


class Evaluation:
    """Ratings, the devices that sanitize them, and a new learner of the size that they need.

    The constructor raises ValueError for an argument out of range, `measure` for ratings that are
    too few.
    """

    def __init__(
        self,
        data: Dataset,
        mechanism: Mechanism | str | None,
        *,
        model: str,
        factors: int,
        protocol: str | None,
        seed: int,
        options: Options,
    ) -> None:
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed {seed}: give a number from 0 to 2^63-1")
        if protocol not in (None, *evaluation.PROTOCOLS):
            raise ValueError(f"protocol {protocol}: choose {' or '.join(evaluation.PROTOCOLS)}")
        chosen = mechanism_of(mechanism, data.scale)
        users, items = user_keys(data.users), item_keys(data.items)
        values = data.scale.values
        truth = evaluation.TrueRatings(data.ratings, float(values[0]), float(values[-1]))
        self._events = evaluation.EvaluationData(users, items, truth)
        self._levels, self._mechanism = data.levels, chosen
        self._protocol, self._seed, self._user_bias = protocol, seed, options.user_bias
        self._people, catalogue = len(np.unique(users)), len(np.unique(items))
        self._scope = 0
        if chosen.inputs > chosen.levels:
            self._scope = scope_of(options.scope, catalogue, chosen, protocol)
        self._channels = Channels.from_mechanisms([chosen])
        entities = self._people + (self._scope or catalogue)
        if model == HybridLearner.name:  # a row of its own for each, as by default in a worker
            entities += entities // (SHARED_PART - 1) + 1
        sizes = sizes_of(entities, factors, options.depth, seed)
        build = LEARNERS.get(model) or partial(research("co_rated").build, model)
        self._learner: Learner = build(self._channels, sizes)

    def measure(self, progress: Progress) -> EvaluationResult:
        """Sanitize the ratings, learn them and return the accuracy; call it once."""
        return self._over_scope(progress) if self._scope else self._over_ratings(progress)

    def _over_scope(self, progress: Progress) -> EvaluationResult:
        source = SeededSource(self._seed)
        return evaluation.evaluate_scope(
            self._events,
            evaluation.ScopeDevices(self._levels, self._mechanism, source, self._scope),
            self._learner,
            PresenceRates(self._channels, _PRESENCE_BYTES, self._seed),
            seed=self._seed,
            progress=_counted(progress, self._people * self._scope),
        )

    def _over_ratings(self, progress: Progress) -> EvaluationResult:
        mechanism, source = self._mechanism, SeededSource(self._seed)
        devices: evaluation.Devices
        if mechanism.masks:
            columns = self._channels, self._events.users, self._events.items, self._levels, source
            devices = evaluation.AdaptiveDevices(mechanism, *columns, user_bias=self._user_bias)
        else:
            devices = evaluation.FixedReports(mechanism.release(self._levels, source))
        return evaluation.evaluate(
            self._events,
            devices,
            self._learner,
            protocol=self._protocol or "prequential",
            mechanism=mechanism.id,
            epsilon=None if mechanism.epsilon is None else float(mechanism.epsilon),
            seed=self._seed,
            progress=_counted(progress, len(self._levels)),
        )


def _counted(progress: Progress, total: int) -> Callable[[int], None]:
    """Return a function that takes the events of each step and reports their sum."""
    done = 0

    def add(events: int) -> None:
        nonlocal done
        done += events
        progress(done, total)

    return add


def event_epsilon(given: float | str | Fraction | None) -> Fraction | None:
    """Return the exact epsilon of one event: 2 where none is given, None for inf; ValueError for
    what is none."""
    if given is None:
        return DEFAULT_EPSILON
    text = str(given)
    if text == "inf":
        return None
    return parse_fraction(text, _NUMBER, "epsilon", "2, 0.5, 1/2 or inf")


def sizes_of(entities: int, factors: int, depth: int, seed: int) -> LearnerSpec:
    """Return sizes with as many cells as a dense table, and a vector in each row at least."""
    return LearnerSpec(
        factors=factors,
        depth=depth,
        sketch_bytes=max(entities, depth) * factors * _CELL_BYTES,
        scalars_bytes=max(64, 128 * entities),
        seed=seed,
    )


def mechanism_of(mechanism: Mechanism | str | None, scale: Scale) -> Mechanism:
    """Return a mechanism, of an id or without noise; ValueError where it has other levels."""
    if mechanism is None:
        return registry.mechanism("none", scale.levels, None)
    chosen = registry.parse(mechanism) if isinstance(mechanism, str) else mechanism
    if chosen.levels != scale.levels:
        raise ValueError(f"{chosen.id}: the ratings have {scale.levels} levels ({scale})")
    return chosen


def scope_of(scope: int | None, items: int, mechanism: Mechanism, protocol: str | None) -> int:
    """Return the size of the public scope; ValueError where it cannot be, or for a protocol."""
    if protocol == "prequential":
        raise ValueError(
            f"{mechanism.id}: whole scopes are sent at the end of an epoch, in no order of "
            "ratings; leave the protocol out"
        )
    size = min(_SCOPE, items) if scope is None else scope
    if not 1 <= size <= items:
        raise ValueError(f"scope {size}: the ratings are of {items} items; give 1 to {items}")
    return size
