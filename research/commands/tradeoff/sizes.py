"""The parameters that both figures have."""

from __future__ import annotations

from stream_app.errors import UsageError
from stream_app.models.factorization.factory import LEARNERS


def check_sizes(model: str, factors: int, scope: int, seed: int) -> None:
    """Raise UsageError for a parameter out of range."""
    if model not in LEARNERS:
        raise UsageError(f"--model {model[:40]}: choose one of {', '.join(LEARNERS)}")
    if not 1 <= factors <= 256:
        raise UsageError(f"--factors {factors}: 1 to 256")
    if scope < 1:
        raise UsageError(f"--scope {scope}: at least 1 item")
    if not 0 <= seed < 2**63:
        raise UsageError(f"--seed {seed}: give a number from 0 to 2^63-1")
