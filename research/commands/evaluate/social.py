"""PrivSR and the models that it is compared with, for `evaluate --model privsr --trust FILE`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from research.privsr import MODELS, SocialOptions, SocialResult, evaluate_social
from research.privsr.measured import BLOCK, CORRECTED, PAPER
from research.privsr.trust import read_trust
from stream_app.cli import output
from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.research.evaluate.measure import EvaluationOptions
from stream_app.errors import UsageError, UserError
from stream_app.evaluation import EvaluationData, TrueRatings

_FEW_FACTORS = 8


def is_social(model: str) -> bool:
    """Return whether the name is that of a social model."""
    return model in MODELS


def refuse(model: str, trust: Path | None, others: Mapping[str, object]) -> None:
    """Raise UsageError for options that a social model does not have, or without its trust."""
    if not is_social(model):
        if trust is not None:
            raise UsageError(f"--trust: is for --model {', '.join(MODELS)}")
        return
    if trust is None:
        raise UsageError(f"--model {model}: needs --trust FILE, who trusts whom")
    for option, value in others.items():
        if value:
            raise UsageError(f"{option}: --model {model} has none; leave it out")


def measured(
    dataset: Dataset, trust: Path, epsilon: str | None, options: EvaluationOptions
) -> SocialResult:
    """Train on a random part of the data and measure the rest."""
    if epsilon is not None and options.model not in (PAPER, CORRECTED):
        raise UsageError(f"--epsilon: --model {options.model} adds no noise; leave it out")
    exact = positive_fraction("--epsilon", epsilon or "2")
    values, links = dataset.scale.values, read_trust(trust)
    truth = TrueRatings(dataset.ratings, float(values[0]), float(values[-1]))
    data = EvaluationData(user_keys(dataset.users), item_keys(dataset.items), truth)
    try:
        wanted = SocialOptions(
            options.model,
            exact,
            options.scope or BLOCK,
            min(options.factors, _FEW_FACTORS),
            options.seed,
        )
        with output.progress("learning") as advance:
            keys = user_keys(links.truster), user_keys(links.trustee)
            return evaluate_social(data, keys, wanted, advance)
    except ValueError as error:
        raise UserError(str(error)) from None


def show(result: SocialResult, scale: str) -> None:
    """Print a result as a table."""
    rows = [
        ("people, items, links of trust", f"{result.people:,}, {result.items:,}, {result.links:,}"),
        ("guarantee", result.guarantee),
        ("ratings tested", f"{result.events:,}"),
        (f"RMSE ({scale})", f"{result.rmse:.4f}"),
        ("MAE", f"{result.mae:.4f}"),
        ("RMSE of the items' true means", f"{result.rmse_baseline:.4f}"),
    ]
    output.table(("", ""), rows, title=f"{result.model}, one-pass, a third of ratings sensitive")
    if result.rmse > result.rmse_baseline:
        output.notice("warning: the items' true means predict better")
