"""Accuracy of predicted ratings for learners and trainers; and a grid of experiments.

>>> from murmurec import evaluate
>>> users = [user for user in range(40) for _ in range(10)]
>>> items = [(3 * user + k) % 25 for user in range(40) for k in range(10)]
>>> ratings = [1 + (user + item) % 5 for user, item in zip(users, items)]
>>> result = evaluate((users, items, ratings), "rr:5:2", model="dense", factors=8)
>>> result.protocol, result.events, result.mechanism
('prequential', 400, 'rr:5:2')
>>> result.rmse < 2.5
True
>>> rows = experiment((users, items, ratings), ["dense"], ["none", "rr:5:2"], [], seeds=2)
>>> [(row.mechanism, row.seed) for row in rows]
[('none:5:inf', 0), ('none:5:inf', 1), ('rr:5:2', 0), ('rr:5:2', 1)]

A learner sees reports only; RMSE and MAE compare what is predicted with the true ratings, in the
data's own units. The noise comes from a seed, so that a figure can be repeated; nothing is sent.
`murmurec evaluate` prints the same figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypedDict, Unpack, cast

from murmurec.common import Progress, progress_lines, research
from murmurec.learner_evaluation import Evaluation, Options, event_epsilon
from murmurec.ratings import Ratings, columns_of
from stream_app.evaluation import EvaluationResult
from stream_app.evaluation.results import ExperimentRow
from stream_app.models.baselines.learners import LEARNERS
from stream_app.privacy.mechanism import Mechanism

__all__ = ["Evaluation", "Options", "Progress", "Terms", "evaluate", "experiment"]

_USUAL = Options()


class Terms(TypedDict, total=False):
    """What a trainer guarantees.

    epsilon: of one rating event (`inf`: no noise); 2 where it is left out. A mechanism has its
    epsilon in its id.
    """

    epsilon: int | float | str | Fraction


def evaluate(
    ratings: Ratings,
    mechanism: Mechanism | str | None = None,
    *,
    model: str = "hybrid",
    factors: int = 32,
    protocol: str | None = None,
    seed: int = 0,
    options: Options = _USUAL,
    progress: Progress | None = None,
    **terms: Unpack[Terms],
) -> EvaluationResult:
    """Learn ratings under a guarantee and return the accuracy of what is then predicted.

    Args:
        ratings: a data frame, a mapping of columns, a tuple of arrays or a file, on the smallest
            usual scale that holds them; a `Dataset` on its own scale (`murmurec.ratings`).
        mechanism: a mechanism or its id; None learns the ratings as they are.
        model: name of a learner: `"hybrid"` (the default), `"sketch"`, `"dense"`, `"literal"`,
            `"hashing"`; of pairs of items, which needs a mechanism with public presence:
            `"slope-one"`, `"damped-slope-one"`, `"cosine"`; or of a trainer, which is given the
            true ratings and noises what it learns: `"noisy-cells"`, `"tree"`, `"subsampled"`,
            `"sgld"`, and `"sgld-paper"`, which guarantees nothing.
        factors: components of a latent vector; 32 by default.
        protocol: `"prequential"` (time order, test then learn; the default) or `"one-pass"` (random
            80/10/10 split). A mechanism that protects presence is always measured in one pass over
            a public scope of items, trainers always on the random split.
        seed: of the noise, the split and the hashes.
        progress: called with the work done and its total; by default a line every ten seconds.
        terms: epsilon of a trainer (`Terms`).

    A sketch has as many cells as a dense table (gamma = 1), hybrid a row for each entity. Raises
    ValueError for arguments out of range or that contradict each other, and for invalid ratings.
    """
    if unknown := terms.keys() - {"epsilon"}:
        raise TypeError(f"evaluate has no argument {min(unknown)}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed {seed}: give a number from 0 to 2^63-1")
    data = columns_of(ratings, None, seed)
    trainers = None if model in LEARNERS else research("trainers.measured")
    if trainers and trainers.is_trainer(model):
        _refuse(f"model {model!r}", {"mechanism": mechanism, "scope": options.scope})
        if protocol not in (None, "one-pass"):
            raise ValueError(f"model {model!r}: is measured one-pass, not {protocol}")
        epsilon = event_epsilon(terms.get("epsilon"))
        chosen = trainers.TrainerOptions(model, epsilon, factors, options.depth, seed)
        return cast(EvaluationResult, trainers.TrainerEvaluation(data, chosen).measure())
    if terms.get("epsilon") is not None:
        raise ValueError(
            f"epsilon {terms['epsilon']}: model {model!r} has none of its own; give it in the "
            "mechanism's id, as 'rr:5:2', or name a trainer"
        )
    run = Evaluation(
        data, mechanism, model=model, factors=factors, protocol=protocol, seed=seed, options=options
    )
    return run.measure(progress or progress_lines("learning"))


def experiment(
    ratings: Ratings,
    models: Sequence[str] = ("hybrid",),
    mechanisms: Sequence[str] = ("none",),
    splits: Sequence[str] = (),
    *,
    seeds: int = 3,
    factors: int = 32,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Iterator[ExperimentRow]:
    """Yield a row for each cell of a grid as it is measured, as `murmurec experiment` does.

    Args:
        ratings: as for `evaluate`.
        models: learners, and baselines: `"item-means"`, `"popular"`, `"recent-popular"`, `"EASE"`.
        mechanisms: ids, `"none"`, and campaigns, `"central:2"` or `"split:2"`.
        splits: of lists, `"global"`, `"visit"`, `"user-time"`; ratings are predicted in any case.
        seeds: how many seeds of the noise and the hashes each cell is measured with, from 0 on.
        factors: components of a latent vector.
        out: a folder in which rows are kept; a later call goes on from them.
        progress: called with the cells done and their total; by default a line every ten seconds.

    Raises ValueError, before any work, for what is unknown or cannot be combined, and UserError for
    a folder that cannot be used.
    """
    grids, kept = (research(f"commands.experiment.{name}") for name in ("grid", "rows"))
    grid = grids.Grid(tuple(models), tuple(mechanisms), tuple(splits), seeds, factors=factors)
    advance = progress or progress_lines("experiment")
    rows: Iterator[ExperimentRow] = kept.rows(
        columns_of(ratings, None, None),
        grid,
        None if out is None else Path(out),
        lambda done, total, cell: advance(int(done), total),  # noqa: ARG005
    )
    return rows


def _refuse(what: str, others: Mapping[str, object]) -> None:
    """Raise ValueError for an argument that a way to learn does not have."""
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"{name}: {what} has none; leave it out")
