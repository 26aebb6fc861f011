"""A claim of an audit, whether it was shown to be false, and by what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """`holds`: the claim was not shown to be false."""

    claim: str
    holds: bool
    measured: str
