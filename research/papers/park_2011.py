"""Figures of Park and Acharya 2011, section 3: lists from scores with noise, and who sees through.

    F3   share of a user's 20 best that the noise replaces, against epsilon (figure 1a)
    F4   guesses of one rating by the linear adversary that are right, against epsilon (figure 1b)
    F5   utility, 1 - the first, against risk, the second (figure 2)

Slope One with phi = 10 over the 1,682 items with most ratings, users with T = 20 ratings or more,
and Delta f = .5 as in the experiment, which takes the range of 1 .. 5 stars for 5. The unknown
rating is drawn uniformly, so chance is 1 / 5; the paper takes the user's own.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.audits import linear
from research.audits.linear_runs import PRINTED, Profile, attack_all
from research.noise_once import Rows, recent_lists
from research.papers.figure import (
    NO_CLAIM,
    Figure,
    Progress,
    Published,
    Series,
    StarRatings,
    silent,
)
from research.papers.park_2011_sets import PAPER
from research.score_noise.damped import DampedLists
from research.score_noise.printed import (
    LEAST_PROFILE,
    LEAST_RATERS,
    LIST,
    PRINTED_RANGE,
    PrintedLaplace,
    slope_one_sensitivity,
)
from research.similarity import cosine, slope_one
from research.similarity.noised_sums import NoisePlan, exact_sums, plan_for, release, table_of
from research.similarity.table import CoRatingTable, from_ratings
from stream_app.evaluation.campaigns.campaign_lists import DELTA
from stream_app.evaluation.scope_errors import most_rated_items
from stream_app.privacy.randomness import SeededSource

ITEMS = 1_682
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0)
SENSITIVITY = slope_one_sensitivity(span=PRINTED_RANGE)  # .5
_MOST_ONCE = 500.0  # epsilon of a release that is noised once
_X = "epsilon"

Floats = NDArray[np.float64]


class World(NamedTuple):
    """The table of the most rated items, its co-ratings as lists of devices, and some users."""

    table: CoRatingTable
    rows: Rows
    people: int
    served: list[Profile]


def f3(
    ratings: StarRatings, *, people: int = 100, seed: int = 0, progress: Progress = silent
) -> Figure:
    """Return the share of different items in the 20 best, mean of so many users."""
    world = world_of(ratings, people, seed)
    printed = _printed_differences(world, seed)
    steps = len(EPSILONS) + 2
    progress(1, steps)
    damped = _damped_differences(world, seed)
    progress(2, steps)
    once = _once_differences(world, seed, lambda done, _: progress(2 + done, steps))
    fell = printed[-1] < 0.1 < 0.9 < printed[0]
    return Figure(
        "F3", PAPER, f"Items of the {LIST} best that noise replaces", _X,
        "share of different items", log_x=True, log_y=True,
        series=(
            _series("Laplace on scores, as printed (no guarantee)", printed),
            _series("damped scores, ordered list (epsilon for each list)", damped),
            _series("noise once (epsilon for everything a user reported)", once),
        ),
        published=(
            Published(
                "the difference falls to 0 as epsilon grows", "1 to 0",
                f"{printed[0]:.2f} at {EPSILONS[0]:g}, {printed[-1]:.2f} at {EPSILONS[-1]:g}",
                agrees=fell,
            ),
            Published(
                f"epsilon is the cost of the list of {LIST}", "epsilon",
                f"up to {2 * LIST} epsilon for its order, and the sensitivity fails on four inputs",
                agrees=False,
            ),
        ),
        notes=(
            "Each series is compared with its own list without noise: Slope One as printed, damped "
            "Slope One, cosine of the sums. The last two are private as they say; noise once has "
            f"epsilon {_MOST_ONCE:g} where more is drawn.",
            "The paper names neither the file nor the split; the table is made of all ratings.",
        ),
    )  # fmt: skip


def f4(
    ratings: StarRatings, *, people: int = 200, seed: int = 0, progress: Progress = silent
) -> Figure:
    """Return the share of right guesses of the linear adversary on scores as printed."""
    world = world_of(ratings, people, seed)
    found = _risks(world, seed, progress)
    forms = [linear.success(10.0, len(each.slots), SENSITIVITY).plain for each in world.served]
    expected, measured = float(np.mean(forms)), found["plain"][EPSILONS.index(10.0)]
    error = 4 * (0.25 / len(world.served)) ** 0.5
    first = found["clamped"][0]
    return Figure(
        "F4", PAPER, "One unknown rating, guessed from scores with noise", _X,
        "share of right guesses", log_x=True, log_y=False,
        series=tuple(_series(name, values) for name, values in found.items()),
        published=(
            Published(
                "accuracy is close to zero as epsilon goes to 0", "0",
                f"plain {found['plain'][0]:.2f}, clamped to the scale {first:.2f}",
                agrees=False,
            ),
            Published(
                "the adversary is ideal: at epsilon 0 it guesses at random (Definition 3)",
                f"{linear.CHANCE:.2f}", f"plain {found['plain'][0]:.2f}",
                agrees=abs(found["plain"][0] - linear.CHANCE) < error,
            ),
            Published(
                "plain guess in closed form, epsilon 10", f"{expected:.3f}", f"{measured:.3f}",
                agrees=abs(expected - measured) < error,
            ),
        ),
        notes=(
            f"Averaged: over {LIST} scores of one user; the scores of the shown list are chosen by "
            "their noise, so items are drawn at random here.",
        ),
    )  # fmt: skip


def f5(
    ratings: StarRatings, *, people: int = 200, seed: int = 0, progress: Progress = silent
) -> Figure:
    """Return risk against utility of scores as printed, a point for each epsilon."""
    world = world_of(ratings, people, seed)
    utility = [1 - each for each in _printed_differences(world, seed)]
    found = _risks(world, seed, progress)
    order = np.argsort(utility, kind="stable")
    x = tuple(utility[at] for at in order)
    series = tuple(Series(name, x, tuple(y[at] for at in order)) for name, y in found.items())
    at_70 = {each.name: each.at(0.7) if x[0] <= 0.7 <= x[-1] else float("nan") for each in series}
    worst = max(at_70.values())
    return Figure(
        "F5", PAPER, "Risk against utility of scores with noise", "utility", "risk",
        log_x=False, log_y=False, series=series,
        published=(
            Published(
                "70 % utility at 4 % risk", "4 %",
                ", ".join(f"{name} {100 * value:.0f} %" for name, value in at_70.items()),
                agrees=bool(worst <= 0.05),
            ),
            Published(
                "the curve begins at (0, 0)", "risk 0 without utility",
                f"clamped {100 * series[1].y[0]:.0f} %: chance", agrees=False,
            ),
        ),
        notes=(
            f"Risk: {NO_CLAIM} about what the {LIST} shown scores give together; that is the last "
            "series.",
        ),
    )  # fmt: skip


def world_of(ratings: StarRatings, people: int, seed: int) -> World:
    """Return the table, and users drawn among those with 20 ratings of it or more.

    Raises ValueError where there is no such user, or too few items to list.
    """
    scope = most_rated_items(ratings.items, min(ITEMS, len(np.unique(ratings.items))))
    inside = np.isin(ratings.items, scope)
    names, users = np.unique(ratings.users[inside], return_inverse=True)
    items = np.searchsorted(np.sort(scope), ratings.items[inside])
    rows = Rows(users, items, ratings.stars[inside])
    table = from_ratings(users, items, rows.stars, np.arange(len(scope)))
    order = np.argsort(users, kind="stable")
    parts = np.split(order, np.searchsorted(users[order], np.arange(1, len(names))))
    most = len(scope) - 2 * LIST
    served = [part for part in parts if LEAST_PROFILE <= len(part) <= most]
    if not served:
        raise ValueError(
            f"no user has {LEAST_PROFILE} to {most} ratings of the {len(scope)} items: too few to "
            "list"
        )
    drawn = np.random.default_rng(seed).permutation(len(served))[:people]
    profiles = [Profile(items[served[at]], rows.stars[served[at]]) for at in np.sort(drawn)]
    return World(table, rows, len(names), profiles)


def _printed_differences(world: World, seed: int) -> list[float]:
    """Return the share of different items for each epsilon, by the mechanism as printed."""
    deviations = slope_one.deviations(world.table, least=LEAST_RATERS)
    generator = np.random.default_rng((seed, 3))
    found = np.zeros(len(EPSILONS))
    for profile in world.served:
        scores = _unrated(slope_one.predict(deviations, *profile), profile)
        best = _best(scores)
        for at, epsilon in enumerate(EPSILONS):
            mechanism = PrintedLaplace(epsilon, SENSITIVITY)
            noised = _best(mechanism.release(scores, generator))
            found[at] += 1 - len(np.intersect1d(best, noised)) / LIST
    return [float(each) for each in found / len(world.served)]


def _damped_differences(world: World, seed: int) -> list[float]:
    """Return the same for ordered lists from damped scores."""
    source, found = SeededSource(seed), np.zeros(len(EPSILONS))
    forms = [
        DampedLists("slope-one", Fraction(epsilon), LIST, rated_left_out=True)
        for epsilon in EPSILONS
    ]
    deviations = slope_one.deviations(world.table, forms[0].damping)
    for profile in world.served:
        every = slope_one.predict(deviations, *profile, forms[0].least_profile)
        best = _best(_unrated(every, profile))
        for at, lists in enumerate(forms):
            drawn = lists.release(every, profile.slots, source)
            found[at] += 1 - len(np.intersect1d(best, drawn)) / LIST
    return [float(each) for each in found / len(world.served)]


def _once_differences(world: World, seed: int, progress: Progress) -> list[float]:
    """Return the same for lists by cosine from sums that are noised once, up to epsilon 500."""
    keys = np.arange(len(world.table), dtype=np.uint64)
    _, lists = recent_lists(world.rows, world.people, len(keys))
    # Slots of `recent_lists` are by number of ratings: so is this order of the profiles' items.
    counts = np.bincount(world.rows.items, minlength=len(keys))
    place = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
    plan = NoisePlan(len(keys), 2**15, Fraction(4), differences=False)
    clean = table_of(plan, exact_sums(plan, lists), keys)
    found = []
    for epsilon in EPSILONS:
        planned = plan_for(min(epsilon, _MOST_ONCE), DELTA, len(keys), differences=False)
        noised = release(planned, lists, keys, SeededSource(seed))
        tables = [cosine.similarities(each, noised.damping) for each in (clean, noised.table)]
        shares = []
        for profile in world.served:
            own = Profile(place[profile.slots], profile.stars)
            first, second = (
                _best(_unrated(cosine.scores(similar, own.slots), own)) for similar in tables
            )
            shares.append(1 - len(np.intersect1d(first, second)) / LIST)
        found.append(float(np.mean(shares)))
        progress(len(found), len(EPSILONS))
    return found


def _risks(world: World, seed: int, progress: Progress) -> dict[str, list[float]]:
    """Return the shares of right guesses by name, for each epsilon."""
    found: dict[str, list[float]] = {"plain": [], "clamped": [], f"averaged over {LIST}": []}
    for at, epsilon in enumerate(EPSILONS):
        (each,) = attack_all(
            world.table,
            world.served,
            Fraction(epsilon),
            published=LIST,
            only=(PRINTED,),
            sensitivity=SENSITIVITY,
            seed=seed + at,
        )
        for values, share in zip(
            found.values(), (each.plain, each.clamped, each.averaged), strict=True
        ):
            values.append(share or 0.0)
        progress(at + 1, len(EPSILONS))
    return found


def _unrated(scores: NDArray[np.floating], profile: Profile) -> Floats:
    """Return the scores with those of rated items below all others."""
    found = np.array(scores, np.float64)
    found[profile.slots] = -1e9
    return found


def _best(scores: Floats) -> NDArray[np.intp]:
    return np.argsort(-scores, kind="stable")[:LIST]


def _series(name: str, values: list[float]) -> Series:
    return Series(name, EPSILONS, tuple(values))
