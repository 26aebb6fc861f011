"""Write dp_accounting.json and noisy_sums.json beside this file: epsilons of dp-accounting 0.6 for
38 settings, and for 12 campaigns of noisy sums.

    python -m tests.stream_app.privacy.accounting.peer.generate      with the extra `peers`

A table mechanism goes in as its hockey-stick curve at the grid points around each loss ("connect
the dots", dp-accounting's own constructor), which is computed here from the table's counts with 60
digits, without any code of `stream_app.privacy.accounting`. The stages of a campaign go in as its
Gaussians of sensitivity bound and variance V - 9/4, composed. Where all stages have one coordinate
they go in as its discrete Gaussians, too.
"""

from __future__ import annotations

import json
import math
from functools import reduce
from pathlib import Path
from typing import Any

from stream_app.privacy import registry
from stream_app.privacy.privacy_map import Adjacency

TABLE = Path(__file__).with_name("dp_accounting.json")
SUMS_TABLE = Path(__file__).with_name("noisy_sums.json")
SPACING = 2e-5
FINE = 5e-7  # losses of discrete Gaussians are rounded up to a multiple
PURE = [
    *(("rr:5:1/10", n, d) for n in (1, 10, 100) for d in (1e-6, 1e-9)),
    *(("rr:5:1/2", n, d) for n in (10, 93, 100) for d in (1e-5, 1e-6)),
    *(("rr:10:1", n, 1e-6) for n in (2, 30)),
    *(("rr:2:1/4", n, 1e-6) for n in (50, 391)),
    *(("rr:5:4", n, 1e-6) for n in (3, 8)),
    *(("cell:5:1/2", n, d) for n in (1, 200) for d in (1e-3, 1e-6)),
    *(("cell:5:1/2:1/4", n, 1e-6) for n in (10, 200)),
    *(("cell:10:2:1/10", n, 1e-6) for n in (5, 40)),
    *(("laplace:5:1/2", n, 1e-6) for n in (20, 100)),
    *(("laplace:4:1:1/3", n, 1e-6) for n in (5, 50)),
    *(("ternary:5:1", n, 1e-6) for n in (10, 60)),
    *(("ternary:10:1/2:1/2", n, 1e-6) for n in (30, 100)),
    *(("like:5:1", n, 1e-6) for n in (10, 60)),
    *(("partition:5:1/2", n, 1e-6) for n in (20, 80)),
]
SUMS = [
    *(("gaussian:100:178482:45000", d) for d in (1e-5, 1e-6, 1e-9)),
    ("gaussian:100:49753:45000", 1e-6),
    *(
        ("gaussian:1000:88837354:300+1000:32522040:9000+800:35635000:12000", d)
        for d in (1e-5, 1e-6)
    ),
    ("gaussian:1000:1000000:9+700:2500000:12+10:4000:3+1000:8000000:1", 1e-6),
    ("gaussian:5:100:1", 1e-6),
    ("gaussian:2:25:1+1:25:1+3:100:1", 1e-6),
    ("gaussian:30:10000:1+50:90000:1", 1e-6),
    *(("gaussian:100:1000000:1+200:9000000:1", d) for d in (1e-3, 1e-6)),
]


def main() -> None:
    """Compute and write all settings."""
    rows = [(id, n, d, _table_epsilon(id, n, d)) for id, n, d in PURE]
    _write(TABLE, rows)
    _write(SUMS_TABLE, [(id, d, *_campaign_epsilons(id, d)) for id, d in SUMS])


def _write(table: Path, rows: list[Any]) -> None:
    lines = ",\n".join(json.dumps(row) for row in rows)
    table.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _table_epsilon(id: str, count: int, delta: float) -> float:
    mechanism = registry.parse(id)
    tables = {frozenset(t.counts): t for m in mechanism.masks or (0,) if (t := mechanism.table(m))}
    pairs = []
    for table in tables.values():
        rows = list(dict.fromkeys(table.counts))
        if mechanism.adjacency is Adjacency.CELL:
            pairs += [(row, table.counts[-1]) for row in rows if row != table.counts[-1]]
        else:
            pairs += [(a, b) for a in rows for b in rows if a != b]
    exchanged = [(b, a) for a, b in pairs]
    return max(_curve_epsilon(each, count, delta) for each in (pairs, exchanged))


def _curve_epsilon(pairs: Any, count: int, delta: float) -> float:
    import mpmath
    from dp_accounting.pld import pld_pmf

    mpmath.mp.dps = 60
    ratios = {(p, q) for a, b in pairs for p, q in zip(a, b, strict=True)}
    losses = {mpmath.log(mpmath.mpf(p) / q) / SPACING for p, q in ratios}
    places = sorted({int(mpmath.floor(x)) + k for x in losses for k in (0, 1)})
    # Pairs that are relabelled outputs of each other have one curve.
    kinds = {tuple(sorted(zip(a, b, strict=True))) for a, b in pairs}
    deltas = []
    for place in places:
        power = mpmath.exp(mpmath.mpf(SPACING) * place)
        sums = [sum(max(mpmath.mpf(0), p - power * q) for p, q in kind) for kind in kinds]
        deltas.append(float(max(sums) / 2**64))
    one = pld_pmf.create_pmf_pessimistic_connect_dots(SPACING, places, deltas)
    return float(one.to_dense_pmf().self_compose(count).get_epsilon_for_delta(delta))


def _campaign_epsilons(id: str, delta: float) -> tuple[float, float | None]:
    """Return the epsilon of rounded Gaussians, and of discrete ones where all are numbers."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    stages = [[float(part) for part in each.split(":")] for each in id[9:].split("+")]
    rounded = [
        pld.from_gaussian_mechanism(
            math.sqrt(variance - 2.25) / bound, value_discretization_interval=SPACING
        )
        for bound, variance, _ in stages
    ]
    numbers = all(size == 1 for *_, size in stages) or None
    whole = numbers and [
        pld.from_discrete_gaussian_mechanism(
            math.sqrt(variance), sensitivity=int(bound), value_discretization_interval=FINE
        )
        for bound, variance, _ in stages
    ]
    composed = [reduce(lambda a, b: a.compose(b), each) for each in (rounded, whole) if each]
    found = [float(each.get_epsilon_for_delta(delta)) for each in composed]
    return found[0], found[1] if numbers else None


if __name__ == "__main__":
    main()
