"""The checks that a mechanism has to pass, as functions: the tests call them on what there is, and
on mutants to see that they would notice.

Exact ones raise AssertionError. Statistical ones return whether they noticed something. Theirs is
Bernstein's inequality: a cell's count k ~ Bin(n, p) has

    P(|k - n p| >= t) <= 2 exp(-t^2 / (2 (n p (1 - p) + t/3)))

so with t solved for alpha / cells the whole check raises a false alarm with probability below
alpha, for every n and p, without a normal approximation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import certify
from stream_app.privacy.exact.integer_tables import TOTAL, Table, exp_bounds
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import SystemSource
from stream_app.privacy.ratings.item_sampling import ItemSample
from stream_app.privacy.ticket import TicketIssuer
from tests.naive import tables as naive

ALPHA = 1e-6
MOST_SLACK = -1e-10


def masks_of(mechanism: Mechanism) -> tuple[int, ...]:
    """Return every mask, or 0 for a mechanism without masks."""
    return tuple(mechanism.masks) or (0,)


def released(mechanism: Mechanism, inputs: NDArray[np.uint8], mask: int = 0) -> NDArray[np.uint8]:
    """Release through a ticket on the system's randomness, as a device does."""
    issuer = TicketIssuer(SystemSource())
    issuer.admit(mechanism)
    masks = np.full(len(inputs), mask, np.uint16) if mechanism.masks else None
    return mechanism.release(inputs, issuer.ticket(mechanism, len(inputs)), masks)


def check_loss(mechanism: Mechanism) -> None:
    """No report distinguishes two inputs by more than epsilon, on the exact log likelihood."""
    if mechanism.epsilon is None:
        assert mechanism.adjacency is Adjacency.NOTHING
        return
    inputs = np.arange(mechanism.inputs)
    for mask in masks_of(mechanism):
        reports = np.arange(len(mechanism.likelihood(mask)))[:, None]
        loss = mechanism.log_likelihood(reports, inputs, mask)
        assert (loss.max(axis=1) - loss.min(axis=1)).max() <= float(mechanism.epsilon)


def check_certificate(mechanism: Mechanism) -> None:
    """Every table that can be sampled from has a proof, tight to 1e-10, that the counts repeat."""
    assert mechanism.epsilon is not None
    limit = exp_bounds(mechanism.epsilon)[0]
    proofs = {proof.worst_ratio for proof in mechanism.certify()}
    for mask in masks_of(mechanism):
        table = mechanism.table(mask)
        assert table is not None
        proof = certify(table, mechanism.id, mechanism.epsilon, mechanism.adjacency)
        # Over again, from the counts alone: every pair of inputs at every output.
        worst = max(
            Fraction(a[z], b[z])
            for a in set(table.counts)
            for b in set(table.counts)
            for z in range(table.outputs)
        )
        assert proof.worst_ratio == worst <= limit
        assert worst in proofs
        assert MOST_SLACK <= proof.slack <= 0


def check_intervals(table: Table) -> None:
    """Words lead to the reports of the certified counts, at both ends of every interval."""
    for v, row in enumerate(table.counts):
        ends = list(accumulate(row, initial=0))
        assert ends[-1] == TOTAL
        edges = [(start, end - 1) for start, end in pairwise(ends)]
        words = np.array(edges, np.uint64).ravel()
        inputs = np.full(len(words), v, np.uint8)
        found = table.sample(inputs, words).tolist()
        assert found == np.repeat(np.arange(len(row)), 2).tolist()
        assert found == naive.sample(table.counts, inputs, words).tolist()


def allowed(n: int, p: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Return t such that a count departs from n p by t with probability below alpha."""
    depth = math.log(2 / alpha)
    return np.asarray(depth / 3 + np.sqrt((depth / 3) ** 2 + 2 * n * p * (1 - p) * depth))


def departs(
    claimed: Mechanism,
    used: Mechanism,
    alpha: float,
    draws: int = 100_000,
    mask: int = 0,
    inputs: Sequence[int] | None = None,
) -> bool:
    """Return whether reports of `used` are incompatible with the channel of `claimed`."""
    channel = claimed.likelihood(mask)
    for v in range(claimed.inputs) if inputs is None else inputs:
        found = np.bincount(released(used, np.full(draws, v, np.uint8), mask))
        if len(found) > len(channel):
            return True
        counts = np.pad(found, (0, len(channel) - len(found)))
        most = allowed(draws, channel[:, v], alpha / channel.size)
        if (np.abs(counts - draws * channel[:, v]) > most).any():
            return True
    return False


def draws_needed(
    claimed: Mechanism, used: Mechanism, alpha: float, miss: float, mask: int
) -> tuple[int, int]:
    """Return how many draws of which input `departs` needs to miss with less than `miss`."""
    honest, other = claimed.likelihood(mask), used.likelihood(mask)
    n = 1000
    while True:
        reach = allowed(n, honest, alpha / honest.size) + allowed(n, other, miss)
        caught = (n * np.abs(honest - other) > reach).any(axis=0)
        if caught.any():
            return n, int(caught.argmax())
        n += n // 4


def dependent(mechanism: Mechanism, level: int, alpha: float, pairs: int = 100_000) -> bool:
    """Return whether neighbours in one release of a level are incompatible with independence."""
    channel = mechanism.likelihood()[:, level]
    reports = released(mechanism, np.full(2 * pairs, level, np.uint8)).reshape(-1, 2)
    places = reports[:, 0].astype(np.int64) * len(channel) + reports[:, 1]
    found = np.bincount(places, minlength=len(channel) ** 2)
    p = np.outer(channel, channel).ravel()
    return bool((np.abs(found - pairs * p) > allowed(pairs, p, alpha / p.size)).any())


def repeats(mechanism: Mechanism, level: int) -> bool:
    """Return whether two releases of a thousand are equal (if independent: below p_max^1000)."""
    levels = np.full(1000, level, np.uint8)
    return bool((released(mechanism, levels) == released(mechanism, levels)).all())


def check_budget(sample: ItemSample, catalogue: NDArray[np.uint64]) -> None:
    """All reports of a sample together cost a user the budget and no more."""
    reports = len(sample.items(catalogue, key=3))
    assert reports * sample.epsilon <= sample.budget
