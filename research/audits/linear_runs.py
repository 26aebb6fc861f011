"""The linear adversary against the item-to-item mechanisms, on real profiles.

Of each user under attack one rating is replaced by a star drawn uniformly, so that chance is 1 / 5
whatever people rate; the adversary knows everything else: all other ratings, the user's other ones,
the mechanism. What is published, per user:

    printed    p scores of plain Slope One with Laplace noise, as printed      `score_noise/printed`
    damped     p damped scores, Laplace noise of scale p Delta / epsilon
    list       the order of the p best by damped scores, nothing else          `score_noise/damped`
    once       the sums of what devices rated together, noised once      `similarity/noised_sums`

The first three name one epsilon for the list; that of the last covers everything that the user ever
reported, and holds for any number of lists of others. A user's own list made from it on the device
is not part of it: shown to others with its scores, it gives the rating away.

Guesses: plain, clamped, averaged as in `linear.py`; best: the star that makes what was published
most likely. Where the claim holds, `best` is at most `linear.allowed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from research.audits import linear
from research.score_noise.damped import DampedLists
from research.score_noise.k_subset import check_epsilon
from research.score_noise.printed import (
    LEAST_PROFILE,
    LEAST_RATERS,
    LIST,
    PrintedLaplace,
    slope_one_sensitivity,
)
from research.similarity import slope_one
from research.similarity.noised_sums import contribution, plan_for
from research.similarity.table import CoRatingTable
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import RandomSource, SeededSource

DELTA = Fraction(1, 10**6)
PRINTED = PrintedLaplace.label
NO_GUESS = -1
_LEVELS = np.arange(1, linear.STARS + 1)

Progress = Callable[[int, int], None]


class Profile(NamedTuple):
    """What a user rated: slots (m,) of the table and stars (m,), in time order."""

    slots: NDArray[np.intp]
    stars: NDArray[np.float64]


class Guesses(NamedTuple):
    """The guessed star of each way; `NO_GUESS` where a way has nothing to guess from."""

    plain: int
    clamped: int
    averaged: int
    best: int


@dataclass(frozen=True)
class Attacked:
    """How often each guess was right, of `users`; None for a way that does not apply.

    claimed: what the epsilon is said to protect. allowed: the most that `best` may be right in the
    long run if that epsilon held; `broken` where it is above by more than chance explains.
    """

    mechanism: str
    claimed: str
    epsilon: float
    users: int
    plain: float | None
    clamped: float | None
    averaged: float | None
    best: float
    allowed: float

    @property
    def broken(self) -> bool:
        """Whether `best` exceeds `allowed` by four standard errors: 1 in 30,000 by chance."""
        error = (max(self.allowed * (1 - self.allowed), 1e-9) / self.users) ** 0.5
        return bool(self.best > self.allowed + 4 * error + 1e-12)


class _World(NamedTuple):
    table: CoRatingTable
    epsilon: Fraction
    published: int
    sensitivity: float  # of the mechanism as printed
    seed: int


Attack = Callable[[Profile, int], Guesses]


def attack_all(
    table: CoRatingTable,
    profiles: Sequence[Profile],
    epsilon: Fraction,
    *,
    published: int = LIST,
    only: Sequence[str] = (),
    sensitivity: float | None = None,
    seed: int = 0,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 (a silent default)
) -> tuple[Attacked, ...]:
    """Return the success against each mechanism on users with 20 ratings of the table or more.

    only: of `MECHANISMS`, all by default. sensitivity: Delta f of the printed mechanism, of stars
    1 .. 5 by default. Raises ValueError for an epsilon that is none, no such
    user, or a table too small to publish `published` items that a user has not rated.
    """
    served = [each for each in profiles if len(each.slots) >= LEAST_PROFILE]
    if not served:
        raise ValueError(
            f"no user has {LEAST_PROFILE} ratings of the {len(table)} items: take more items, or a "
            "file with more ratings"
        )
    most = max(len(each.slots) for each in served)
    if published < 1 or len(table) - most < published:
        raise ValueError(
            f"{published} published items: a user has rated {most} of the {len(table)}; "
            f"give 1 to {len(table) - most}"
        )
    check_epsilon(epsilon)
    world = _World(table, epsilon, published, sensitivity or slope_one_sensitivity(), seed)
    names = tuple(only) or tuple(MECHANISMS)
    found: list[Attacked] = []

    def advance(users: int) -> None:
        progress(len(found) * len(served) + users, len(names) * len(served))

    for name in names:
        found.append(_attacked(name, world, served, advance))
    return tuple(found)


def _attacked(
    name: str, world: _World, served: Sequence[Profile], progress: Callable[[int], None]
) -> Attacked:
    """Return how the adversary did against one mechanism."""
    claimed, build, delta = MECHANISMS[name]
    attack = build(world)
    generator = np.random.default_rng((world.seed, 1))
    right, guessed = np.zeros(4), np.zeros(4, bool)
    for number, profile in enumerate(served):
        attacked = int(generator.integers(len(profile.slots)))
        truth = int(generator.integers(1, linear.STARS + 1))
        stars = profile.stars.copy()
        stars[attacked] = truth
        guesses = np.array(attack(Profile(profile.slots, stars), attacked))
        right += guesses == truth
        guessed |= guesses != NO_GUESS
        progress(number + 1)
    plain, clamped, averaged, best = (
        float(share) if some else None
        for share, some in zip(right / len(served), guessed, strict=True)
    )
    assert best is not None
    bound = linear.allowed(float(world.epsilon), delta)
    users, epsilon = len(served), float(world.epsilon)
    return Attacked(name, claimed, epsilon, users, plain, clamped, averaged, best, bound)


def printed_attack(world: _World) -> Attack:
    """Return the attack on scores as printed: any unrated items, `published` of them."""
    mechanism = PrintedLaplace(float(world.epsilon), world.sensitivity)
    deviations = slope_one.deviations(world.table, least=LEAST_RATERS)
    generator = np.random.default_rng((world.seed, 2))

    def attack(profile: Profile, attacked: int) -> Guesses:
        targets = _unrated(world, profile, generator)
        rows = deviations[np.ix_(targets, profile.slots)].T
        exact = profile.stars.mean() + rows.mean(axis=0, dtype=float)
        scores = mechanism.release(exact, generator)
        estimates = linear.slope_one_estimates(scores, rows, profile.stars, attacked)
        distances = np.abs(estimates - _LEVELS[:, None]).sum(axis=1)  # of Laplace: in b, times m
        return _guesses(estimates, int(distances.argmin()) + 1)

    return attack


def damped_attack(world: _World) -> Attack:
    """Return the attack on damped scores, whose noise covers `published` of them at once."""
    lists = _damped(world)
    mechanism = PrintedLaplace(float(world.epsilon), lists.sensitivity * world.published)
    deviations = slope_one.deviations(world.table, lists.damping)
    generator = np.random.default_rng((world.seed, 3))

    def attack(profile: Profile, attacked: int) -> Guesses:
        targets = _unrated(world, profile, generator)
        rows = -deviations[np.ix_(profile.slots, targets)]  # s_jk as (m, p)
        terms = np.clip(profile.stars[:, None] + rows, 1, 5) - slope_one.MIDDLE
        divisor = max(len(profile.slots), lists.least_profile)
        scores = mechanism.release(slope_one.MIDDLE + terms.sum(axis=0) / divisor, generator)
        others = terms.sum(axis=0) - terms[attacked]
        estimates = divisor * (scores - slope_one.MIDDLE) - others + slope_one.MIDDLE
        possible = np.clip(_LEVELS[:, None] + rows[attacked], 1, 5)
        distances = np.abs(estimates - possible).sum(axis=1)
        return _guesses(estimates - rows[attacked], int(distances.argmin()) + 1)

    return attack


def list_attack(world: _World) -> Attack:
    """Return the attack on the ordered ids: the star that makes the list most likely."""
    lists = _damped(world)
    deviations = slope_one.deviations(world.table, lists.damping)
    source = SeededSource(world.seed + 4)
    generator = np.random.default_rng((world.seed, 4))
    selection = lists.selection

    def attack(profile: Profile, attacked: int) -> Guesses:
        left = np.setdiff1d(np.arange(len(world.table)), profile.slots)

        def scores(star: float | np.integer) -> NDArray[np.floating]:
            stars = profile.stars.copy()
            stars[attacked] = star
            found = slope_one.predict(deviations, profile.slots, stars, lists.least_profile)
            return np.asarray(found[left])

        drawn = selection.release(scores(profile.stars[attacked]), source)
        likely = np.array([selection.log_likelihood(drawn, scores(star)) for star in _LEVELS])
        equal = np.flatnonzero(likely >= likely.max() - 1e-12)
        return Guesses(NO_GUESS, NO_GUESS, NO_GUESS, int(generator.choice(equal)) + 1)

    return attack


def once_attack(world: _World) -> Attack:
    """Return the attack on noised sums, of which all but the user's own part is subtracted.

    The linear guess solves a difference z_l - z_k for z_l, by the weight of a middle star.
    """
    items = len(world.table)
    plan = plan_for(world.epsilon, DELTA, items)
    source: RandomSource = SeededSource(world.seed + 5)

    def added(profile: Profile, attacked: int, star: float | np.integer) -> NDArray[np.int64]:
        stars = profile.stars.copy()
        stars[attacked] = star
        own = contribution(profile.slots, stars, items, plan.bound, differences=True)
        return own.integers.astype(np.int64)  # its places are those of the slots, whatever the star

    def attack(profile: Profile, attacked: int) -> Guesses:
        candidates = [added(profile, attacked, star) for star in _LEVELS]
        seen = candidates[int(profile.stars[attacked]) - 1]
        seen = seen + discrete_gaussian(plan.variance, len(seen), source)
        distances = [float(np.square((seen - each).astype(float)).sum()) for each in candidates]
        low, high = candidates[0].astype(float), candidates[-1].astype(float)
        moved = high - low
        carries = np.abs(moved) > np.abs(moved).max() / 2  # differences of the attacked rating
        if not carries.any():  # a grid so coarse that no rating shows
            return Guesses(3, 3, 3, int(np.argmin(distances)) + 1)
        estimates = 1 + (linear.STARS - 1) * (seen - low)[carries] / moved[carries]
        return _guesses(estimates, int(np.argmin(distances)) + 1)

    return attack


def _guesses(estimates: NDArray[np.float64], best: int) -> Guesses:
    """Return the guesses from the first estimate, and from the mean of all, clamped."""
    first, mean = estimates[:1], estimates.mean(keepdims=True)
    ways = (linear.plain(first), linear.clamped(first), linear.clamped(mean))
    alone, clamped, averaged = (int(each[0]) for each in ways)
    return Guesses(max(alone, 0), clamped, averaged, best)  # 0 is off the scale too


def _damped(world: _World) -> DampedLists:
    return DampedLists("slope-one", world.epsilon, world.published, rated_left_out=True)


def _unrated(world: _World, profile: Profile, generator: np.random.Generator) -> NDArray[np.intp]:
    left = np.setdiff1d(np.arange(len(world.table)), profile.slots)
    return np.asarray(generator.choice(left, world.published, replace=False))


_VALUE = "the value of a rating, for the list"
_ANYONE = "an own rating or all of another user, for the list"
_EVERYTHING = f"all of a user, for any number of lists; delta {float(DELTA):g}"

# Name -> what its epsilon is said to protect, the attack, delta.
MECHANISMS: dict[str, tuple[str, Callable[[_World], Attack], float]] = {
    PRINTED: (_VALUE, printed_attack, 0.0),
    "damped scores": (_ANYONE, damped_attack, 0.0),
    "damped, list alone": (_ANYONE, list_attack, 0.0),
    "noise once": (_EVERYTHING, once_attack, float(DELTA)),
}
