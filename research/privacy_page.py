"""The tables of docs/privacy.md, from the exact channels of the mechanisms, and the proofs.

    python -m research.privacy_page docs/privacy.md     writes them; so for docs/proofs.md

A table lies between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from research.privacy_proofs import proofs
from research.score_noise import summary
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import largest_count
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.exact.report_information import report_information_nats
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.certificate import largest_square
from stream_app.privacy.gaussian.sampling import gaussian_table
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency, InputMetric, OutputMeasure

_LEVELS = 5
_EPSILON = Fraction(2)
_RATINGS = 100
_SCOPE = 300
_BUDGET, _DELTA = Fraction(20), Fraction(1, 10**6)  # of a person, the defaults of enrolment
_COMPOSED = ("rr", "partition", "cell")
_COORDINATES = 100_000  # of all stages of a campaign
_CATALOGUES = (1682, 3706, 100_000)  # ML-100K, ML-1M, a shop


def mechanisms() -> str:
    """Return one row for each family at epsilon 2: adjacency, outputs, worst ratio, digest."""
    rows = []
    for family in registry.families():
        claims = family in registry.protecting()
        mechanism = registry.mechanism(family, _LEVELS, _EPSILON if claims else None)
        protected, proofs = mechanism.protected, mechanism.certify()
        if not proofs:
            rows.append((f"`{mechanism.id}`", str(mechanism.adjacency), protected, "-", "-", "-"))
            continue
        worst = max(proofs, key=lambda proof: proof.worst_ratio)
        rows.append(
            (
                f"`{mechanism.id}`",
                str(mechanism.adjacency),
                protected,
                str(mechanism.alphabet),
                f"e^{worst.worst_log_ratio:.12f}",
                " ".join(f"`{proof.digest}`" for proof in proofs),
            )
        )
    campaign = naming.within(_EPSILON, _DELTA)
    (stage,) = campaign.sums
    rows.append(
        (
            f"`{naming.name(campaign)}`",
            str(Adjacency.USER),
            "one person's vectors in every stage",
            "integers",
            f"e^2 but for {float(campaign.delta(_EPSILON)):.2g}",
            f"`{gaussian_table(stage.variance).digest}`",
        )
    )
    head = ("mechanism", "adjacency", "protected", "reports", "worst ratio", "certificate digest")
    return _table(head, rows)


def families() -> str:
    """Return what an observer still sees, and the limits, of the families that share both."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, family in ((each, registry.family_class(each)) for each in registry.families()):
        names.setdefault((family.observed, family.limit), []).append(f"`{name}`")
    rows = [(", ".join(alike), *claims) for claims, alike in names.items()]
    return _table(("mechanism", "an observer still sees", "limit"), rows)


def hundred() -> str:
    """Return the total epsilon of a user with 100 ratings under each adjacency, and how many
    reports a budget of 20 holds: by sums, and composed exactly at its delta."""
    rows = []
    for text in ("1/2", "1", "2", "4"):
        epsilon = Fraction(text)
        cells = min(_SCOPE, 2 * _RATINGS)
        rows.append(
            (
                text,
                f"{_RATINGS} x {text} = {_number(_RATINGS * epsilon)}",
                f"{cells} x {text} = {_number(cells * epsilon)}",
                f"{int(_BUDGET / epsilon)}",
                " / ".join(
                    str(largest_count(f"{family}:{_LEVELS}:{text}", _BUDGET, _DELTA))
                    for family in _COMPOSED
                ),
            )
        )
    head = (
        "epsilon per report",
        "`value`: 100 ratings of one user",
        f"`cell`: any other {_RATINGS} ratings instead, scope of {_SCOPE}",
        f"reports within a user-level {_BUDGET}, as sums",
        f"exact at delta {float(_DELTA):g}: " + " / ".join(f"`{family}`" for family in _COMPOSED),
    )
    return _table(head, rows)


def replacement() -> str:
    """Return what the reports that fit a budget cost where a record is replaced by any other."""
    rows = []
    for text in ("1/2", "1", "2"):
        for family in (name for name in registry.families(Adjacency.CELL) if name != "like"):
            row = [f"`{family}:{_LEVELS}:{text}`"]
            for id in (f"{family}:{_LEVELS}:{text}", f"{family}:{_LEVELS}:{text}:1/4"):
                count = largest_count(id, _BUDGET, _DELTA)
                composed = report_loss(id, "replaced").self_composed(count)
                row += [str(count), f"{composed.epsilon(float(_DELTA)):.1f}"]
            rows.append(row)
    pair = ("reports within (20, 1e-6)", "replaced")
    thinned = tuple(f"thinned to 1/4: {each}" for each in pair)
    return _table(("mechanism", *pair, *thinned), rows)


def fakes() -> str:
    """Return the probability that a cell without a rating is published, and fakes per user."""
    rows = []
    hiding = registry.families(Adjacency.CELL)
    for epsilon in (1, 2, 4, 8):
        found = [registry.mechanism(f, _LEVELS, Fraction(epsilon)) for f in hiding]
        shares = [fake_share(mechanism) for mechanism in found]
        row = [str(epsilon), *(f"{share:.4f}" for share in shares)]
        row += [" / ".join(f"{items * share:,.0f}" for share in shares) for items in _CATALOGUES]
        rows.append(tuple(row))
    head = (
        "epsilon per cell",
        *(f"`{family}`" for family in hiding),
        *(f"fakes per user, {items:,} items" for items in _CATALOGUES),
    )
    return _table(head, rows)


def sums() -> str:
    """Return mu and the noise of a campaign at delta 1e-6, for a bound of 1."""
    rows = []
    for text in ("1/2", "1", "2", "4", "8"):
        mu = math.sqrt(largest_square(Fraction(text), _DELTA, _COORDINATES))
        tenth = 1 / (mu * math.sqrt(0.1))
        rows.append((text, f"{mu:.4f}", f"{1 / mu:.3f}", f"{tenth:.2f}"))
    head = ("epsilon of a person", "mu", "sigma of one stage", "sigma of a stage with 1/10")
    return _table(head, rows)


def maps() -> str:
    """Return input metric, output measure and privacy map of each mechanism at epsilon 2."""
    rows: list[tuple[str, ...]] = []
    for name in registry.families():
        claims = name in registry.protecting()
        rating = registry.mechanism(name, _LEVELS, _EPSILON if claims else None)
        metric, measure = rating.input_metric, rating.output_measure
        rows.append((f"`{rating.id}`", metric, measure, str(rating.privacy_map(1)), "-"))
    campaign = naming.within(_EPSILON, _DELTA)
    points = [campaign.of_people(people).epsilon(_DELTA) for people in (1, 3)]
    rows.append(
        (
            f"`{naming.name(campaign)}`",
            InputMetric.PERSON,
            OutputMeasure.APPROXIMATE,
            *(f"({float(epsilon):.4g}, {float(_DELTA):.3g})" for epsilon in points),
        )
    )
    head = ("mechanism", "input metric", "output measure", "map of 1", "map of 3")
    return _table(head, rows)


def information() -> str:
    """Return what one report tells about its rating on average, in nats."""
    names = registry.protecting()
    every = report_information_nats(registry.mechanism("none", _LEVELS, None))
    rows = []
    for text in ("1/2", "1", "2", "4"):
        found = [registry.mechanism(family, _LEVELS, text) for family in names]
        rows.append((text, *(f"{report_information_nats(m):.3f}" for m in found), f"{every:.3f}"))
    head = ("nats a report, by epsilon", *(f"`{name}`" for name in names), "without noise")
    return _table(head, rows)


def fake_share(mechanism: Mechanism) -> float:
    """Return P(published | no rating), from the table; 0 where presence is public."""
    if mechanism.adjacency is not Adjacency.CELL:
        return 0.0
    return float(1 - mechanism.likelihood()[mechanism.alphabet - 1, mechanism.levels])


def similar() -> str:
    """Return what releases of lists by similar items guarantee."""
    return _table(summary.HEAD, summary.rows())


TABLES: dict[str, Callable[[], str]] = {
    "mechanisms": mechanisms,
    "families": families,
    "hundred": hundred,
    "replacement": replacement,
    "fakes": fakes,
    "information": information,
    "sums": sums,
    "maps": maps,
    "similar": similar,
    "proofs": proofs,
}


def filled(page: str, tables: Mapping[str, Callable[[], str]] = TABLES) -> str:
    """Return the page with every table computed again; KeyError for one that is unknown."""
    return re.sub(
        r"(<!-- table: ([a-z]+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{tables[found[2]]()}\n{found[3]}",
        page,
        flags=re.S,
    )


def _number(value: Fraction) -> str:
    return f"{float(value):g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(filled(place.read_text(encoding="utf-8")), encoding="utf-8")
