"""Lists made from the sanitized ratings of a file, for `evaluate --rank`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from murmurec.ranking import RankingEvaluation, RankingOptions
from producers.datasets.load import Dataset, is_timed
from stream_app.cli import output
from stream_app.cli.output import refusing
from stream_app.cli.research.evaluate.measure import CHOICES, EvaluationOptions, with_dashes
from stream_app.errors import UsageError, UserError
from stream_app.evaluation.ranking import FORMS, Mean, NothingToTest, RankingResult, RankingRow
from stream_app.models.factorization.factory import LEARNERS
from stream_app.privacy.mechanism import Mechanism

IN_TIME, IN_NO_TIME = ("global", "visit", "user-time"), ("user-time",)
_COLUMNS = ("nDCG, 95 %", "recall", "hit rate", "coverage", "overlap", "popular")


@dataclass(frozen=True)
class RankingResults:
    """The figures of every split."""

    protocol: str
    splits: tuple[RankingResult, ...]


def measured(
    dataset: Dataset,
    mechanism: Mechanism,
    options: EvaluationOptions,
    k: int,
    split: str | None,
    messages: str | None,
) -> RankingResults:
    """Sanitize and learn the data, measure the lists of each split and print their figures."""
    if options.protocol is not None:
        raise UsageError(
            f"--protocol {options.protocol}: --rank holds out by --split; leave --protocol out"
        )
    if options.model not in LEARNERS:
        raise UsageError(
            f"--model {options.model}: --rank measures the lists of a worker; "
            f"choose {' or '.join(LEARNERS)}"
        )
    if options.choice not in CHOICES:
        raise UsageError(f"--choice {options.choice}: choose {' or '.join(CHOICES)}")
    in_time = is_timed(dataset.timestamps)
    if not in_time:
        output.notice(
            f"{dataset.name}: has no times, so its ratings are ranked in a random order (--seed); "
            "recency says nothing"
        )
    rare = RankingOptions(
        options.factors,
        options.depth,
        options.scope,
        options.choice == "leaning",
        messages=FORMS if messages is None else (messages,),
    )
    splits = (split,) if split else IN_TIME if in_time else IN_NO_TIME
    found: list[RankingResult] = []
    for name in splits:
        try:
            run = RankingEvaluation(
                dataset,
                mechanism,
                k=k,
                split=name,
                model=options.model,
                seed=options.seed,
                options=rare,
            )
        except NothingToTest as nothing:
            output.notice(str(nothing))
            continue
        except ValueError as error:
            raise UsageError(with_dashes(str(error))) from None
        learning = output.progress(f"{name}: learning and ranking")
        with refusing(UserError), learning as advance:
            found.append(run.measure(advance))
        show(found[-1])
    if not found:
        raise UserError(f"{dataset.name}: no list can be measured; take more ratings")
    return RankingResults("ranking", tuple(found))


def show(result: RankingResult) -> None:
    """Print a result as a table, one row for each way to make lists, and which lists of what is
    liked next are below popularity, by more than chance."""
    scope = f", scope {result.scope:,}" if result.scope else ""
    title = (
        f"lists of {result.k}, {result.split}, {result.users:,} users, {result.items:,} items, "
        f"{result.model}, {result.mechanism}{scope}"
    )
    table_of_rows(result.rows, title)
    below = []
    for row in result.rows:
        above = Mean(row.above_popular, row.above_popular_error, result.users)
        if row.method == "next" and above.value + above.half_width < 0:
            sent = f", {row.messages}" if row.messages else ""
            below.append(f"{row.where}, {row.history}{sent} {above}")
    if below:
        output.notice(
            f"warning: {result.split}: below the most popular items (nDCG "
            f"{result.ndcg_popular:.3f}), by the difference on the same users with its 95 % "
            f"interval: {'; '.join(below)}"
        )


def table_of_rows(found: Sequence[RankingRow], title: str) -> None:
    """Print one row for each way to make lists."""
    rows = []
    for row in found:
        figures = (row.recall, row.hit_rate, row.coverage, row.overlap, row.popularity_share)
        shown = ("-" if figure != figure else f"{figure:.3f}" for figure in figures)
        ndcg = str(Mean(row.ndcg, row.ndcg_error, 0))
        rows.append((row.method, row.where, row.history, row.messages or "-", ndcg, *shown))
    output.table(("lists by", "where", "history", "messages", *_COLUMNS), rows, title=title)
