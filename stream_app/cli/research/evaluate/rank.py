"""Lists made from the sanitized ratings of a file, for `evaluate --rank`."""

from __future__ import annotations

from collections.abc import Sequence

from murmurec.ranking import RankingEvaluation, RankingOptions
from producers.datasets.load import Dataset
from stream_app.cli import output
from stream_app.cli.research.evaluate.measure import CHOICES, EvaluationOptions, with_dashes
from stream_app.errors import UsageError, UserError
from stream_app.evaluation.ranking import RankingResult, RankingRow
from stream_app.models.neighborhood.co_rated import CO_RATED
from stream_app.privacy.mechanism import Mechanism

_COLUMNS = ("nDCG", "recall", "hit rate", "coverage", "overlap", "popular")


def measured(
    dataset: Dataset, mechanism: Mechanism, options: EvaluationOptions, k: int, split: str
) -> RankingResult:
    """Sanitize and learn the data, and measure the lists."""
    if options.protocol is not None:
        raise UsageError(
            f"--protocol {options.protocol}: --rank holds out by --split; leave --protocol out"
        )
    if options.model in CO_RATED:
        raise UsageError(
            f"--model {options.model}: --rank measures its lists beside those of any learner; "
            "leave --model out"
        )
    if options.choice not in CHOICES:
        raise UsageError(f"--choice {options.choice}: choose {' or '.join(CHOICES)}")
    rare = RankingOptions(
        options.factors, options.depth, options.scope, options.choice == "leaning"
    )
    if dataset.timestamps is None:
        output.notice(
            f"{dataset.name}: has no times, so its ratings are ranked in a random order (--seed); "
            "recency says nothing"
        )
    try:
        run = RankingEvaluation(
            dataset,
            mechanism,
            k=k,
            split=split,
            model=options.model,
            seed=options.seed,
            options=rare,
        )
    except ValueError as error:
        raise UsageError(with_dashes(str(error), "k", "split")) from None
    try:
        with output.progress("learning and ranking") as advance:
            return run.measure(advance)
    except ValueError as error:
        raise UserError(str(error)) from None


def show(result: RankingResult) -> None:
    """Print a result as a table, one row for each way to make lists."""
    scope = f", scope {result.scope:,}" if result.scope else ""
    title = (
        f"lists of {result.k}, {result.split}, {result.users:,} users, {result.items:,} items, "
        f"{result.model}, {result.mechanism}{scope}"
    )
    table_of_rows(result.rows, title)
    output.notice(f"by what it measures on this stream, a server serves {result.serving}")
    if result.ndcg < result.ndcg_popular:
        output.notice(
            f"warning: the device's lists are below the most popular items (nDCG {result.ndcg:.3f} "
            f"against {result.ndcg_popular:.3f}): too few ratings, or too small "
            + ("an --epsilon or --scope" if result.scope else "an --epsilon")
        )


def table_of_rows(found: Sequence[RankingRow], title: str) -> None:
    """Print one row for each way to make lists."""
    rows = []
    for row in found:
        figures = (
            row.ndcg, row.recall, row.hit_rate, row.coverage, row.overlap, row.popularity_share
        )  # fmt: skip
        shown = ("-" if figure != figure else f"{figure:.3f}" for figure in figures)
        rows.append((row.method, row.where, row.history, *shown))
    output.table(("lists by", "where", "history", *_COLUMNS), rows, title=title)
