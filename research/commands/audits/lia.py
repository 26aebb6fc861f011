"""`murmurec audit lia`: the linear adversary against every mechanism of items that go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from producers.datasets.load import Dataset, load
from research.audits import linear
from research.audits.linear_runs import Attacked, Profile, attack_all
from research.score_noise.printed import LEAST_PROFILE
from research.similarity.table import CoRatingTable, from_ratings
from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.output import Advance, print_json, say, table
from stream_app.errors import UsageError, UserError

_MOST_EPSILON = 500
_MOST_ITEMS = 4_096


class LiaOptions(NamedTuple):
    """The options of the command."""

    file: Path
    epsilons: tuple[str, ...]
    users: int
    items: int
    published: int
    seed: int


@dataclass(frozen=True)
class Shown:
    """What the adversary got, by epsilon and mechanism, and how it is shown."""

    attacked: tuple[Attacked, ...]
    items: int
    published: int

    def show(self, *, as_json: bool) -> None:
        """Print the table."""
        if as_json:
            rows = [asdict(each) | {"broken": each.broken} for each in self.attacked]
            print_json(
                {"items": self.items, "published": self.published, "attacked": rows}, indent=1
            )
            return
        users = self.attacked[0].users
        table(
            ("epsilon", "mechanism", "plain", "clamped", "averaged", "best", "epsilon allows"),
            [
                (
                    f"{each.epsilon:g}",
                    each.mechanism,
                    *(_percent(share) for share in (each.plain, each.clamped, each.averaged)),
                    f"{_percent(each.best)}{' !' if each.broken else ''}",
                    _percent(each.allowed),
                )
                for each in self.attacked
            ],
            title=f"one unknown rating of {users:,} users, {self.items:,} items, "
            f"{self.published} published; chance {_percent(linear.CHANCE)}",
        )
        claims = {each.mechanism: each.claimed for each in self.attacked}
        for mechanism, claimed in claims.items():
            say(f"{mechanism}: its epsilon is said to protect {claimed}")
        if broken := sorted({each.mechanism for each in self.attacked if each.broken}):
            say(f"! more than the claimed epsilon allows, beyond chance: {', '.join(broken)}")
        say(
            "the adversary knows all other ratings; a guess that fails proves nothing. A list that "
            "a device makes from noised sums, shown with its scores, gives its own ratings away"
        )


def measured(options: LiaOptions, progress: Advance) -> Shown:
    """Return what the adversary got; UsageError for options, UserError for a file that it cannot be
    tried on."""
    for name, value, most in (
        ("--users", options.users, 100_000),
        ("--items", options.items, _MOST_ITEMS),
        ("--published", options.published, _MOST_ITEMS),
    ):
        if not 1 <= value <= most:
            raise UsageError(f"{name} {value}: give 1 to {most}")
    epsilons = [positive_fraction("--epsilon", each) for each in options.epsilons]
    for epsilon in epsilons:
        if epsilon > _MOST_EPSILON:
            raise UsageError(f"--epsilon {float(epsilon):g}: give {_MOST_EPSILON} at most")
    tables, profiles = _table(load(options.file), options)
    try:
        found = tuple(_attacked(tables, profiles, epsilons, options, progress))
    except ValueError as error:
        raise UserError(f"{options.file}: {error}") from None
    return Shown(found, len(tables), options.published)


def _attacked(
    table: CoRatingTable,
    profiles: list[Profile],
    epsilons: list[Fraction],
    options: LiaOptions,
    progress: Advance,
) -> Iterator[Attacked]:
    for place, epsilon in enumerate(epsilons):

        def advance(done: int, total: int, before: int = place) -> None:
            progress(before * total + done, len(epsilons) * total)

        yield from attack_all(
            table,
            profiles,
            epsilon,
            published=options.published,
            seed=options.seed,
            progress=advance,
        )


def _table(data: Dataset, options: LiaOptions) -> tuple[CoRatingTable, list[Profile]]:
    """Return the table of the most rated items, and profiles of users drawn by the seed."""
    items, places = np.unique(np.asarray(data.items), return_inverse=True)
    kept = np.argsort(-np.bincount(places), kind="stable")[: options.items]
    place = np.full(len(items), -1, np.intp)
    place[kept] = np.arange(len(kept))
    people, users = np.unique(np.asarray(data.users), return_inverse=True)
    stars = 1 + 4 * data.levels / (data.scale.levels - 1)
    found = from_ratings(users, places, stars, kept)
    rows = np.flatnonzero(place[places] >= 0)
    _, first = np.unique(users[rows] * len(kept) + place[places[rows]], return_index=True)
    rows = rows[first]  # a cell that occurs again counts once, as in the table
    bounds = np.searchsorted(users[rows], np.arange(1, len(people)))
    profiles = [
        Profile(place[places[part]], stars[part].astype(float)) for part in np.split(rows, bounds)
    ]
    served = [
        each
        for each in profiles
        if LEAST_PROFILE <= len(each.slots) <= len(kept) - options.published
    ]
    order = np.random.default_rng(options.seed).permutation(len(served))[: options.users]
    return found, [served[at] for at in np.sort(order).tolist()]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"
