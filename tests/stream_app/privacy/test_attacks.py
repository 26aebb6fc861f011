"""What is known to break local noise, tried on ours, each beside a victim on which it works.

Least significant bits (Mironov 2012): a floating-point sampler reaches only some of the numbers,
and which ones depends on the input. Timing: a sampler that tries until it succeeds takes longer for
larger noise. Reuse: noise that two processes share. Prediction: noise from a seed.
"""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary
from stream_app.privacy.ticket import TicketIssuer
from tests.naive.exact_samplers import Words
from tests.stream_app.privacy.checks import released

RATINGS = (-1.0, -0.5, 0.0, 0.5, 1.0)  # five stars as in Zheng 2016, Def. 2
TWO = Fraction(2)
ATTACKED = (RandomizedResponse, RandomizedResponseWithMissing, Ternary, ModifiedLaplace, Like)
Rounded = Callable[[float, float, float], float]


def attributable(
    seen: Sequence[object], possible: Callable[[object, int], bool], inputs: int
) -> float:
    """Return the share of reports that only one input can have led to."""
    single = [sum(possible(report, v) for v in range(inputs)) == 1 for report in seen]
    return sum(single) / len(single)


def twice(loc: float, scale: float, log: float) -> float:
    return loc + scale * log


def once(loc: float, scale: float, log: float) -> float:
    return float(Fraction(loc) + Fraction(scale) * Fraction(log))


def laplace_of(u: float, loc: float, scale: float, rounded: Rounded) -> float:
    """Return what numpy's Laplace makes of a uniform number."""
    return rounded(loc, scale, math.log(u + u) if u < 0.5 else -math.log(2.0 - u - u))


def rounding_here() -> Rounded:
    """Return how this machine rounds loc + scale * log: some processors fuse the two steps."""
    ours, numpys = np.random.default_rng(1), np.random.default_rng(1)
    for rounded in (twice, once):
        if all(
            laplace_of(ours.random(), 3.0, 0.7, rounded) == numpys.laplace(3.0, 0.7)
            for _ in range(200)
        ):
            return rounded
    raise AssertionError("numpy has another Laplace; the control has to learn it")


def reached_by_numpy(report: float, loc: float, scale: float, rounded: Rounded) -> bool:
    """Return whether some uniform number of 53 bits makes numpy's Laplace give `report`."""
    half = math.exp(-abs(report - loc) / scale) / 2
    near = round((half if report < loc else 1 - half) * 2**53)
    numbers = range(max(1, near - 12), min(2**53 - 1, near + 12) + 1)
    return any(laplace_of(k * 2.0**-53, loc, scale, rounded) == report for k in numbers)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_floating_point_noise_gives_the_rating_away(epsilon: float) -> None:
    """The control: more than 30 % of numpy's reports can come from one of five ratings only."""
    rng, scale, rounded = np.random.default_rng(1), 2 / epsilon, rounding_here()
    true = rng.integers(0, 5, 600).tolist()
    seen = [float(rng.laplace(RATINGS[v], scale)) for v in true]

    def possible(report: object, v: int) -> bool:
        assert isinstance(report, float)
        return reached_by_numpy(report, RATINGS[v], scale, rounded)

    assert all(possible(report, v) for report, v in zip(seen, true, strict=True))
    assert attributable(seen, possible, len(RATINGS)) > 0.3


@pytest.mark.parametrize("epsilon", ["1/10", "1", "4", "8"])
@pytest.mark.parametrize("family", ATTACKED, ids=lambda family: family.family)
def test_no_report_of_ours_can_come_from_one_input_only(
    family: type[Mechanism], epsilon: str
) -> None:
    mechanism = family(5, Fraction(epsilon))
    table = mechanism.table()
    assert table is not None

    def reached(report: object, v: int) -> bool:
        assert isinstance(report, int)
        start = sum(table.counts[v][:report])
        ends = np.array([start, start + table.counts[v][report] - 1], np.uint64)
        return table.sample(np.full(2, v, np.uint8), ends).tolist() == [report] * 2

    inputs = np.resize(np.arange(mechanism.inputs, dtype=np.uint8), 600)
    seen = released(mechanism, inputs).tolist()
    assert attributable(seen, reached, mechanism.inputs) == 0
    # Nor is there a report that some input cannot give.
    assert all(reached(z, v) for z in range(mechanism.alphabet) for v in range(mechanism.inputs))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's: an interrupt in the middle of a measurement is only one late rank."""
    ranks = [np.unique(x, return_inverse=True)[1] for x in (a, b)]
    smooth = [np.bincount(r).cumsum()[r] - np.bincount(r)[r] / 2 for r in ranks]
    return float(np.corrcoef(*smooth)[0, 1])


def timed(
    run: Callable[[], int | np.ndarray], prepare: Callable[[int], None], inputs: np.ndarray
) -> np.ndarray:
    """Return how long each run took and the sum it gave, (2, n), each input prepared."""
    found = np.empty((2, len(inputs)))
    collecting = gc.isenabled()
    gc.disable()
    try:
        for i, v in enumerate(inputs.tolist()):
            prepare(v)
            started = time.perf_counter_ns()
            given = run()
            found[0, i] = time.perf_counter_ns() - started
            found[1, i] = np.sum(given)
    finally:
        if collecting:
            gc.enable()
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(
    "family", [RandomizedResponse, ModifiedLaplace], ids=lambda family: family.family
)
def test_the_time_of_a_release_reveals_neither_the_input_nor_the_noise(
    family: type[Mechanism],
) -> None:
    """Rank correlation below 0.05 over 20000 releases of 500 equal inputs each, in random order.

    500 of them, so that a nanosecond each would outweigh the clock and the loop around it. The
    reports are compared within one input, where their sum is the noise. Of independent columns
    the correlation is normal with deviation 0.007: false alarm below 1e-11. Power: a correlation
    of 0.1 is missed with probability below 1e-11; the control has above 0.7.
    """
    mechanism, cells = family(5, TWO), np.zeros(500, np.uint8)
    issuer = TicketIssuer(SystemSource())
    issuer.admit(mechanism)
    inputs = np.random.default_rng().integers(0, 5, 20_000)
    took, sums = timed(
        lambda: mechanism.release(cells, issuer.ticket(mechanism, len(cells))),
        cells.fill,
        inputs,
    )
    assert abs(correlation(took, inputs)) < 0.05
    noise = np.abs(sums - 500 * inputs)
    middle = np.array([noise[inputs == v].mean() for v in range(5)])
    assert abs(correlation(took, noise - middle[inputs])) < 0.05


def test_the_time_of_a_sampler_that_tries_until_it_succeeds_reveals_the_noise() -> None:
    """The control."""
    words = Words(SystemSource())

    def geometric() -> int:
        tries = 0
        while words.bernoulli(3, 4):
            tries += 1
        return tries

    took, noise = timed(geometric, lambda _: None, np.zeros(2000, np.int64))
    assert correlation(took, noise) > 0.7


FORKED = """
import os, sys
import numpy as np
from fractions import Fraction
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.randomness import SystemSource
from stream_app.privacy.ticket import TicketIssuer

mechanism, issuer = RandomizedResponseWithMissing(5, Fraction(2)), TicketIssuer(SystemSource())
issuer.admit(mechanism)
ticket = issuer.ticket(mechanism, 1)
cell = np.zeros(1, np.uint8)
reading, writing = os.pipe()
child = os.fork()
if child:
    os.waitpid(child, 0)
    os.write(writing, b"parent: %d reports\\n" % len(mechanism.release(cell, ticket)))
    os.close(writing)
    print(os.read(reading, 10_000).decode(), end="")
else:
    for attempt in (lambda: mechanism.release(cell, ticket), lambda: issuer.ticket(mechanism, 1)):
        try:
            attempt()
        except ValueError as error:
            os.write(writing, f"child: {error}\\n".encode())
    os._exit(0)
"""


def test_after_a_fork_neither_the_ticket_nor_the_issuer_release_anything_in_the_child() -> None:
    out = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=300
    ).stdout.splitlines()
    assert len(out) == 3
    assert out[0].startswith("child: ticket: it was issued before a fork")
    assert out[1].startswith("child: issuer: made before a fork")
    assert out[2] == "parent: 1 reports"


@pytest.mark.parametrize("family", ATTACKED, ids=lambda family: family.family)
def test_a_release_without_a_ticket_is_refused(family: type[Mechanism]) -> None:
    mechanism, cells = family(5, TWO), np.zeros(3, np.uint8)
    with pytest.raises(ValueError, match="needs a ticket"):
        mechanism.release(cells, SystemSource())
    issuer = TicketIssuer(SystemSource())
    with pytest.raises(ValueError, match="not certified"):
        issuer.ticket(mechanism, 3)
    issuer.admit(mechanism)
    ticket = issuer.ticket(mechanism, 3)
    assert len(mechanism.release(cells, ticket)) == 3
    with pytest.raises(ValueError, match="already used"):
        mechanism.release(cells, ticket)
    other = family(5, TWO + 1)
    with pytest.raises(ValueError, match=f"it is for 3 reports of {mechanism.id}"):
        other.release(cells, issuer.ticket(mechanism, 3))


def test_what_a_seed_touches_is_marked_unsafe() -> None:
    mechanism = RandomizedResponseWithMissing(5, TWO)
    issuer = TicketIssuer(SeededSource(1))
    issuer.admit(mechanism)
    assert issuer.entropy.unsafe
    assert issuer.ticket(mechanism, 1).unsafe
    safe = TicketIssuer(SystemSource())
    safe.admit(mechanism)
    assert not safe.ticket(mechanism, 1).unsafe
