"""Figures of Balu 2016, chapter 3: noised profiles reconstructed, and what neighbours they find.

    F9    cosine of a profile and its reconstruction, against epsilon     (figures 3.2 and 3.3)
    F10   mean precision at ranks 1 .. 10 of the reconstruction           (figures 3.4 and 3.5)
    F11   recall of the 10 nearest against 1 - cosine                     (figure 3.6)

Settings of section 3.5.1: K = 20 and L = 5000 bits, L = 1000 projections with the noise of Lemma 2
at delta 1/10 (`jltpaper`, the delta that the thesis' list of deviations has), all ratings made
binary, 600 of 943 users known to the attacker. Adjacency: cell, one item of one release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from research.attacks.attacks import ATTACKS
from research.attacks.knowledge import Knowledge
from research.attacks.trials import Plan, Trial, tried
from research.papers.figure import Figure, Progress, Published, Series, StarRatings, silent
from research.profiles.blip import Blip
from research.profiles.jlt import JltPaper
from research.profiles.nearest_profiles import profiles_of, recall
from research.profiles.profile_mechanism import ProfileMechanism

PAPER = "Balu 2016"
TRAINED = 600 / 943
BLIP_EPSILONS = (2, 3, 5, 6, 8, 17, 28, 59)
JLT_EPSILONS = (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), 1, 2, 3, 6, 12, 24)
BEST = "bits prior"
_BITS, _HASHES = 5000, 20
_PROJECTIONS, _DELTA = 1000, Fraction(1, 10)
_NEIGHBOURS_ASKED = 300
_READING = 8  # where the thesis reads its curves


def mechanisms(
    blip: Sequence[int] = BLIP_EPSILONS, jlt: Sequence[Fraction | int] = JLT_EPSILONS
) -> list[ProfileMechanism]:
    """Return the mechanisms of the thesis, by rising epsilon within each family."""
    return [
        *(_mechanism("blip", Fraction(epsilon)) for epsilon in blip),
        *(_mechanism("jltpaper", Fraction(epsilon)) for epsilon in jlt),
    ]


def reconstructions(
    ratings: StarRatings,
    *,
    made: Sequence[ProfileMechanism] | None = None,
    people: int = 24,
    plan: Plan | None = None,
    progress: Progress = silent,
) -> list[Trial]:
    """Return every attack of a plan on so many users' profiles, mechanism by mechanism.

    ValueError for fewer than three users, or people below 1.
    """
    made, plan = mechanisms() if made is None else list(made), plan or Plan()
    profiles, catalogue = profiles_of(ratings.users, ratings.items)
    known = max(2, round(TRAINED * len(profiles)))
    if people < 1 or len(profiles) <= known:
        raise ValueError(f"{people} of {len(profiles)} users: attack one at least, of three")
    order = np.random.default_rng(plan.seed).permutation(len(profiles)).tolist()
    knowledge = Knowledge.of_training([profiles[row] for row in order[:known]], catalogue)
    attacked = [profiles[row] for row in order[known : known + people]]
    trials: list[Trial] = []
    for done, each in enumerate(made, 1):
        trials += tried(attacked, knowledge, each, plan)
        progress(done, len(made))
    return trials


def f9(
    ratings: StarRatings,
    *,
    people: int = 24,
    seed: int = 0,
    progress: Progress = silent,
    trials: Sequence[Trial] | None = None,
) -> Figure:
    """Return the cosine of profiles and their reconstructions: mean, and 10 % and 90 % quantiles.

    `trials`: what `reconstructions` returned, instead of attacking once more.
    """
    found = _trials(ratings, people, seed, progress, trials)
    at = {each.attack: each.measured.cosine for each in _chosen(found, "blip", _READING)}
    series = [
        _series(f"{_named(family)} {attack}{suffix}", _chosen(found, family, None, attack), column)
        for family in ("blip", "jltpaper")
        for attack in _attacks(found)
        for suffix, column in (("", "cosine"), (", 10 %", "low"), (", 90 %", "high"))
    ]
    return Figure(
        "F9", PAPER, "Profiles reconstructed from one release", _X, "cosine with the profile",
        log_x=True, log_y=False, series=tuple(series),
        published=(
            Published(
                "at epsilon 8 the single decoder is no better than popularity", "not above it",
                f"single {at['single']:.2f}, popularity {at['popularity']:.2f}",
                agrees=at["single"] <= at["popularity"] + 0.05,
            ),
            Published(
                "at epsilon 8 the joint decoder with a prior rebuilds about half", ".50",
                f"slots {at['slots prior']:.2f}, bits {at[BEST]:.2f}",
                agrees=abs(at[BEST] - 0.5) <= 0.1,
            ),
            Published(
                "this is a gain of joint decoding", "joint above single",
                f"without a prior {at['slots flat']:.2f} to {at['single']:.2f}; with it "
                f"{at[BEST]:.2f} to {at['single+prior']:.2f}: nearly all of it is the prior",
                agrees=at[BEST] - at["single+prior"] > (at[BEST] - at["single"]) / 2,
            ),
            Published(
                "at epsilon 0 the cosine is that of popularity", ".23",
                f"{at['popularity']:.2f}", agrees=abs(at["popularity"] - 0.23) <= 0.1,
            ),
        ),
        notes=_NOTES,
    )  # fmt: skip


def f10(
    ratings: StarRatings,
    *,
    people: int = 24,
    seed: int = 0,
    progress: Progress = silent,
    trials: Sequence[Trial] | None = None,
) -> Figure:
    """Return the mean precision at ranks 1 to 10 (map_paper_at_10) of each attack."""
    found = _trials(ratings, people, seed, progress, trials)
    at = {each.attack: each.measured.map_at_10 for each in _chosen(found, "blip", _READING)}
    least = _chosen(found, "blip", None, BEST)[0].measured.map_at_10
    series = [
        _series(f"{_named(family)} {attack}", _chosen(found, family, None, attack), "map_at_10")
        for family in ("blip", "jltpaper")
        for attack in _attacks(found)
    ]
    return Figure(
        "F10", PAPER, "The first ten items of a reconstruction", _X, "mAP@10 as printed",
        log_x=True, log_y=False, series=tuple(series),
        published=(
            Published(
                "at epsilon 0 the first ten are right about half of the time", ".50",
                f"popularity {at['popularity']:.2f}, the best attack at epsilon 2 {least:.2f}",
                agrees=abs(at["popularity"] - 0.5) <= 0.15,
            ),
            Published(
                "a few items are found where whole profiles are not", "higher than the cosine",
                f"{at[BEST]:.2f} at epsilon 8",
                agrees=at[BEST] > _chosen(found, "blip", _READING, BEST)[0].measured.cosine,
            ),
        ),
        notes=(*_NOTES, "The measure is eq. 3.37 as printed: not the usual average precision."),
    )  # fmt: skip


def f11(
    ratings: StarRatings,
    *,
    people: int = 24,
    seed: int = 0,
    progress: Progress = silent,
    trials: Sequence[Trial] | None = None,
) -> Figure:
    """Return the recall of the true 10 nearest neighbours against 1 - cosine of the best attack."""
    found = _trials(ratings, people, seed, progress, trials)
    series = []
    for family in ("blip", "jltpaper"):
        points = []
        for each in _chosen(found, family, None, BEST):
            made = _made(family, each)
            share = recall(ratings.users, ratings.items, made, queries=_NEIGHBOURS_ASKED, seed=seed)
            points.append((1 - each.measured.cosine, share))
        points.sort()
        x, y = zip(*points, strict=True)
        series.append(Series(_named(family), x, y))
    blip, jlt = series
    middle = max(blip.x[0], jlt.x[0]) / 2 + min(blip.x[-1], jlt.x[-1]) / 2
    crossed = blip.at(middle), jlt.at(middle)
    return Figure(
        "F11", PAPER, "Neighbours found, against what an attacker finds",
        f"1 - cosine of the attack: {BEST}", "recall of the 10 nearest",
        log_x=False, log_y=False, series=tuple(series),
        published=(
            Published(
                "at equal privacy JLT finds slightly more neighbours", "JLT above BLIP",
                f"at {middle:.2f}: JLT {crossed[1]:.2f}, BLIP {crossed[0]:.2f}",
                agrees=crossed[1] > crossed[0],
            ),
        ),
        notes=_NOTES,
    )  # fmt: skip


_X = "epsilon per item and release"
_NOTES = (
    "Digg is not published any more; the measured values are of the ratings given.",
    "Codewords of a projection are signs, of length exactly 1, instead of normal numbers. The "
    "noise at epsilon 600 is next to none, which proves nothing; 24 takes its place.",
    "Sizes are drawn to the mean of the training users; the thesis uses the noisy estimate alone, "
    "which for projections carries no information at epsilon 3 and below.",
    "A share of profiles is attacked; quantiles are over these.",
)


def _trials(
    ratings: StarRatings,
    people: int,
    seed: int,
    progress: Progress,
    trials: Sequence[Trial] | None,
) -> list[Trial]:
    if trials is not None:
        return list(trials)
    attacks = tuple(each for each in ATTACKS if each != "slots paper")
    plan = replace(Plan(), attacks=attacks, seed=seed)
    return reconstructions(ratings, people=people, plan=plan, progress=progress)


def _chosen(
    trials: Sequence[Trial], family: str, epsilon: float | None, attack: str | None = None
) -> list[Trial]:
    """Return the trials of a family, at one epsilon or all, by one attack or all."""
    return [
        each
        for each in trials
        if each.mechanism.startswith(f"{family}:")
        and (epsilon is None or each.epsilon == epsilon)
        and (attack is None or each.attack == attack)
    ]


def _attacks(trials: Sequence[Trial]) -> list[str]:
    return list(dict.fromkeys(each.attack for each in trials))


def _named(family: str) -> str:
    return {"blip": "BLIP", "jltpaper": "JLT"}[family]


def _made(family: str, trial: Trial) -> ProfileMechanism:
    assert trial.epsilon is not None, "every mechanism of the figures has noise"
    return _mechanism(family, Fraction(trial.epsilon).limit_denominator(100))


def _mechanism(family: str, epsilon: Fraction) -> ProfileMechanism:
    if family == "blip":
        return Blip(_BITS, _HASHES, epsilon)
    return JltPaper(_PROJECTIONS, epsilon, _DELTA)


def _series(name: str, trials: Sequence[Trial], column: str) -> Series:
    x = tuple(each.epsilon or 0.0 for each in trials)
    return Series(name, x, tuple(float(getattr(each.measured, column)) for each in trials))
