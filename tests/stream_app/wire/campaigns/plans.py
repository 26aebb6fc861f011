"""A plan for tests, small and whole."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from stream_app.wire.campaigns.plan import Campaign, Stage

KEYS = ("11" * 32, "22" * 32)


def stage(**changes: Any) -> Stage:
    fields = {"kind": "together", "size": 6, "bound": 100, "variance": 400}
    fields |= {"share": Fraction(1, 3), "least": 2, "deadline_cuts": 50}
    return Stage(**(fields | changes))


def campaign(**changes: Any) -> Campaign:
    fields = {"number": 1, "epsilon": Fraction(2), "delta": Fraction(1, 10**6), "parties": 2}
    fields |= {"scope": (1, "tea"), "stages": (stage(), stage(kind="stars")), "keys": KEYS}
    return Campaign(**(fields | changes))
