"""Sampling beside OpenDP: the same law and the same epsilon, one thread, the system's entropy.

    rr:5:2               randomized response over five levels    make_randomized_response
    like:5:2             randomized response of one bit          make_randomized_response_bool
    discrete Gaussian    integers, sigma 16,384                  make_gaussian, over vectors

Ours releases reports of many users in a call, through a ticket as on a device; OpenDP's calls take
one rating, and whole vectors for the last. OpenDP states the epsilon of its own object, and the
benchmark ends if that is another than ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from stream_app.privacy import registry
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import SystemSource
from stream_app.privacy.ticket import TicketIssuer
from tests.benchmarks import contest
from tests.benchmarks.contest import Contender, not_installed
from tests.benchmarks.figure import Figure

MANY, FEW = 1_000_000, 2_000  # releases of ours and of OpenDP in a round
SIGMA, COORDINATES = 2**14, 12_000
TARGETS = {"rr:5:2": ">= 500"}
OPENDP = "OpenDP, {}"


def measure() -> list[Figure]:
    """Return rates of both, and their ratios in one run."""
    ours = _ours()
    dp = contest.peer("opendp.prelude")
    theirs = [] if dp is None else _theirs(dp)
    seconds = contest.contest([*ours, *theirs])
    figures = [each.rate("k/s", 1e-3) for each in seconds.values()]
    if dp is None:
        return [*figures, not_installed("the same of OpenDP", "opendp")]
    for name in (contender.name for contender in ours):
        peer, target = seconds[OPENDP.format(name)], TARGETS.get(name, "")
        figures.append(seconds[name].times_faster_than(peer, target=target))
    return figures


def _ours() -> list[Contender]:
    return [
        Contender("rr:5:2", _released("rr:5:2"), MANY),
        Contender("like:5:2", _released("like:5:2"), MANY),
        Contender(
            "discrete Gaussian",
            lambda _: discrete_gaussian(Fraction(SIGMA**2), MANY, SystemSource()),
            MANY,
        ),
    ]


def _released(id: str) -> Callable[[Any], object]:
    mechanism, issuer = registry.parse(id), TicketIssuer(SystemSource())
    issuer.admit(mechanism)
    levels = np.resize(np.arange(mechanism.inputs, dtype=np.uint8), MANY)
    return lambda _: mechanism.release(levels, issuer.ticket(mechanism, MANY))


def _theirs(dp: Any) -> list[Contender]:
    dp.enable_features("contrib")
    odds = math.exp(2)
    stars = dp.m.make_randomized_response(list(range(5)), odds / (odds + 4))
    bit = dp.m.make_randomized_response_bool(prob=odds / (odds + 1))
    for made in (stars, bit):
        if not math.isclose(made.map(1), 2, rel_tol=1e-9):
            raise RuntimeError(f"opendp: epsilon {made.map(1)} instead of 2: no comparison")
    noise = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=float(SIGMA)
    )
    zeros = [0] * COORDINATES
    return [
        Contender(OPENDP.format(name), lambda _, run=run: run(), units)
        for (name, run, units) in (
            ("rr:5:2", lambda: [stars(3) for _ in range(FEW)], FEW),
            ("like:5:2", lambda: [bit(True) for _ in range(FEW)], FEW),
            ("discrete Gaussian", lambda: noise(zeros), COORDINATES),
        )
    ]
