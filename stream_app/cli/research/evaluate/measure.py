"""A learner over the sanitized ratings of a file: the command's arguments and output."""

from __future__ import annotations

from typing import NamedTuple

from murmurec.learner_evaluation import Evaluation, Options
from producers.datasets.load import Dataset
from producers.scale import Scale
from stream_app.cli import output
from stream_app.cli.device.mechanism_options import mechanism_from, mechanism_of_id
from stream_app.cli.output import refusing
from stream_app.errors import UsageError, UserError
from stream_app.evaluation import EvaluationResult
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.partition_response import MOST_LEVELS

_MORE = "it needs more ratings, or a larger --epsilon"
CHOICES = ("items", "leaning")


class EvaluationOptions(NamedTuple):
    """The parameters of a measurement besides data and mechanism."""

    protocol: str | None
    model: str
    factors: int
    depth: int
    scope: int | None
    choice: str
    seed: int


def default_family(scale: Scale) -> str:
    """Return the family that learns most from a small epsilon: partition where it has the levels.

    An evaluation always has the public item table that the groups are chosen by.
    """
    return "partition" if scale.levels <= MOST_LEVELS else "rr"


def mechanism_for(name: str, epsilon: str | None, thinning: str | None, scale: Scale) -> Mechanism:
    """Return the mechanism of a family and the other options, or of an id."""
    if ":" not in name:
        return mechanism_from(name, epsilon, scale, thinning)
    return mechanism_of_id(name, epsilon, scale, thinning)


def measured(
    dataset: Dataset, mechanism: Mechanism, options: EvaluationOptions
) -> EvaluationResult:
    """Sanitize the data and measure a new learner on them."""
    if options.choice not in CHOICES:
        raise UsageError(f"--choice {options.choice}: choose {' or '.join(CHOICES)}")
    rare = Options(options.depth, options.scope, options.choice == "leaning")
    with refusing(UsageError, with_dashes):
        run = Evaluation(
            dataset,
            mechanism,
            model=options.model,
            factors=options.factors,
            protocol=options.protocol,
            seed=options.seed,
            options=rare,
        )
    with refusing(UserError), output.progress("learning") as advance:
        return run.measure(advance)


def with_dashes(sentence: str) -> str:
    """Return a sentence about an argument with the argument written as an option."""
    arguments = (*EvaluationOptions._fields, "mode", "k", "split", "epsilon", "messages")
    return f"--{sentence}" if sentence.split()[0] in arguments else sentence


def show(result: EvaluationResult, scale: str) -> None:
    """Print a result as a table."""
    unit = "cells" if result.scope else "ratings"
    speed = (f"{unit} per CPU second", f"{result.events_per_second:,.0f}")
    rows = [*_of_scope(result), *(_of_likes(result) or _of_stars(result, scale)), speed]
    output.table(("", ""), rows, title=f"{result.model}, {result.protocol}, {result.mechanism}")
    if result.log_loss is not None:
        output.say("no stars are reported, so none are predicted; --rank measures the lists")
    if sentence := below_baseline(result):
        output.notice(f"warning: {sentence}")


def below_baseline(result: EvaluationResult) -> str | None:
    """Return a sentence where a model predicts worse than no model of the user; else None."""
    if result.log_loss is not None and result.log_loss_baseline is not None:
        if result.log_loss <= result.log_loss_baseline:
            return None
        return (
            f"the model is below its baseline: the items' true shares predict likes better "
            f"({result.log_loss_baseline:.4f} against {result.log_loss:.4f}); {_MORE}"
        )
    if result.rmse <= result.rmse_baseline:
        return None
    advice = _MORE
    if result.mechanism.startswith("rr:"):
        advice = f"--mechanism partition learns more from the same epsilon; otherwise {_MORE}"
    elif result.epsilon is None:
        advice = "it needs more ratings of each user and item"
    return (
        "the model is below its baseline: the items' true means, without a model of the user, "
        f"predict better ({result.rmse_baseline:.4f} against {result.rmse:.4f}); {advice}"
    )


def _of_scope(result: EvaluationResult) -> list[tuple[str, str]]:
    if not result.scope:
        return []
    likes = result.likes_reported
    sent, published = ("published", result.learned) if likes is None else ("liked", likes)
    return [
        ("public scope", f"the {result.scope:,} most rated items of the file"),
        (f"cells sent / {sent}", f"{result.cells:,} / {published:,}"),
    ]


def _of_likes(result: EvaluationResult) -> list[tuple[str, str]]:
    if result.log_loss is None or result.log_loss_baseline is None:
        return []
    return [
        ("cells tested", f"{result.events:,}"),
        ("log-loss of the liked bit", f"{result.log_loss:.4f} nats a cell"),
        ("the same of the items' true shares", f"{result.log_loss_baseline:.4f}"),
    ]


def _of_stars(result: EvaluationResult, scale: str) -> list[tuple[str, str]]:
    return [
        ("ratings tested", f"{result.events:,}"),
        (f"RMSE ({scale})", f"{result.rmse:.4f}"),
        ("MAE", f"{result.mae:.4f}"),
        ("RMSE of the items' true means", f"{result.rmse_baseline:.4f}"),
    ]
