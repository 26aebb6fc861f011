"""Proof that an integer table satisfies its epsilon, in exact rational arithmetic.

    c[v][z] / c[v'][z]  <=  a rational lower bound of e^epsilon      for all v, v', z

`c` are the counts of `integer_tables.Table`: c[v][z] of 2^64 words lead from input v to output z.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b

from stream_app.privacy.exact.integer_tables import Table, exp_bounds
from stream_app.privacy.privacy_map import Adjacency


@dataclass(frozen=True)
class Certificate:
    """Proof of one table's epsilon: its largest quotient over all inputs and outputs."""

    mechanism: str
    epsilon: Fraction
    adjacency: Adjacency
    worst_ratio: Fraction
    worst_log_ratio: float
    slack: float  # worst_log_ratio - epsilon, in nats; never above 0
    outputs: int
    digest: str  # of the counts, so that the table sampled from can be compared with the one proved


def certify(table: Table, mechanism: str, epsilon: Fraction, adjacency: Adjacency) -> Certificate:
    """Return the certificate of `epsilon`; ValueError if an output exceeds it."""
    limit = exp_bounds(epsilon)[0]
    # The largest quotient at an output is its largest count over its smallest.
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
    """Return a JSON row for the proofs of one mechanism: its worst table, and the seconds taken."""
    worst = max(proofs, key=lambda proof: proof.worst_ratio)
    return {
        "mechanism": worst.mechanism,
        "epsilon": str(worst.epsilon),
        "adjacency": str(worst.adjacency),
        "worst_log_ratio": worst.worst_log_ratio,
        "slack": worst.slack,
        "outputs": max(proof.outputs for proof in proofs),
        "seconds": seconds,
    }


def digest(table: Table) -> str:
    """Return the blake2b-64 of the counts, input by input, as decimal text."""
    text = ";".join(",".join(map(str, row)) for row in table.counts)
    return blake2b(text.encode(), digest_size=8).hexdigest()
