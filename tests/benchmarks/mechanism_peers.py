"""Sampling beside OpenDP: the same law and the same epsilon, one thread, the system's entropy.

    rr:5:2               randomized response over five levels    make_randomized_response
    like:5:2             randomized response of one bit          make_randomized_response_bool
    blip:5000:20:28      5,000 bits, flipped independently       make_randomized_response_bitvec
    discrete Gaussian    integers, sigma 16,384                  make_gaussian, over vectors

Ours releases reports of many users in a call, through a ticket as on a device; OpenDP's calls take
one rating, and whole vectors for the last two. OpenDP states the epsilon of its own object, and the
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
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.randomness import SystemSource
from stream_app.privacy.ticket import TicketIssuer
from tests.benchmarks import contest
from tests.benchmarks.contest import Contender, not_installed
from tests.benchmarks.figure import Figure

MANY, FEW = 1_000_000, 2_000  # releases of ours and of OpenDP in a round
PROFILES, PROFILES_OF_PEER = 40, 10
LENGTH, HASHES, PROFILE_EPSILON = 5_000, 20, 28
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
            f"blip:{LENGTH}:{HASHES}:{PROFILE_EPSILON}, bits", _profiles(), PROFILES * LENGTH
        ),
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


def _profiles() -> Callable[[Any], object]:
    mechanism, issuer = (
        Blip(LENGTH, HASHES, Fraction(PROFILE_EPSILON)),
        TicketIssuer(SystemSource()),
    )
    issuer.admit(mechanism)
    items = np.arange(100, dtype=np.uint64)
    return lambda _: [
        mechanism.release(items, issuer.ticket(mechanism, 1)) for _ in range(PROFILES)
    ]


def _theirs(dp: Any) -> list[Contender]:
    dp.enable_features("contrib")
    odds = math.exp(2)
    stars = dp.m.make_randomized_response(list(range(5)), odds / (odds + 4))
    bit = dp.m.make_randomized_response_bool(prob=odds / (odds + 1))
    # Its epsilon is of a profile replaced by another; ours is of an item more, which sets at most
    # HASHES bits: as many bits differ between two profiles of HASHES / 2 bits each.
    flip = 1 / (1 + math.exp(PROFILE_EPSILON / HASHES))
    profile = dp.m.make_randomized_response_bitvec(
        dp.bitvector_domain(max_weight=HASHES // 2), dp.discrete_distance(), f=2 * flip
    )
    for made, epsilon in ((stars, 2), (bit, 2), (profile, PROFILE_EPSILON)):
        if not math.isclose(made.map(1), epsilon, rel_tol=1e-9):
            raise RuntimeError(f"opendp: epsilon {made.map(1)} instead of {epsilon}: no comparison")
    noise = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=float(SIGMA)
    )
    empty, zeros = bytes(LENGTH // 8), [0] * COORDINATES
    return [
        Contender(OPENDP.format(name), lambda _, run=run: run(), units)
        for (name, run, units) in (
            ("rr:5:2", lambda: [stars(3) for _ in range(FEW)], FEW),
            ("like:5:2", lambda: [bit(True) for _ in range(FEW)], FEW),
            (
                f"blip:{LENGTH}:{HASHES}:{PROFILE_EPSILON}, bits",
                lambda: [profile(empty) for _ in range(PROFILES_OF_PEER)],
                PROFILES_OF_PEER * LENGTH,
            ),
            ("discrete Gaussian", lambda: noise(zeros), COORDINATES),
        )
    ]
