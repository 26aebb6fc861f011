"""PrivSR on FilmTrust and the small Ciao: RMSE of plain and social factorization, of the printed
noise, and of the corrected rounds.

A random 80/10/10 split, the last part tested; stars on 1 .. 5. A third of the ratings, at random,
is sensitive. `paper` has no guarantee: its epsilon is what is claimed of an item vector, and of the
friends' vectors as much again; the mean of the stars counts as public there. The corrected rounds
cover one rating event: epsilon of a rating that is not sensitive, half of it of one that is, delta
1e-6. The public block of the rounds are the 500 items with most ratings; all models are trained and
tested on it. The noise suffices with half of the devices. lam is the best of 2, 5 and 10 on the
middle part.
"""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np

from research.privsr import (
    Budget,
    PrintedShares,
    PrivateRounds,
    Rounds,
    SocialParameters,
    SocialRatings,
    social_factorization,
)
from stream_app.evaluation.results import rms, split
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures.data_sets import FILES, ROOT, load

SEEDS = (11, 12, 13)
BLOCK = 500
EPSILONS = (1, 2, 4)
ALPHA = 0.5
LAMS = {"filmtrust": 10.0, "ciao": 5.0}


def measure() -> list[Figure]:
    """Return the errors of every model and epsilon, as the mean of three splits."""
    figures = []
    for name in ("filmtrust", "ciao"):
        data = social(name)
        if data is None:
            figures.append(Figure(f"PrivSR on {name}: skipped, set MURMUREC_DATA", np.nan, ""))
            continue
        found = [errors(data, seed, LAMS[name]) for seed in SEEDS]
        for model in found[0]:
            mean = float(np.mean([each[model] for each in found]))
            figures.append(Figure(f"RMSE, {name}, {model}", mean, "stars"))
    return figures


def social(name: str, block: int = BLOCK) -> SocialRatings | None:
    """Return the ratings of the most rated items, and all trust among their users."""
    found = load(name)
    if found is None:
        return None
    folder = Path(os.environ.get("MURMUREC_DATA") or ROOT.parent / "shared" / "data")
    with np.load(folder / Path(FILES[name]).with_name("trust.npz")) as file:
        links = np.column_stack([file[key] for key in file.files[:2]]).astype(np.int64)
    pairs = found.users.astype(np.int64) << 32 | found.items.astype(np.int64)
    _, first = np.unique(pairs, return_index=True)
    keys, counts = np.unique(found.items[first], return_counts=True)
    kept = keys[np.argsort(-counts, kind="stable")[:block]]
    rows = first[np.isin(found.items[first], kept)]
    people, users = np.unique(found.users[rows].astype(np.int64), return_inverse=True)
    items = np.unique(found.items[rows], return_inverse=True)[1]
    links = np.unique(links[np.isin(links, people).all(axis=1)], axis=0)
    trusting, trusted = np.searchsorted(people, links).T
    sensitive = np.random.default_rng(1).random(len(rows)) < 1 / 3
    columns = users, items, found.stars[rows], sensitive, trusting, trusted
    return SocialRatings(*columns, len(people), int(items.max()) + 1)


def errors(data: SocialRatings, seed: int, lam: float) -> dict[str, float]:
    """Return the RMSE of every model on one split."""
    learned, _, tested = split(len(data.users), seed)
    train, test = data.part(learned), data.part(tested)

    def error(alpha: float, paper: PrintedShares | None = None) -> float:
        mean = float(train.stars.mean())
        parameters = SocialParameters(alpha=alpha, lam=lam, middle=mean, seed=seed)
        if paper is None:
            factors = social_factorization(train, parameters)
        else:
            factors = social_factorization(
                train,
                parameters,
                lambda step: paper.item_noise(train, step),
                lambda step: paper.friend_noise(train.people, step),
            )
        return rms(factors.predict(test.users, test.items) - test.stars)

    found = {"plain": error(0.0), "social": error(ALPHA)}
    for epsilon in EPSILONS:
        found[f"paper, claimed {epsilon}"] = error(ALPHA, PrintedShares(epsilon, seed=seed))
    for epsilon in EPSILONS:
        budget = Budget(Fraction(epsilon), Fraction(epsilon, 2))
        rounds = PrivateRounds(
            train.catalogue, budget, Rounds(train.people // 2), SeededSource(seed)
        )
        rounds.learn(train)
        certified = "{:.3g} / {:.3g}".format(*rounds.epsilons)
        found[f"corrected, {certified}"] = rms(rounds.predict(train, test) - test.stars)
    return found
