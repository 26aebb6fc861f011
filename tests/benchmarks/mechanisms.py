"""Speed of releasing ratings and of proving mechanisms, one thread, the system's entropy included.

Every release goes through an issued ticket, as on a device. OpenDP's randomized response is the
reference: the same distribution, sampled exactly, one rating per call.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SystemSource
from stream_app.privacy.ticket import TicketIssuer
from tests.benchmarks.figure import Figure

REPORTS = 1_000_000
SCALAR = 2_000
REPEATS = 7
EPSILONS = ("1/10", "1/2", "1", "2", "3", "4", "8")
RELEASED = ("rr:5:2", "rr:10:2", "partition:5:2", "cell:5:2", "ternary:5:2", "laplace:5:2")


def measure() -> list[Figure]:
    """Return rates and times of the processor, the best of several runs."""
    bulk = {name: _bulk(registry.parse(name)) for name in (*RELEASED, "cell:5:2:1/4")}
    figures = [
        Figure(f"mechanism: {name} released", rate / 1e6, "M/s", ">= 15" if "rr:5" in name else "")
        for name, rate in bulk.items()
    ]
    figures += [
        Figure(f"mechanism: one {name} released", _scalar(registry.parse(name)), "us")
        for name in ("rr:5:2", "cell:5:2")
    ]
    opendp = _opendp()
    if opendp is not None:
        figures += [
            Figure("mechanism: one response of OpenDP", opendp, "us"),
            Figure(
                "mechanism: rr:5:2 against OpenDP", bulk["rr:5:2"] * opendp / 1e6, "x", ">= 500"
            ),
        ]
    for family in registry.protecting():
        for epsilon in EPSILONS:
            took = _best(lambda f=family, e=epsilon: registry.mechanism(f, 10, e).certify())
            name = f"mechanism: certify {family}:10:{epsilon}"
            figures.append(Figure(name, took * 1e3, "ms", "<= 50"))
    return figures


def _bulk(mechanism: Mechanism) -> float:
    """Return reports per second."""
    issuer = TicketIssuer(SystemSource())
    issuer.admit(mechanism)
    inputs = np.resize(np.arange(mechanism.inputs, dtype=np.uint8), REPORTS)
    masks = np.resize(np.array(mechanism.masks, np.uint16), REPORTS) if mechanism.masks else None
    ticket = issuer.ticket
    return REPORTS / _best(lambda: mechanism.release(inputs, ticket(mechanism, REPORTS), masks))


def _scalar(mechanism: Mechanism) -> float:
    """Return microseconds for one rating, its ticket included."""
    issuer, level = TicketIssuer(SystemSource()), np.zeros(1, np.uint8)
    issuer.admit(mechanism)

    def run() -> None:
        for _ in range(SCALAR):
            mechanism.release(level, issuer.ticket(mechanism, 1))

    return _best(run) / SCALAR * 1e6


def _opendp() -> float | None:
    """Return microseconds for one response of OpenDP, None where it is not installed."""
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError:
        print(
            "mechanisms: opendp is not installed, the comparison is left out "
            "(pip install 'murmurec[peers]')",
            file=sys.stderr,
        )
        return None
    dp.enable_features("contrib")
    keep = math.e**2 / (math.e**2 + 4)
    response = dp.m.make_randomized_response(list(range(5)), keep)
    if not math.isclose(response.map(1), float(Fraction(2)), rel_tol=1e-9):
        raise RuntimeError("opendp: its response has another epsilon; the comparison would be off")

    def run() -> None:
        for _ in range(SCALAR):
            response(3)

    return _best(run) / SCALAR * 1e6


def _best(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best
