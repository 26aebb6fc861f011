"""`murmurec certify`: prove the claimed epsilon of mechanisms in exact arithmetic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from stream_app.cli.commands import option
from stream_app.cli.options import ConfigOption, JsonOption, settings_from
from stream_app.cli.output import plural, print_json, refusing, say, table
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from stream_app.privacy.exact.certificates import Certificate
    from stream_app.privacy.mechanism import Mechanism

EPSILONS = tuple(Fraction(text) for text in ("1/10", "1/2", "1", "2", "3", "4", "8"))
LEVELS = (5, 10)
THINNING = Fraction(1, 4)  # of the thinned rows; other fractions are proved where they are allowed
BUDGET = Fraction(20)  # of a person: of a sampled report
PERSON_DELTA = Fraction(1, 10**6)
_DEFAULT_LEVELS = 5
_NOISY_SUMS = "gaussian"
CertificateRow = dict[str, Any]


def certify(
    mechanism: str | None = option(
        None, "A family, such as rr, or a whole id: cell:5:2:1/4, gaussian:100:31809:300.", "FAMILY"
    ),
    epsilon: str | None = option(None, "The family's claim, as 2, 0.5 or 1/2.", "E"),
    levels: int | None = option(None, "Levels of the scale. \\[default: 5]", "N"),
    everything: bool = option(
        False,
        "The configured allow-list; every family at seven epsilons, on 5 and 10 levels.",
        None,
        "--all",
    ),
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove the epsilon that mechanisms claim. Exit code 1: a claim does not hold.

    Each is compiled to its integer table; the largest ratio of the probabilities of an output under
    two inputs is compared with a rational lower bound of e^epsilon. --all begins with the allowed
    mechanisms of the settings, with their own levels, thinning and thresholds.

    Example: murmurec certify --mechanism rr --epsilon 2
    """
    if everything:
        if (mechanism, epsilon, levels) != (None, None, None):
            raise UsageError("--all: leave --mechanism, --epsilon and --levels out")
        allowed = settings_from(config).mechanisms
        report(list(every(allowed)), as_json=as_json)
        if not as_json:
            for id in filter(_claims_nothing, allowed):
                say(f"{id} is allowed and claims nothing: a device that uses it is not protected")
    elif config is not None:
        raise UsageError("--config: only --all proves what is configured")
    elif mechanism is None:
        raise UsageError("give --mechanism FAMILY --epsilon E, or --all")
    elif mechanism.partition(":")[0] == _NOISY_SUMS:
        if levels is not None:
            raise UsageError(f"--levels {levels}: a noisy sum has none; leave it out")
        _certify_noisy_sums(mechanism, epsilon, as_json=as_json)
    else:
        from stream_app.privacy.exact import certificates

        started = time.perf_counter()
        found = _named(mechanism, epsilon, levels)
        proofs = _proofs(found)
        rows = [certificates.row(proofs, time.perf_counter() - started) | _measurement(found)]
        report(rows, as_json=as_json)
        if not as_json:
            say(
                f"{found.id}: inputs by {found.input_metric}, releases by {found.output_measure}; "
                f"a neighbour (distance 1) is at most {found.privacy_map(1)} away"
            )
            for proof in proofs:
                say(f"table of {proof.outputs} outputs: digest {proof.digest}")


def _certify_noisy_sums(name: str, epsilon: str | None, *, as_json: bool) -> None:
    """Prove what the noisy sums of a campaign cost a person; print the row and its notes."""
    from stream_app.cli.research import noisy_sums

    with refusing(UsageError):
        rows = [noisy_sums.row(name, noisy_sums.claim(epsilon), PERSON_DELTA)]
    report(rows, as_json=as_json)
    if not as_json:
        for note in noisy_sums.notes(rows[0]["mechanism"]):
            say(note)


def every(allowed: Sequence[str] = ()) -> Iterator[CertificateRow]:
    """Yield a row for each claim: the allowed ids, families at every epsilon, sums."""
    shown: set[str] = set()
    for name, prove in _claims([id for id in allowed if not _claims_nothing(id)]):
        if name not in shown:
            shown.add(name)
            yield from attempt(name, prove)
    for epsilon in EPSILONS:
        yield from attempt(f"{_NOISY_SUMS} at {epsilon}", partial(_noisy_sum, epsilon))


def _claims(allowed: Sequence[str]) -> Iterator[tuple[str, Callable[[], list[CertificateRow]]]]:
    from stream_app.privacy import registry
    from stream_app.privacy.exact.table_mechanism import PresenceMechanism
    from stream_app.privacy.privacy_map import Adjacency
    from stream_app.privacy.ratings.item_sampling import ItemSample

    yield from ((id, partial(_proved, id)) for id in allowed)
    scales = {(family, levels): None for family in registry.protecting() for levels in LEVELS}
    scales |= {_scale(id): None for id in allowed if _scale(id)[0] in registry.protecting()}
    ids = [f"{family}:{levels}:{each}" for family, levels in scales for each in EPSILONS]
    sampled = ItemSample.from_budget(BUDGET).epsilon
    for family in registry.families(Adjacency.CELL):
        ids.append(f"{family}:{LEVELS[0]}:{sampled}")
        if issubclass(registry.family_class(family), PresenceMechanism):
            ids += [f"{family}:{LEVELS[0]}:{each}:{THINNING}" for each in EPSILONS]
    yield from ((id, partial(_proved, id)) for id in ids)


def _scale(id: str) -> tuple[str, int]:
    """Return family and levels of an id; 0 levels where it has none."""
    family, _, rest = id.partition(":")
    levels = rest.partition(":")[0]
    return family, int(levels) if levels.isascii() and levels.isdigit() else 0


def _claims_nothing(id: str) -> bool:
    from stream_app.privacy import registry

    try:
        return registry.parse(id).epsilon is None
    except ValueError:
        return False  # its row gives the reason


def attempt(name: str, prove: Callable[[], list[CertificateRow]]) -> list[CertificateRow]:
    """Return the rows of `prove`, or one row without figures that gives the reason of a failure."""
    started = time.perf_counter()
    try:
        return prove()
    except ValueError as error:
        found = {"mechanism": name, "failed": str(error)}
        figures = ("epsilon", "adjacency", "worst_log_ratio", "slack", "outputs")
        unproved = dict.fromkeys((*figures, "input_metric", "output_measure"))
        return [found | unproved | {"seconds": time.perf_counter() - started}]


def _proved(id: str) -> list[CertificateRow]:
    from stream_app.privacy import registry

    return [_row(partial(registry.parse, id))]


def _row(make: Callable[[], Mechanism]) -> CertificateRow:
    """Return the row of a mechanism: built, certified again, and timed."""
    from stream_app.privacy.exact import certificates

    started = time.perf_counter()
    found = make()
    return certificates.row(found.certify(), time.perf_counter() - started) | _measurement(found)


def _measurement(mechanism: Mechanism) -> CertificateRow:
    """Return input metric and output measure of a mechanism, for its row."""
    return {
        "input_metric": str(mechanism.input_metric),
        "output_measure": str(mechanism.output_measure),
    }


def _noisy_sum(epsilon: Fraction) -> list[CertificateRow]:
    from stream_app.cli.research import noisy_sums

    return [noisy_sums.row(_NOISY_SUMS, epsilon, PERSON_DELTA)]


def report(rows: list[CertificateRow], *, as_json: bool) -> None:
    """Print the rows; raises UserError if a row is not proved."""
    if as_json:
        print_json(rows, indent=1)
    else:
        _show(rows)
    failed = [row for row in rows if not _holds(row)]
    if failed:
        first = failed[0].get("failed", failed[0]["mechanism"])
        raise UserError(f"{len(failed)} of {len(rows)} claims are not proved, the first: {first}")


def _holds(row: CertificateRow) -> bool:
    if "delta" in row:
        return bool(row["delta_bound"] <= row["delta"])
    return row["slack"] is not None and bool(row["slack"] <= 0)


def _named(name: str, epsilon: str | None, levels: int | None) -> Mechanism:
    """Return a family's mechanism or that of an id; raises UsageError for others."""
    from stream_app.privacy import registry

    whole = ":" in name
    if whole and (epsilon, levels) != (None, None):
        raise UsageError(
            f"{name} holds epsilon and levels itself; leave --epsilon and --levels out"
        )
    family = name.partition(":")[0]
    if not whole and epsilon is None and family in registry.protecting():
        raise UsageError(f"--mechanism {name}: give the claim to prove as --epsilon E")
    with refusing(UsageError):
        if whole:
            return registry.parse(name)
        return registry.mechanism(family, _DEFAULT_LEVELS if levels is None else levels, epsilon)


def _proofs(mechanism: Mechanism) -> tuple[Certificate, ...]:
    """Return the certificates of a mechanism; UsageError where it claims nothing."""
    proofs = mechanism.certify()
    if not proofs:
        raise UsageError(f"{mechanism.id}: claims no epsilon, so there is nothing to prove")
    return proofs


def _show(rows: list[CertificateRow]) -> None:
    """Print the pure claims, those with a delta, and the verdict."""
    pure = [row for row in rows if "delta" not in row]
    if pure:
        table(
            ("mechanism", "protects", "worst ratio", "slack", "outputs", "ms"),
            [(row["mechanism"], *_figures(row), f"{1e3 * row['seconds']:.1f}") for row in pure],
        )
    approximate = [row for row in rows if "delta" in row]
    if approximate:
        table(
            ("mechanism", "protects", "epsilon", "delta", "proved delta", "ms"),
            [
                (
                    row["mechanism"],
                    row["adjacency"],
                    row["epsilon"],
                    str(row["delta"]),
                    f"{row['delta_bound']:.2e}",
                    f"{1e3 * row['seconds']:.1f}",
                )
                for row in approximate
            ],
            title="with a delta",
        )
    proved = sum(map(_holds, rows))
    verdict = "every claim holds" if proved == len(rows) else "NOT EVERY CLAIM HOLDS"
    say(f"{verdict}: {proved} of {plural(len(rows), 'claim')} proved in exact arithmetic")


def _figures(row: CertificateRow) -> tuple[str, str, str, str]:
    if row["slack"] is None:
        return ("", "NOT PROVED", "", "")
    ratio = f"e^{row['worst_log_ratio']:.12f}"
    return (row["adjacency"], ratio, f"{row['slack']:.1e}", str(row["outputs"]))
