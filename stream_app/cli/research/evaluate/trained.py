"""A trainer with a central guarantee over the true ratings of a file, for `evaluate --model`."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np

from murmurec.evaluation import sizes_of
from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from stream_app.cli import output
from stream_app.cli.research.evaluate.measure import EvaluationOptions
from stream_app.errors import UsageError, UserError
from stream_app.evaluation import EvaluationData, EvaluationResult, TrueRatings
from stream_app.evaluation.trainers import (
    TRAINERS,
    TrainerSpec,
    build_trainer,
    evaluate_trainer,
    learned_events,
)
from stream_app.models.factorization.factory import LEARNERS
from stream_app.privacy.parsing import parse_fraction
from stream_app.privacy.randomness import SeededSource

_SCALARS_BYTES = 128  # an entity: slots are cheap, and entities that share one are predicted alike
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?|[0-9]{1,6}/[0-9]{1,6}")


def is_trainer(model: str) -> bool:
    """Return whether the name is that of a trainer; UsageError for one that is of nothing."""
    known = (*LEARNERS, *TRAINERS, "neighbours")
    if model not in known:
        raise UsageError(
            f"--model {output.printable(model[:40])}: choose one of {', '.join(known)}"
        )
    return model in TRAINERS


def refuse(options: EvaluationOptions, mechanism: str | None, *, rank: bool) -> None:
    """Raise UsageError for options that a trainer does not have."""
    name = f"--model {options.model}"
    if mechanism not in (None, "none"):
        raise UsageError(f"{name}: is given the true ratings; leave --mechanism {mechanism} out")
    if options.protocol not in (None, "one-pass"):
        raise UsageError(f"{name}: is measured one-pass, not {options.protocol}")
    if rank or options.scope is not None:
        raise UsageError(f"{name}: predicts ratings alone; leave --rank and --scope out")


def measured(dataset: Dataset, epsilon: str | None, options: EvaluationOptions) -> EvaluationResult:
    """Train on a random part of the data and measure the rest."""
    users, items = user_keys(dataset.users), item_keys(dataset.items)
    entities = len(np.unique(users)) + len(np.unique(items))
    values = dataset.scale.values
    data = EvaluationData(
        users, items, TrueRatings(dataset.ratings, float(values[0]), float(values[-1]))
    )
    try:
        sizes = sizes_of(entities, options.factors, options.depth, options.seed)
        sizes = replace(sizes, scalars_bytes=_SCALARS_BYTES * entities)
        spec = TrainerSpec(sizes, learned_events(len(users)), _epsilon(epsilon))
        trainer = build_trainer(options.model, spec, SeededSource(options.seed))
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        with output.status("training"):
            return evaluate_trainer(data, trainer, seed=options.seed)
    except ValueError as error:
        raise UserError(str(error)) from None


def _epsilon(written: str | None) -> Fraction | None:
    """Return the epsilon of one event: 2 by default, None for inf."""
    if written == "inf":
        return None
    return parse_fraction(written or "2", _NUMBER, "epsilon", "2, 0.5, 1/2 or inf")
