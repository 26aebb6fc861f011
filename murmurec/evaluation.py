"""Accuracy of predicted ratings for learners, trainers and campaigns; and a grid of experiments.

>>> from murmurec import evaluate
>>> users = [user for user in range(40) for _ in range(10)]
>>> items = [(3 * user + k) % 25 for user in range(40) for k in range(10)]
>>> ratings = [1 + (user + item) % 5 for user, item in zip(users, items)]
>>> result = evaluate((users, items, ratings), "rr:5:2", model="dense", factors=8)
>>> result.protocol, result.events, result.mechanism
('prequential', 400, 'rr:5:2')
>>> result.rmse < 2.5
True
>>> whole = evaluate((users, items, ratings), mode="central", epsilon=4)
>>> whole.people, whole.epsilon, whole.delta
(40, 4.0, 1e-06)
>>> rows = experiment((users, items, ratings), ["dense"], ["none", "rr:5:2"], [], seeds=2)
>>> [(row.mechanism, row.seed) for row in rows]
[('none:5:inf', 0), ('none:5:inf', 1), ('rr:5:2', 0), ('rr:5:2', 1)]

A learner sees reports only, a campaign noisy sums only; RMSE and MAE compare what is predicted with
the true ratings, in the data's own units. The noise comes from a seed, so that a figure can be
repeated; nothing is sent. `murmurec evaluate` prints the same figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypedDict, Unpack, cast, overload

from murmurec.campaigns import campaign_stars
from murmurec.common import Progress, progress_lines, research
from murmurec.learner_evaluation import Evaluation, Options, event_epsilon
from murmurec.ratings import Ratings, columns_of
from producers.datasets.descriptions import Metadata, metadata_of
from producers.datasets.load import Dataset
from stream_app.errors import UserError
from stream_app.evaluation import EvaluationResult
from stream_app.evaluation.campaigns import CampaignStars
from stream_app.evaluation.results import ExperimentRow
from stream_app.models.factorization.factory import LEARNERS
from stream_app.privacy.mechanism import Mechanism

__all__ = ["Evaluation", "Options", "Progress", "Terms", "evaluate", "experiment"]

_USUAL = Options()
Epsilon = int | float | str | Fraction


class Terms(TypedDict, total=False):
    """What a central guarantee is about.

    mode: `"local"` (the default), `"central"` or `"split"`, which are campaigns of noisy sums.
    epsilon: of a whole person in a campaign, of one rating event for a trainer (`inf`: no noise); 2
    where it is left out. A mechanism has its epsilon in its id.
    meta: genres and year by item id as public features of a campaign, `{1193: (["Drama"], 1975)}`;
    True takes them from the file of ratings or those beside it.
    """

    mode: str
    epsilon: Epsilon
    meta: bool | Metadata


class CampaignTerms(TypedDict):
    """The terms of a campaign; `Terms` says what they mean."""

    mode: Literal["central", "split"]


class _Campaign(CampaignTerms, total=False):
    epsilon: Epsilon
    meta: bool | Metadata


class _Event(TypedDict, total=False):
    mode: Literal["local"]
    epsilon: Epsilon


@overload
def evaluate(
    ratings: Ratings, *, seed: int = ..., progress: Progress = ..., **terms: Unpack[_Campaign]
) -> CampaignStars: ...


@overload
def evaluate(
    ratings: Ratings,
    mechanism: Mechanism | str | None = None,
    *,
    model: str = ...,
    factors: int = ...,
    protocol: str | None = ...,
    seed: int = ...,
    options: Options = ...,
    progress: Progress = ...,
    **terms: Unpack[_Event],
) -> EvaluationResult: ...


def evaluate(
    ratings: Ratings,
    mechanism: Mechanism | str | None = None,
    *,
    model: str | None = None,
    factors: int | None = None,
    protocol: str | None = None,
    seed: int = 0,
    options: Options = _USUAL,
    progress: Progress | None = None,
    **terms: Unpack[Terms],
) -> EvaluationResult | CampaignStars:
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
        factors: components of a latent vector; 32 by default. A campaign has those of its budget.
        protocol: `"prequential"` (time order, test then learn; the default) or `"one-pass"` (random
            80/10/10 split). A mechanism that protects presence is always measured in one pass over
            a public scope of items, trainers and campaigns always on the random split.
        seed: of the noise, the split and the hashes.
        progress: called with the work done and its total; by default a line every ten seconds.
        terms: mode, epsilon and meta (`Terms`).

    A sketch has as many cells as a dense table (gamma = 1), hybrid a row for each entity. Raises
    ValueError for arguments out of range or that contradict each other, and for invalid ratings.
    """
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed {seed}: give a number from 0 to 2^63-1")
    if (mode := terms.get("mode", "local")) != "local":
        given = {"mechanism": mechanism, "protocol": protocol, "model": model, "factors": factors}
        _refuse(f"a campaign ({mode})", given)
        return _campaign(ratings, seed, progress or progress_lines(mode), terms)
    if terms.get("meta"):
        raise ValueError("meta: is about a campaign; add mode='central' or mode='split'")
    data, name, size = columns_of(ratings, None, seed), model or "hybrid", factors or 32
    trainers = None if name in LEARNERS else research("trainers.measured")
    if trainers and trainers.is_trainer(name):
        _refuse(f"model {name!r}", {"mechanism": mechanism, "scope": options.scope})
        if protocol not in (None, "one-pass"):
            raise ValueError(f"model {name!r}: is measured one-pass, not {protocol}")
        epsilon = event_epsilon(terms.get("epsilon"))
        chosen = trainers.TrainerOptions(name, epsilon, size, options.depth, seed)
        return cast(EvaluationResult, trainers.TrainerEvaluation(data, chosen).measure())
    if terms.get("epsilon") is not None:
        raise ValueError(
            f"epsilon {terms['epsilon']}: model {name!r} has none of its own; give it in the "
            "mechanism's id, as 'rr:5:2', or name a trainer or a campaign's mode"
        )
    run = Evaluation(
        data, mechanism, model=name, factors=size, protocol=protocol, seed=seed, options=options
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


def _campaign(ratings: Ratings, seed: int, progress: Progress, terms: Terms) -> CampaignStars:
    """Return the accuracy of a whole *stars* campaign."""
    text = str(terms.get("epsilon", 2))
    epsilon = event_epsilon(text)
    if not epsilon:
        raise ValueError(f"epsilon {text[:40]}: give a number above 0, as 2, 0.5 or 1/2")
    data = columns_of(ratings, None, seed)
    return campaign_stars(
        data,
        terms["mode"],
        epsilon,
        metadata=_metadata(data, terms.get("meta", False)),
        seed=seed,
        progress=progress,
    )


def _metadata(data: Dataset, meta: bool | Metadata) -> Metadata | None:
    if not isinstance(meta, bool):
        return meta
    if not meta:
        return None
    try:
        return metadata_of(data.described, data.name)
    except UserError as refusal:
        raise ValueError(f"meta: {refusal}") from None
