"""`murmurec evaluate`: sanitize and learn a file of ratings here, and measure the predictions.

measure    a learner over ratings
rank       lists of items
campaign   what noisy sums of whole people are good for

Trainers and social models are measured by `research.commands.evaluate`.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stream_app.cli.commands import option
from stream_app.cli.device import mechanism_options
from stream_app.cli.options import writable
from stream_app.cli.output import notice
from stream_app.errors import UsageError, UserError


def evaluate(
    file: mechanism_options.RatingsArgument,
    protocol: str | None = option(
        None,
        "prequential (time order, test then learn; default) or one-pass (random 80/10/10 split).",
        "NAME",
    ),
    rank: bool = option(
        False, "Measure lists instead: nDCG, recall, ... of later likes, and baselines."
    ),
    k: int | None = option(None, "Length of a list (default 10).", "N", "--k", "-k"),
    mode: str | None = option(
        None,
        "With --rank, central or split: lists after a campaign, --epsilon covers a whole person.",
        "NAME",
    ),
    meta: bool = option(False, "With --mode: also use genres and years beside FILE."),
    held: str | None = option(
        None,
        "What --rank holds out: global (the last fifth), visit (each user's last day), "
        "user-time (last fifth), last (rating); default: three in turn.",
        "NAME",
        "--split",
    ),
    messages: str | None = option(
        None, "Messages with --rank: single, daily, packed (as replay); default: all.", "NAME"
    ),
    model: str = option(
        "hybrid",
        "Learner: hybrid, dense, slope-one, cosine, ...; or a trainer that noises what "
        "it learns from true ratings: noisy-cells, tree, ...; with --trust: plain, social, "
        "privsr, privsr-paper.",
        "NAME",
    ),
    trust: Path | None = option(None, "Who trusts whom: columns truster and trustee.", "FILE"),
    mechanism: mechanism_options.MechanismOrDefaultOption = None,
    epsilon: mechanism_options.EpsilonOption = None,
    thinning: mechanism_options.ThinningOption = None,
    json_file: Path | None = option(None, "Also write the result here.", "FILE", "--json"),
    factors: int = option(32, "Factors per vector; few for small epsilon.", "N"),
    depth: int = option(4, "Rows of the sketch.", "N"),
    scope: int | None = option(
        None,
        "Size of the public scope where presence is protected: the N most rated items "
        "(default 300).",
        "N",
    ),
    choice: str = option(
        "items",
        "Groups of a partition are chosen by items (public item table) or leaning (also "
        "the user's own released reports).",
        "NAME",
    ),
    scale: mechanism_options.ScaleOption = None,
    seed: int = option(0, "Seed of noise, split and hashes.", "N"),
) -> None:
    """Measure a model on a file of ratings; nothing is published.

    The noise comes from a seed, so that a figure can be repeated. A sketch has as many cells as a
    dense table (gamma = 1), hybrid a row for each user and item. --mode central is trusted with
    contributions; split shares them between two parties, of which one is honest. Both publish noisy
    sums alone.

    Example: murmurec evaluate ml-1m.zip --model dense --epsilon 2
    """
    from murmurec.common import research
    from producers.datasets.load import load
    from stream_app.cli.research.evaluate.measure import EvaluationOptions, default_family
    from stream_app.models.baselines.learners import LEARNERS

    summed = mode if mode != "local" else None
    if summed is not None:
        from stream_app.cli.research.evaluate import campaign

        given = {
            "--mechanism": mechanism, "--thinning": thinning, "--protocol": protocol,
            "--messages": messages,
        }  # fmt: skip
        campaign.refuse(summed, given)
        if not rank:
            raise UsageError("--mode: a campaign is about lists; add --rank")
    elif meta:
        raise UsageError("--meta: is about a campaign; add --mode central or --mode split")
    options = EvaluationOptions(protocol, model, factors, depth, scope, choice, seed)
    others = {
        "--mechanism": mechanism, "--thinning": thinning, "--protocol": protocol, "--rank": rank,
        "--mode": summed,
    }  # fmt: skip
    social = trained = None
    if trust is not None or model not in LEARNERS:
        social = research("commands.evaluate.social")
        social.refuse(model, trust, others)
        if not social.is_social(model):
            trained = research("commands.evaluate.trained")
            if trained.is_trainer(model):
                trained.refuse(options, mechanism, rank=rank)
            else:
                trained = None
        if trained or trust is not None:
            mechanism = "none"
    if json_file:
        writable(json_file)
    found = load(file, mechanism_options.scale_from(scale))
    # A random split needs no stream, nor do lists: ratings without times are put in a random order.
    unordered = rank or trust is not None
    for warning in filter(None, (found.scale_warning,) if unordered else found.warnings):
        notice(f"warning: {warning}")
    dataset = found.in_time_order(seed)
    if mechanism is None:
        mechanism = default_family(found.scale)
    result: Any
    for name, value in {"k": k, "split": held, "messages": messages}.items():
        if not rank and value is not None:
            raise UsageError(f"--{name}: is about lists; add --rank")
    if summed is not None:
        result = campaign.measured(
            file,
            dataset,
            campaign.CampaignOptions(summed, epsilon, meta, k, held, scope, seed),
        )
    elif social is not None and trust is not None:
        result = social.measured(dataset, trust, epsilon, options)
        social.show(result, str(dataset.scale))
    elif trained is not None:
        from stream_app.cli.research.evaluate import measure

        result = trained.measured(dataset, epsilon, options)
        measure.show(result, str(dataset.scale))
    elif rank:
        from stream_app.cli.research.evaluate import measure
        from stream_app.cli.research.evaluate import rank as lists

        means = measure.mechanism_for(mechanism, epsilon, thinning, dataset.scale)
        result = lists.measured(dataset, means, options, 10 if k is None else k, held, messages)
    else:
        from stream_app.cli.research.evaluate import measure

        means = measure.mechanism_for(mechanism, epsilon, thinning, dataset.scale)
        result = measure.measured(dataset, means, options)
        measure.show(result, str(dataset.scale))
    if json_file:
        try:
            json_file.write_text(json.dumps(_with_nulls(asdict(result)), indent=1) + "\n")
        except OSError as error:
            raise UserError(f"{json_file}: cannot be written ({error.strerror})") from None


def _with_nulls(value: Any) -> Any:
    """Return the value with null for a figure that there is not (NaN is no JSON)."""
    if isinstance(value, dict):
        return {name: _with_nulls(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_with_nulls(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
