"""F20 of Guerraoui et al. 2017 (X-Map): MAE against the epsilons of replacement and neighbours.

    epsilon     of one replaced item (PRS), the horizontal axis
    epsilon'    of one neighbourhood (PNSA and PNCF), a curve each

Ratings are carried and predicted as in the paper; the mechanisms are the corrected ones, with one
proved sensitivity, since the printed ones protect nothing at any epsilon. The report that we have
prints theorems only; what it claims of the surface is its shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from research.papers.figure import NO_CLAIM, Figure, Progress, Published, Series, silent
from research.xmap import methods
from research.xmap.measured import errors
from research.xmap.task import TwoDomains, cold_task
from research.xmap.x_map import Corrected, XMapOptions

PAPER = "Guerraoui et al. 2017"
EPSILONS = (1.0, 5.0, 20.0, 80.0, 320.0)
NEIGHBOUR_EPSILONS = (1.0, 10.0, 100.0, 1000.0)
USERS = 100  # cold ones, at most
FLAT = 5.0  # below it, replacement is nearly uniform
SEEN = 0.005  # stars: draws of 100 users differ by as much


def f20(
    ratings: TwoDomains,
    *,
    epsilons: Sequence[float] = EPSILONS,
    neighbour_epsilons: Sequence[float] = NEIGHBOUR_EPSILONS,
    draws: int = 3,
    progress: Progress = silent,
    seed: int = 0,
) -> Figure:
    """Return the MAE for cold users of the target domain, the mean of `draws` draws of all noise.

    epsilons: rising, finite. Raises ValueError for domains that cannot be measured.
    """
    task = cold_task(ratings, seed)
    task = replace(task, cold=task.cold[:USERS])
    base = XMapOptions(as_printed=True)
    corrected = Corrected(task, base.damping)
    curves, done = [], 0
    for each in (*neighbour_epsilons, math.inf):
        found = []
        for epsilon in epsilons:
            options = replace(base, epsilon=epsilon, epsilon_neighbours=each)
            runs = [
                errors(task, corrected.predict(replace(options, seed=seed * 1000 + draw)))[0]
                for draw in range(draws)
            ]
            found.append(float(np.mean(runs)))
            done += 1
            progress(done, len(epsilons) * (len(neighbour_epsilons) + 1))
        name = "no noise on neighbours" if each == math.inf else f"epsilon' = {each:g}"
        curves.append(Series(name, tuple(epsilons), tuple(found)))
    free = errors(task, corrected.predict(base))[0]
    means = errors(task, methods.item_mean(task))[0]
    constant = (
        Series("no noise at all", tuple(epsilons), (free,) * len(epsilons)),
        Series("item means", tuple(epsilons), (means,) * len(epsilons)),
    )
    return Figure(
        "F20", PAPER, f"X-Map, {len(task.cold)} cold users, {ratings.targets:,} target items",
        "epsilon of a replaced item", "MAE, stars", log_x=True, log_y=False,
        series=(*curves, *constant), published=_claims(curves, free, means, base.most),
        notes=(
            f"Epsilon is of one replaced item, epsilon' of one neighbourhood: a reply with "
            f"{base.most} of each costs another person {base.most} times their sum.",
            "Mean ratings of items count as public; the noise covers what similarities reveal.",
            "The printed mechanisms are not on the figure: their sensitivity is no bound, so that "
            "their epsilons compare with nothing.",
            "The data and the curves of the paper are not in the report; the shape is compared.",
        ),
    )  # fmt: skip


def _claims(
    curves: Sequence[Series], free: float, means: float, replaced: int
) -> tuple[Published, ...]:
    y = np.array([each.y for each in curves])
    x = np.array(curves[0].x)
    mean = y.mean(axis=0)
    fallen = float(mean[0] - mean[-1])
    by_neighbours = float(y[0].mean() - y[-1].mean())
    low = mean[x <= FLAT]
    spread = float(low.max() - low.min()) if len(low) else 0.0
    worst = float(mean[0] - free)
    return (
        Published(
            "MAE with epsilon", "falls", f"by {fallen:.3f} from {x[0]:g} to {x[-1]:g}",
            agrees=fallen > SEEN,
        ),
        Published(
            "MAE with epsilon'", "falls",
            f"by {by_neighbours:.3f} from {curves[0].name} to no noise",
            agrees=by_neighbours > SEEN,
        ),
        Published(
            f"below epsilon {FLAT:g}", NO_CLAIM,
            f"flat within {spread:.3f}: replacement is nearly uniform", agrees=True,
        ),
        Published(
            "the authors use epsilon .3 to .6 an item", NO_CLAIM,
            f"at {x[0]:g} an item {worst:+.3f} of no noise ({free:.3f}; item means {means:.3f}); "
            f"a reply of {replaced} items costs {replaced * x[0]:g} and {replaced} neighbourhoods",
            agrees=True,
        ),
    )  # fmt: skip
