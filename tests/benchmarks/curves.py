"""Accuracy against memory and against epsilon, as points of the plots: MovieLens-1M, one pass.

RMSE is of the last tenth of a random 80/10/10 split, nDCG@10 of each user's last fifth by the lists
of the server: from the vectors of its model alone, as a server ranks that counts no pairs of items,
or from what goes together among the pairs that it counts. One split, in which curves compare. The
bytes are those of all arrays of the model, biases included, as a checkpoint holds them, and of the
pairs where these are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from murmurec.learned_server import LearnedServer
from murmurec.ranking import RankingEvaluation, RankingOptions
from murmurec.ratings import columns_of
from producers.datasets.load import Dataset
from producers.datasets.load import load as load_dataset
from stream_app.evaluation import AdaptiveDevices, Devices, FixedReports, evaluate
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.state.replica import Replica
from tests.benchmarks.accuracy import events
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import SCALARS_BYTES, SKETCH_BYTES, Ratings, load, skipped
from tests.fixtures.rating_files import rating_files

SEED = 11
CLEAN = "none:5:inf"
SCOPE = 300  # items of which every device sends every cell, where likes are hidden
EPSILONS = ("8", "4", "2", "1", "1/2")
MODELS = ("dense", "hybrid", "sketch")
HEADS = (128, 256, 512, 1024, 2048)
FAMILIES = (*product(MODELS, ("rr",)), ("dense", "partition"))


class Size(NamedTuple):
    """A point of a memory curve; `share`: of the bytes of dense rows of as many factors."""

    curve: str
    model: str
    factors: int
    share: float = 1.0

    @property
    def spec(self) -> LearnerSpec:
        return LearnerSpec(
            factors=self.factors,
            sketch_bytes=int(SKETCH_BYTES * self.factors / 32 * self.share),
            scalars_bytes=SCALARS_BYTES,
            seed=SEED,
        )

    @property
    def note(self) -> str:
        return f"d = {self.factors}; of dense vectors: {self.share:g}"


SIZES = (
    *(Size("dense", "dense", d) for d in (2, 4, 8, 16, 32, 64)),
    *(Size("hybrid, d = 32", "hybrid", 32, share) for share in (1 / 8, 1 / 4, 1 / 2, 1)),
    *(Size("sketch k=4, d = 32", "sketch", 32, share) for share in (1 / 8, 1 / 4, 1 / 2, 1, 2)),
    *(Size("sketch k=4, smaller d", "sketch", d) for d in (2, 4, 8, 16)),
    *(Size("hashing k=1, d = 32", "hashing", 32, share) for share in (1 / 8, 1 / 4, 1 / 2, 1, 2)),
)
RANKED = [
    *(Size("hybrid, d = 32", "hybrid", 32, share) for share in (1 / 4, 1 / 2, 1)),
    *(Size("sketch k=4, d = 32", "sketch", 32, share) for share in (1 / 4, 1 / 2, 1, 2)),
]


def measure() -> list[Figure]:
    """Return the points of all curves."""
    ratings = load()
    if ratings is None:
        return skipped("accuracy against memory and epsilon")
    figures = [*errors_by_memory(ratings), *errors_by_epsilon(ratings)]
    data = load_dataset(rating_files()["ml-1m"])
    return [*figures, *lists_by_memory(data), *lists_by_pairs(data), *lists_by_epsilon(data)]


def errors_by_memory(ratings: Ratings) -> Iterator[Figure]:
    """Yield the RMSE of every size, without noise."""
    for size in SIZES:
        learner = _learner(size, CLEAN)
        error = _error(ratings, CLEAN, learner)
        yield Figure(_point(size, learner), error, "stars")


def errors_by_epsilon(ratings: Ratings) -> Iterator[Figure]:
    """Yield the RMSE of every model and mechanism, 32 factors."""
    for model, family in FAMILIES:
        for id, epsilon in _ids(family):
            error = _error(ratings, id, _learner(Size("", model, 32), id))
            yield Figure(f"epsilon {model}, {family}, {epsilon}", error, "stars")


def lists_by_memory(data: Dataset) -> Iterator[Figure]:
    """Yield nDCG@10 of lists from the model alone, from reports of rr:5:2."""
    for size in RANKED:
        run = _learned(data, "rr:5:2", size, head=0)
        name = _point(size, run.server.replica.learner)
        yield Figure(name, run.server_row().ndcg, "nDCG@10")


def lists_by_pairs(data: Dataset) -> Iterator[Figure]:
    """Yield nDCG@10 of lists as the server serves them, by the items that it counts pairs of."""
    for head in HEADS:
        run = _learned(data, "rr:5:2", Size("", "sketch", 32), head)
        held = run.server.replica.memory()
        name = f"memory server, model and pairs, {held['learner'] + held['pairs']:,} bytes"
        yield Figure(f"{name} (pairs of {head} items)", run.server_row().ndcg, "nDCG@10")


def lists_by_epsilon(data: Dataset) -> Iterator[Figure]:
    """Yield nDCG@10 of the lists of a server and of devices, with the default sketch; under `like`
    whether an item was rated is hidden, too."""
    for id, epsilon in _ids("rr"):
        run = _learned(data, id, Size("", "sketch", 32))
        yield Figure(f"epsilon server, rr, {epsilon}", run.server_row().ndcg, "nDCG@10")
        yield Figure(f"epsilon device, rr, {epsilon}", run.device_row().ndcg, "nDCG@10")
    for epsilon in EPSILONS:
        run = _learned(data, f"like:5:{epsilon}", Size("", "sketch", 32))
        device = run.device_row().ndcg
        yield Figure(f"epsilon device, like, {SCOPE} items, {epsilon}", device, "nDCG@10")


def _ids(family: str) -> list[tuple[str, str]]:
    return [(CLEAN, "no noise"), *((f"{family}:5:{epsilon}", epsilon) for epsilon in EPSILONS)]


def _point(size: Size, learner: Learner) -> str:
    held = sum(array.nbytes for array in learner.arrays().values())  # type: ignore[attr-defined]
    return f"memory {size.curve}, {held:,} bytes ({size.note})"


def _learner(size: Size, id: str) -> Learner:
    return build(size.model, Channels.from_mechanisms([registry.parse(id)]), size.spec)


def _error(ratings: Ratings, id: str, learner: Learner) -> float:
    mechanism = registry.parse(id)
    devices: Devices = FixedReports(ratings.reports(mechanism)) if not mechanism.masks else (
        AdaptiveDevices(
            mechanism,
            Channels.from_mechanisms([mechanism]),
            ratings.users,
            ratings.items,
            ratings.levels,
            SeededSource(SEED),
            user_bias=False,
        )
    )  # fmt: skip
    return evaluate(events(ratings), devices, learner, protocol="one-pass", seed=SEED).rmse


def _learned(data: Dataset, id: str, size: Size, head: int | None = None) -> RankingEvaluation:
    """Return a run whose server has learned; `head`: items whose pairs it counts."""
    run = RankingEvaluation(
        columns_of(data, None),
        id,
        k=10,
        split="user-time",
        model=size.model,
        seed=0,
        options=RankingOptions(factors=size.factors, scope=SCOPE if "like" in id else None),
    )
    run.server = LearnedServer(registry.parse(id), size.model, size.spec)
    if head is not None:
        run.server.replica = Replica(replace(run.server.replica.spec, head_items=head))
        run.server.recommender = Recommender(run.server.replica, Catalogue(), "exact")
    for _ in run.learning():
        pass
    return run
