"""A trainer with a central guarantee over the true ratings of a file, for `evaluate --model`."""

from __future__ import annotations

from murmurec.learner_evaluation import event_epsilon
from producers.datasets.load import Dataset
from research.co_rated import CO_RATED
from research.privsr import MODELS
from research.trainers import TRAINERS
from research.trainers import measured as trainers
from stream_app.cli import output
from stream_app.cli.research.evaluate.measure import EvaluationOptions
from stream_app.errors import UsageError, UserError
from stream_app.evaluation import EvaluationResult
from stream_app.models.baselines.learners import LEARNERS


def is_trainer(model: str) -> bool:
    """Return whether the name is that of a trainer; UsageError for one that is of nothing."""
    known = (*LEARNERS, *CO_RATED, *TRAINERS, *MODELS, "neighbours")
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
    try:
        exact = event_epsilon(epsilon)
        chosen = trainers.TrainerOptions(
            options.model, exact, options.factors, options.depth, options.seed
        )
        run = trainers.TrainerEvaluation(dataset, chosen)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        with output.status("training"):
            return run.measure()
    except ValueError as error:
        raise UserError(str(error)) from None
