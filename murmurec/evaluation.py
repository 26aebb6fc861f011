"""How well a model predicts ratings that were sanitized: one function over every protocol.

>>> from murmurec import evaluate
>>> users = [user for user in range(40) for _ in range(10)]
>>> items = [(3 * user + k) % 25 for user in range(40) for k in range(10)]
>>> ratings = [1 + (user + item) % 5 for user, item in zip(users, items)]
>>> result = evaluate((users, items, ratings), "rr:5:2", model="dense", factors=8)
>>> result.protocol, result.events, result.mechanism
('prequential', 400, 'rr:5:2')
>>> result.rmse < 2.5
True

The learner sees reports only; RMSE and MAE compare its predictions with the true ratings, in the
data's own units. The noise comes from a seed, so that a figure can be repeated; nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from murmurec.ratings import Ratings, columns_of, keys_of
from producers.datasets.load import Dataset
from producers.scale import Scale
from stream_app import evaluation
from stream_app.evaluation import EvaluationResult
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource

_CELL_BYTES = 4
_SCOPE = 300
_PRESENCE_BYTES = 4 << 20


@dataclass(frozen=True)
class Options:
    """What is rarely changed.

    depth: rows of the sketch. scope: the number of items of the public scope, the most rated ones,
    where presence is protected; 300 or all by default. user_bias: whether a device chooses the
    groups of a partition also by what its own released reports say of the user.
    """

    depth: int = 4
    scope: int | None = None
    user_bias: bool = False


def evaluate(
    ratings: Ratings,
    mechanism: Mechanism | str | None = None,
    *,
    model: str = "sketch",
    factors: int = 32,
    protocol: str | None = None,
    seed: int = 0,
    options: Options = Options(),
    progress: Callable[[int], None] = lambda events: None,  # noqa: ARG005 (a silent default)
) -> EvaluationResult:
    """Sanitize ratings with a mechanism, learn them, and return how well that predicts.

    Args:
        ratings: a data frame, a mapping of columns, a tuple of arrays or a file, on the smallest
            usual scale that holds them; a `Dataset` on its own scale (`murmurec.ratings`).
        mechanism: a mechanism or its id; None learns the ratings as they are.
        model: name of a learner: `"sketch"`, `"dense"`, `"literal"`, `"hashing"`.
        factors: components of a latent vector.
        protocol: `"prequential"` (time order, test then learn; the default) or `"one-pass"` (random
            80/10/10 split). A mechanism that protects presence is always measured in one pass over
            a public scope of items.
        seed: of the noise, the split and the hashes.
        progress: gets the number of events after every batch.

    A sketch has as many cells as a dense table of these users and items (gamma = 1). Raises
    ValueError for arguments out of range or ratings that are none.
    """
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed {seed}: give a number from 0 to 2^63-1")
    data = columns_of(ratings, None)
    chosen = _mechanism_of(mechanism, data.scale)
    users, items = keys_of(data.users), keys_of(data.items)
    catalogue = len(np.unique(items))
    hides = chosen.inputs > chosen.levels
    scope = _scope_of(options.scope, catalogue, chosen, protocol) if hides else 0
    channels = Channels.from_mechanisms([chosen])
    entities = len(np.unique(users)) + (scope or catalogue)
    learner = build(model, channels, _sizes(entities, factors, options.depth, seed))
    events = evaluation.EvaluationData(users, items, _truth(data))
    source = SeededSource(seed)
    if hides:
        presence = PresenceRates(channels, _PRESENCE_BYTES, seed)
        cells = evaluation.ScopeDevices(data.levels, chosen, source, scope)
        return evaluation.evaluate_scope(
            events, cells, learner, presence, seed=seed, progress=progress
        )
    devices: evaluation.Devices
    if chosen.masks:
        asked = chosen, channels, users, items, data.levels, source
        devices = evaluation.AdaptiveDevices(*asked, user_bias=options.user_bias)
    else:
        devices = evaluation.FixedReports(chosen.release(data.levels, source))
    return evaluation.evaluate(
        events,
        devices,
        learner,
        protocol=protocol or "prequential",
        mechanism=chosen.id,
        epsilon=None if chosen.epsilon is None else float(chosen.epsilon),
        seed=seed,
        progress=progress,
    )


def _sizes(entities: int, factors: int, depth: int, seed: int) -> LearnerSpec:
    """Return sizes with as many cells as a dense table, and a vector in each row at least."""
    return LearnerSpec(
        factors=factors,
        depth=depth,
        sketch_bytes=max(entities, depth) * factors * _CELL_BYTES,
        scalars_bytes=max(64, 64 * entities),
        seed=seed,
    )


def _truth(data: Dataset) -> evaluation.TrueRatings:
    values = data.scale.values
    return evaluation.TrueRatings(data.ratings, float(values[0]), float(values[-1]))


def _mechanism_of(mechanism: Mechanism | str | None, scale: Scale) -> Mechanism:
    if mechanism is None:
        return registry.mechanism("none", scale.levels, None)
    chosen = registry.parse(mechanism) if isinstance(mechanism, str) else mechanism
    if chosen.levels != scale.levels:
        raise ValueError(f"{chosen.id}: the ratings have {scale.levels} levels ({scale})")
    return chosen


def _scope_of(scope: int | None, items: int, mechanism: Mechanism, protocol: str | None) -> int:
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
