"""Evaluation on single ratings: prequential, or one pass over a random part of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation import results
from stream_app.evaluation.devices import Devices
from stream_app.models.factorization.learner import Learner

Protocol = Literal["prequential", "one-pass"]
PROTOCOLS: tuple[Protocol, ...] = ("prequential", "one-pass")
_FIRST_BATCH, _BATCH = 256, 8192  # devices may choose by what was learned: small batches at first


def evaluate(
    data: results.EvaluationData,
    devices: Devices,
    learner: Learner,
    *,
    protocol: str = "prequential",
    mechanism: str = "none",
    epsilon: float | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda events: None,  # noqa: ARG005 (a silent default)
) -> results.EvaluationResult:
    """Return the errors of a fresh `learner`; its channels are those of the devices.

    `progress` is called with the number of events just completed.
    """
    users, items, truth = data
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol!r}: choose one of {', '.join(PROTOCOLS)}")
    lengths = {len(users), len(items), len(truth.ratings)}
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows: all must have one length")
    if len(users) < 10:
        raise ValueError(f"{len(users)} ratings: at least 10 are needed to evaluate")
    ratings, everything = truth.ratings, np.arange(len(users))
    if protocol == "prequential":
        learned = tested = everything
        predicted, seconds = _learn(learner, data, devices, everything, progress)
        baseline = results.running_item_means(items, ratings, (truth.lowest + truth.highest) / 2)
    else:
        learned, _, tested = results.split(len(users), seed)
        _, seconds = _learn(learner, data, devices, learned, progress)
        predicted = learner.predict_many(users[tested], items[tested])
        baseline = results.item_means(items[learned], ratings[learned], items[tested])
    errors = truth.errors(predicted, tested)
    return results.EvaluationResult(
        protocol=protocol,
        model=learner.name,
        mechanism=mechanism,
        epsilon=epsilon,
        events=len(tested),
        rmse=results.rms(errors),
        mae=float(np.abs(errors).mean()),
        rmse_baseline=results.rms(baseline - ratings[tested]),
        events_per_second=len(learned) / max(seconds, 1e-9),
        learned=len(learned),
        rmse_parts=(
            results.rms_of_parts(errors, results.PARTS) if protocol == "prequential" else ()
        ),
    )


def _learn(
    learner: Learner,
    data: results.EvaluationData,
    devices: Devices,
    rows: NDArray[np.int64],
    progress: Callable[[int], None],
) -> tuple[NDArray[np.float64], float]:
    """Learn `rows` in their order; return the predictions made before learning, and process
    seconds.
    """
    users, items, _ = data
    all_of_them = np.ones(_BATCH, np.bool_)
    predicted, seconds = np.empty(len(rows)), 0.0
    # Compile the kernels before timing; an event that is not learned changes nothing.
    learner.predict_many(users[:1], items[:1])
    first = 0
    while first < len(rows):
        part = rows[first : first + min(max(first, _FIRST_BATCH), _BATCH)]
        columns = users[part], items[part], *devices.report(part, learner)
        began = time.process_time()
        update = learner.learn_many(*columns, all_of_them[: len(part)])
        seconds += time.process_time() - began
        predicted[first : first + len(part)] = update.predicted
        first += len(part)
        progress(len(part))
    return predicted, seconds
