"""Write sampled_gaussian.json beside this file: epsilons of dp-accounting 0.6 for sampled sums.

    python -m tests.research.trainers.generate_sampled    with dp-accounting alone

The rows are (rate, sigma, steps, delta, epsilon): its Poisson-sampled Gaussian as a privacy loss
distribution, which covers both directions; and for trees (steps, sigma, epsilon) its Renyi account
of a single epoch of tree aggregation, at delta 1e-6, which is looser than the exact curve.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

TABLE = Path(__file__).with_name("sampled_gaussian.json")
SPACING = 1e-4
SAMPLED = [
    *(("8/1563", sigma, 1953, 1e-6) for sigma in ("0.6", "0.8", "1", "1.5", "2")),
    ("1/16", "1", 160, 1e-6),
    ("1/16", "2", 160, 1e-6),
    ("1/2", "5", 20, 1e-5),
    ("1/100", "1/2", 3, 1e-5),
    ("1/4", "3", 1, 1e-9),
]
TREES = [(10_000, 10), (10_000, 20), (1_000_000, 20)]


def main() -> None:
    """Compute and write all settings."""
    from dp_accounting import NeighboringRelation, rdp
    from dp_accounting.dp_event import SingleEpochTreeAggregationDpEvent
    from dp_accounting.pld import privacy_loss_distribution as pld

    rows = []
    for rate, sigma, steps, delta in SAMPLED:
        each = pld.from_gaussian_mechanism(
            float(Fraction(sigma)),
            value_discretization_interval=SPACING,
            sampling_prob=float(Fraction(rate)),
        )
        epsilon = each.self_compose(steps).get_epsilon_for_delta(delta)
        rows.append([rate, sigma, steps, delta, float(epsilon)])
    trees = []
    for count, sigma in TREES:
        accountant = rdp.RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
        accountant.compose(SingleEpochTreeAggregationDpEvent(sigma, count))
        trees.append([count, sigma, float(accountant.get_epsilon(1e-6))])
    text = json.dumps({"sampled": rows, "trees": trees}, indent=1)
    TABLE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
