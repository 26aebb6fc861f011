"""Learning beside other libraries: MovieLens-1M in random order, 32 factors, one thread each.

Ours, River and the naive version learn online, one rating after the other, once, and predict each
before it is learned (ours returns these predictions, River is asked for them). An epoch of
scikit-surprise's SVD, of our gradient steps over the same rows (the trainer of the thesis' table
4.2, in the order of the ratings, as SVD takes them), and one of implicit's BPR and ALS, also goes
once over all ratings, with factors that are initialized anew, as `fit` does. River and the naive
version learn fewer ratings in a round, as each takes the same time. Ratings are numbered ids in
memory for everybody; reading them is nobody's work.

The RMSE of the online learners is prequential (each rating predicted, clipped to 1 .. 5, then
learned); River's is that of the best of the settings below. The RMSE of those that take epochs is
of the last tenth, and ours beside it is of the same tenth after one pass. BPR and implicit ALS
rank, and have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from research.trainers.epoch_model import EpochModel, Method, Part, Steps
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.privacy.ratings.identity import Identity
from tests.benchmarks import contest
from tests.benchmarks.contest import Contender, not_installed
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import SCALARS_BYTES, SKETCH_BYTES, Ratings, load, skipped
from tests.naive import learning as naive

Prepare = Callable[[], Callable[[], Any]]  # makes a round; the round is what is measured

FACTORS, BATCH = 32, 65_536
FEW = 20_000  # ratings of River in a round; the naive version learns a fiftieth of them
EPOCHS = 20  # of SVD for its RMSE, which is its default
EPOCH = "SGD, an epoch"
STEPS = Steps(0.02, 0.04, EPOCHS)
OURS = {"dense": "dense, online", "sketch": "sketch k=4, online"}
RIVER, SVD, BPR, ALS, NAIVE = (
    "River BiasedMF",
    "surprise SVD, an epoch",
    "implicit BPR, an epoch",
    "implicit ALS, an epoch",
    "naive Python, sketch k=4",
)
TARGETS = {RIVER: ">= 400", SVD: ">= 12"}
# Steps of (biases, vectors) and the spread of new vectors: River's defaults, steps between, and
# those of its guide on recommendation, which are the best of them on MovieLens-1M.
RIVER_SETTINGS = ((None, None, None), (0.02, 0.02, 0.1), (0.025, 0.05, 0.1))


def measure() -> list[Figure]:
    """Return rates, ratios in one run, and the errors of the same ratings."""
    ratings = load()
    if ratings is None:
        return skipped("learning beside other libraries")
    ratings = ratings.shuffled()
    contenders, absent = _contenders(ratings)
    seconds = contest.contest(contenders)
    figures = [each.rate("k ratings/s", 1e-3) for each in seconds.values()]
    for ours in OURS.values():
        for name in (RIVER, SVD, BPR, ALS, NAIVE):
            if name in seconds:
                target = TARGETS.get(name, "") if name == RIVER else ""
                figures.append(seconds[ours].times_faster_than(seconds[name], target=target))
    for name in (SVD, BPR, ALS):
        if name in seconds:
            target = TARGETS.get(name, "")
            figures.append(seconds[EPOCH].times_faster_than(seconds[name], target=target))
    return [*figures, *absent, *errors(ratings)]


def _contenders(ratings: Ratings) -> tuple[list[Contender], list[Figure]]:
    """Return those that can run, and a row for each peer that is not installed."""
    count = len(ratings)
    found = [
        Contender(
            name,
            lambda learner: learned(learner, ratings),
            count,
            lambda model=model: learner_of(model),
        )
        for model, name in OURS.items()
    ]
    found.append(
        Contender(NAIVE, lambda run: run(), FEW // 50, _naive(_part(ratings, slice(FEW // 50))))
    )
    found.append(Contender(EPOCH, lambda run: run(), count, _epoch(ratings)))
    absent = []
    # Each returns what prepares a round; tables of the ratings are made once, before the rounds.
    peers: tuple[tuple[str, str, int, Callable[[Ratings], Prepare]], ...] = (
        (RIVER, "river", min(FEW, count), _river),
        (SVD, "surprise", count, _surprise),
        (BPR, "implicit", count, lambda given: _implicit("bpr", given)),
        (ALS, "implicit", count, lambda given: _implicit("als", given)),
    )
    for name, module, units, prepared in peers:
        if contest.peer(module) is None:
            absent.append(not_installed(name, module))
        else:
            prepare = prepared(_part(ratings, slice(units)))
            found.append(Contender(name, lambda run: run(), units, prepare))
    return found, absent


def errors(ratings: Ratings) -> list[Figure]:
    """Return the prequential RMSE of all online learners, and the test RMSE after epochs."""
    truth = ratings.levels + 1.0
    online = {
        name: _rmse(learned(learner_of(model), ratings), truth) for model, name in OURS.items()
    }
    river = None if contest.peer("river") is None else _river_error(ratings)
    limit = "" if river is None else f"<= {river:.4f}"
    found = [
        Figure(f"prequential RMSE, {name}", error, "stars", limit) for name, error in online.items()
    ]
    if river is not None:
        found.append(Figure(f"prequential RMSE, {RIVER}, best of its settings", river, "stars"))
    cut = len(ratings) * 9 // 10
    train, test = _part(ratings, slice(cut)), _part(ratings, slice(cut, None))
    for model, name in OURS.items():
        learner = learner_of(model)
        learned(learner, train)
        error = _rmse(learner.predict_many(test.users, test.items), test.levels + 1.0)
        found.append(Figure(f"test RMSE, {name}, one pass", error, "stars"))
    found += _epoch_errors(train, test)
    return found if contest.peer("surprise") is None else [*found, *_surprise_errors(train, test)]


def learner_of(model: str, factors: int = FACTORS, sketch_bytes: int = SKETCH_BYTES) -> Learner:
    """Return a fresh learner of clean ratings of five levels; its kernels are compiled."""
    spec = LearnerSpec(
        factors=factors, sketch_bytes=sketch_bytes, scalars_bytes=SCALARS_BYTES, seed=1
    )
    return build(model, Channels.from_mechanisms([Identity(5)]), spec)


def learned(learner: Learner, ratings: Ratings) -> np.ndarray:
    """Learn all ratings in their order and return each prediction before its rating: (n,) stars."""
    zeros, ones = np.zeros(BATCH, np.uint16), np.ones(BATCH, np.bool_)
    predicted = []
    for first in range(0, len(ratings), BATCH):
        part = slice(first, first + BATCH)
        users, items, levels = ratings.users[part], ratings.items[part], ratings.levels[part]
        size = len(levels)
        found = learner.learn_many(users, items, levels, zeros[:size], ones[:size])
        predicted.append(found.predicted)
    return np.concatenate(predicted)


def _rmse(predicted: Iterable[float], truth: np.ndarray) -> float:
    clipped = np.clip(np.asarray(predicted, float), 1, 5)
    return math.sqrt(float(np.mean((clipped - truth) ** 2)))


def _part(ratings: Ratings, part: slice) -> Ratings:
    return Ratings(ratings.users[part], ratings.items[part], ratings.levels[part])


def _rows(ratings: Ratings) -> list[tuple[int, int, float]]:
    columns = ratings.users.tolist(), ratings.items.tolist(), (ratings.levels + 1.0).tolist()
    return list(zip(*columns, strict=True))


def _naive(ratings: Ratings) -> Prepare:
    rows, parameters, clean = _rows(ratings), Parameters(), np.eye(5)

    def run(learner: naive.Learner) -> None:
        for user, item, stars in rows:
            learner.learn(user, item, int(stars) - 1, clean, exact=True)

    def prepare() -> Callable[[], None]:
        sketch = naive.Blocked(FACTORS, 4, SKETCH_BYTES // 16, 1, parameters)
        learner = naive.Learner(sketch, naive.HashedScalars(SCALARS_BYTES // 16), parameters)
        return lambda: run(learner)

    return prepare


def _river_model(biases: float | None, vectors: float | None, spread: float | None) -> Any:
    from river import optim, reco

    settings: dict[str, Any] = {}
    if biases is not None and vectors is not None:
        settings = {
            "bias_optimizer": optim.SGD(biases),
            "latent_optimizer": optim.SGD(vectors),
            "latent_initializer": optim.initializers.Normal(mu=0.0, sigma=spread, seed=1),
        }
    return reco.BiasedMF(n_factors=FACTORS, seed=1, **settings)


def _river(ratings: Ratings) -> Prepare:
    rows = _rows(ratings)

    def run(model: Any) -> None:
        for user, item, stars in rows:
            model.predict_one(user, item)
            model.learn_one(user, item, stars)

    def prepare() -> Callable[[], None]:
        model = _river_model(*RIVER_SETTINGS[-1])
        return lambda: run(model)

    return prepare


def _river_error(ratings: Ratings) -> float:
    rows, truth = _rows(ratings), ratings.levels + 1.0
    found = []
    for settings in RIVER_SETTINGS:
        model, predicted = _river_model(*settings), []
        for user, item, stars in rows:
            predicted.append(model.predict_one(user, item))
            model.learn_one(user, item, stars)
        found.append(_rmse(predicted, truth))
    return min(found)


def _trainset(ratings: Ratings) -> Any:
    """Return surprise's own form of the ratings, without its detour over a data frame."""
    from surprise import Dataset, Reader

    rows = [(*row, None) for row in _rows(ratings)]
    return Dataset(Reader(rating_scale=(1, 5))).construct_trainset(rows)


def _numbered(ratings: Ratings) -> Part:
    users = np.unique(ratings.users, return_inverse=True)[1].astype(np.int64)
    items = np.unique(ratings.items, return_inverse=True)[1].astype(np.int64)
    return Part(users, items, ratings.levels + 1.0)


def _epoch(ratings: Ratings) -> Prepare:
    part = _numbered(ratings)
    users, items = int(part.users.max()) + 1, int(part.items.max()) + 1

    def run() -> None:
        EpochModel(Method("rows"), users, items, FACTORS).learn(part, STEPS, 0, shuffled=False)

    return lambda: run


def _epoch_errors(train: Ratings, test: Ratings) -> list[Figure]:
    both = Ratings(
        np.concatenate([train.users, test.users]),
        np.concatenate([train.items, test.items]),
        np.concatenate([train.levels, test.levels]),
    )
    part, cut, figures = _numbered(both), len(train), []
    known, asked = part.at(np.arange(cut)), part.at(np.arange(cut, len(part)))
    for epochs in (1, EPOCHS):
        users, items = int(part.users.max()) + 1, int(part.items.max()) + 1
        model = EpochModel(Method("rows"), users, items, FACTORS)
        steps = Steps(STEPS.eta, STEPS.lam, epochs)
        for epoch in range(epochs):
            model.learn(known, steps, epoch, shuffled=False)
        figures.append(Figure(f"test RMSE, SGD, epochs: {epochs}", model.rmse(asked), "stars"))
    return figures


def _surprise(ratings: Ratings) -> Prepare:
    import surprise

    trainset = _trainset(ratings)

    def prepare() -> Callable[[], Any]:
        model = surprise.SVD(n_factors=FACTORS, n_epochs=1, random_state=1)
        return lambda: model.fit(trainset)

    return prepare


def _surprise_errors(train: Ratings, test: Ratings) -> list[Figure]:
    import surprise

    trainset, rows, figures = _trainset(train), _rows(test), []
    for epochs in (1, EPOCHS):
        model = surprise.SVD(n_factors=FACTORS, n_epochs=epochs, random_state=1).fit(trainset)
        error = _rmse([model.predict(user, item).est for user, item, _ in rows], test.levels + 1.0)
        figures.append(Figure(f"test RMSE, surprise SVD, epochs: {epochs}", error, "stars"))
    return figures


def _implicit(algorithm: str, ratings: Ratings) -> Prepare:
    from implicit.als import AlternatingLeastSquares
    from implicit.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix

    users = np.unique(ratings.users, return_inverse=True)[1]
    items = np.unique(ratings.items, return_inverse=True)[1]
    table = csr_matrix((np.ones(len(ratings), np.float32), (users, items)))
    made = BayesianPersonalizedRanking if algorithm == "bpr" else AlternatingLeastSquares

    def prepare() -> Callable[[], Any]:
        model = made(factors=FACTORS, iterations=1, num_threads=1, random_state=1, use_gpu=False)
        return lambda: model.fit(table, show_progress=False)

    return prepare
