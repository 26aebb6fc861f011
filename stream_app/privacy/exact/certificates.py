"""The proof that a table keeps its claim, in exact rational arithmetic.

c[v][z] / c[v'][z]  <=  a rational lower bound of e^epsilon      for all v, v', z
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b

from stream_app.privacy.adjacency import Adjacency
from stream_app.privacy.exact.integer_tables import Table, exp_bounds


@dataclass(frozen=True)
class Certificate:
    """The proof that a table keeps its claim: the worst quotient over all inputs and outputs."""

    mechanism: str
    epsilon: Fraction
    adjacency: Adjacency
    worst_ratio: Fraction
    worst_log_ratio: float
    slack: float  # worst_log_ratio - epsilon, in nats; never above 0
    outputs: int
    digest: str  # of the counts: what was proved is what is sampled from


def certify(table: Table, mechanism: str, epsilon: Fraction, adjacency: Adjacency) -> Certificate:
    """Return the certificate of `epsilon`; ValueError where an output distinguishes more."""
    limit = exp_bounds(epsilon)[0]
    # At an output, the worst pair is the input of the largest and the input of the smallest count.
    worst = max(Fraction(max(at), min(at)) for at in zip(*table.counts, strict=True))
    log_ratio = math.log1p(float(worst - 1))
    if worst > limit:
        raise ValueError(
            f"{mechanism}: an output distinguishes two inputs by {log_ratio!r} nats, "
            f"above the claimed epsilon {epsilon}"
        )
    slack = min(0.0, log_ratio - float(epsilon))
    return Certificate(
        mechanism, epsilon, adjacency, worst, log_ratio, slack, table.outputs, digest(table)
    )


def row(proofs: Sequence[Certificate], seconds: float) -> dict[str, object]:
    """Return what a list of proofs says of one mechanism: its worst table, and how long it took."""
    worst = max(proofs, key=lambda proof: proof.worst_ratio)
    delta = getattr(worst, "delta", 0)  # a proof outside of a delta says which (`gaussian_table`)
    apart = {"delta": float(delta), "delta_bound": float(getattr(worst, "delta_bound", 0))}
    # With a delta there is no worst quotient: some outputs, of at most that probability, have any.
    return (apart if delta else {}) | {
        "mechanism": worst.mechanism,
        "epsilon": str(worst.epsilon),
        "adjacency": str(worst.adjacency),
        "worst_log_ratio": None if delta else worst.worst_log_ratio,
        "slack": None if delta else worst.slack,
        "outputs": max(proof.outputs for proof in proofs),
        "seconds": seconds,
    }


def digest(table: Table) -> str:
    """Return the blake2b-64 of the counts, input by input, as decimal text."""
    text = ";".join(",".join(map(str, row)) for row in table.counts)
    return blake2b(text.encode(), digest_size=8).hexdigest()
