"""The audit: every check and attack over what was read, judged together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from consumers.audit.attacks.evidence import rebuilding
from consumers.audit.attacks.linking import linking
from consumers.audit.checks.bytes import bytes_and_numbers
from consumers.audit.checks.channel_check import channels
from consumers.audit.checks.emission import emission
from consumers.audit.checks.moment_check import moments
from consumers.audit.checks.noise_check import freshness, least_likely
from consumers.audit.checks.orders import orders
from consumers.audit.checks.spending_check import spending
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, Verdict, judged, untestable
from consumers.audit.observed import Observed

Check = Callable[[Observed, PublicConfiguration], Iterator[Finding]]
Progress = Callable[[int, int], None]

CHECKS: tuple[Check, ...] = (
    bytes_and_numbers,
    channels,
    least_likely,
    freshness,
    orders,
    emission,
    moments,
    linking,
    rebuilding,
    spending,
)
_INVISIBLE = untestable(
    "batches do not tie pseudonyms of one process together",
    "a consumer does not see producer ids and addresses; the broker does",
)


def audit_observed(
    observed: Observed,
    configuration: PublicConfiguration,
    progress: Progress | None = None,
    others: Iterable[Finding] = (),
) -> list[Finding]:
    """Return every finding about what was read, judged together with `others`; `progress` takes
    (checks done, checks)."""
    findings: list[Finding] = list(others)
    for done, check in enumerate(CHECKS, 1):
        findings += check(observed, configuration)
        if progress is not None:
            progress(done, len(CHECKS))
    findings.append(_INVISIBLE)
    if observed.sample.halvings:
        findings.append(
            untestable(
                "the findings are about every account of the log",
                f"the memory was full: they are about {observed.sample} accounts, taken by chance",
            )
        )
    return judged(findings, configuration.alpha)


def violated(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that say a claim is violated."""
    return [finding for finding in findings if finding.verdict is Verdict.VIOLATED]
