"""What the observer found: one finding a claim, with the number behind the verdict.

A check either decides by itself (a reused number is a reused number) or returns a p-value: an upper
bound on the probability that an honest deployment gives a result at least as extreme. With T such
findings in one audit a claim is violated where p < alpha / T (Bonferroni), so an honest deployment
is accused with probability alpha at most, whatever the tests have in common.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

Figure = float | int | str


class Verdict(StrEnum):
    """What an observer can say about a claim."""

    OK = "ok"
    VIOLATED = "violated"
    UNTESTABLE = "not testable here"


@dataclass(frozen=True)
class Finding:
    """One claim, the verdict, and the measured number in words and as figures.

    `p_value` is set where the verdict is statistical; `judged` then decides it.
    """

    claim: str
    verdict: Verdict
    measured: str
    p_value: float | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        found: dict[str, Any] = {
            "claim": self.claim,
            "verdict": self.verdict.value,
            "measured": self.measured,
        }
        found |= {} if self.p_value is None else {"p_value": self.p_value}
        shown = {key: "inf" if n == math.inf else n for key, n in self.figures.items()}
        return found | {"figures": shown}


def decided(claim: str, violations: int, measured: str, **figures: Figure) -> Finding:
    """Return the finding of a check that counts violations."""
    verdict = Verdict.VIOLATED if violations else Verdict.OK
    return Finding(claim, verdict, measured, None, {"violations": violations} | figures)


def statistical(claim: str, log_p: float, measured: str, **figures: Figure) -> Finding:
    """Return the finding of a statistical check, still to be `judged`; `log_p` is ln of p."""
    p = math.exp(min(0.0, log_p))
    return Finding(claim, Verdict.OK, f"{measured}; p = {p:.2g}", p, figures)


def untestable(claim: str, reason: str) -> Finding:
    """Return the finding of a claim about which these records say nothing."""
    return Finding(claim, Verdict.UNTESTABLE, reason)


def judged(findings: Sequence[Finding], alpha: float) -> list[Finding]:
    """Return the findings with every statistical verdict decided at `alpha` for all together."""
    tests = sum(finding.p_value is not None for finding in findings)
    return [
        replace(finding, verdict=Verdict.VIOLATED)
        if finding.p_value is not None and finding.p_value * tests < alpha
        else finding
        for finding in findings
    ]
