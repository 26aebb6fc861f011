"""The papers, their systems, where each is, and which claim fails: the table of `murmurec papers`.

A claim that fails has a test under `tests/claims/`; the corrected form is the one that is used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """A system of a paper: its module (a path in the repository), whether it runs in the product or
    is for evaluation, and its claim that fails, in one sentence; empty where none is known to."""

    name: str
    module: str
    state: str
    fails: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper by its key in the bibliography and by authors and year."""

    key: str
    authors: str
    title: str
    systems: tuple[System, ...]

    @property
    def slug(self) -> str:
        """First author and year, as `zheng-2016`."""
        words = self.authors.lower().split()
        return f"{words[0].rstrip(',')}-{words[-1]}"


PAPERS: tuple[Paper, ...] = (
    Paper(
        "S001",
        "Zheng 2016",
        "Two Differentially Private Rating Collection Mechanisms for Recommender Systems",
        (
            System(
                "randomized response",
                "stream_app/privacy/ratings/randomized_response_missing.py",
                "in the product",
            ),
        ),
    ),
)
