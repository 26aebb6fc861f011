"""A learner over the sanitized ratings of a file: the command's arguments and output."""

from __future__ import annotations

from typing import NamedTuple

from murmurec.evaluation import Evaluation, Options
from producers.datasets.load import Dataset
from producers.scale import Scale
from stream_app.cli import output
from stream_app.cli.device.mechanism_options import mechanism_from
from stream_app.errors import UsageError, UserError
from stream_app.evaluation import EvaluationResult
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism

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


def mechanism_for(name: str, epsilon: str | None, thinning: str | None, scale: Scale) -> Mechanism:
    """Return the mechanism of a family and the other options, or of an id."""
    if ":" not in name:
        return mechanism_from(name, epsilon, scale, thinning)
    if epsilon is not None or thinning is not None:
        raise UsageError(
            f"--mechanism {name}: the id contains epsilon and thinning; leave --epsilon and "
            "--thinning out"
        )
    try:
        found = registry.parse(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if found.levels != scale.levels:
        raise UsageError(f"{found.id}: the ratings have {scale.levels} levels ({scale})")
    return found


def measured(
    dataset: Dataset, mechanism: Mechanism, options: EvaluationOptions
) -> EvaluationResult:
    """Sanitize the data and measure a new learner on them."""
    if options.choice not in CHOICES:
        raise UsageError(f"--choice {options.choice}: choose {' or '.join(CHOICES)}")
    rare = Options(options.depth, options.scope, options.choice == "leaning")
    try:
        run = Evaluation(
            dataset,
            mechanism,
            model=options.model,
            factors=options.factors,
            protocol=options.protocol,
            seed=options.seed,
            options=rare,
        )
    except ValueError as error:
        raise UsageError(with_dashes(str(error))) from None
    try:
        with output.progress("learning") as advance:
            return run.measure(advance)
    except ValueError as error:
        raise UserError(str(error)) from None


def with_dashes(sentence: str, *more: str) -> str:
    """Return a sentence about an argument with the argument written as an option."""
    arguments = (*EvaluationOptions._fields, *more)
    return f"--{sentence}" if sentence.split()[0] in arguments else sentence


def show(result: EvaluationResult, scale: str) -> None:
    """Print a result as a table."""
    rows = []
    if result.scope:
        rows.append(("public scope", f"the {result.scope:,} most rated items of the file"))
        rows.append(("cells sent / published", f"{result.cells:,} / {result.learned:,}"))
    rows += [
        ("ratings tested", f"{result.events:,}"),
        (f"RMSE ({scale})", f"{result.rmse:.4f}"),
        ("MAE", f"{result.mae:.4f}"),
        ("RMSE of the items' true means", f"{result.rmse_baseline:.4f}"),
        (
            f"{'cells' if result.scope else 'ratings'} per CPU second",
            f"{result.events_per_second:,.0f}",
        ),
    ]
    title = f"{result.model}, {result.protocol}, {result.mechanism}"
    output.table(("", ""), rows, title=title)
