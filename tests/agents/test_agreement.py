"""Digests at the same cut are compared whichever comes first, and only where they can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.agents.agreement import Agreement, Digests
from stream_app.wire import Witness

ENDS = (1, 2, 3, 4)
OURS = Digests(7, ENDS, "a" * 32, "b" * 32)
THEIRS = Witness(7, "a" * 32, "b" * 32, "design", "c" * 32)


def told(ours_first: bool, ours: Digests, theirs: Witness) -> tuple[int, list[int]]:
    """Return how many cuts agreed and which differed."""
    found: list[int] = []
    agreement = Agreement(lambda witness, _: found.append(witness.cut))
    if ours_first:
        agreement.ours(ours, "design", "c" * 32)
    agreement.theirs(theirs)
    if not ours_first:
        agreement.ours(ours, "design", "c" * 32)
    return agreement.agreed, found


@pytest.mark.parametrize("ours_first", [True, False])
def test_equal_digests_agree_and_others_are_told(ours_first: bool) -> None:
    assert told(ours_first, OURS, THEIRS) == (1, [])
    assert told(ours_first, replace(OURS, model="d" * 32), THEIRS) == (0, [7])
    assert told(ours_first, replace(OURS, ledger="d" * 32), THEIRS) == (0, [7])


def test_another_cut_design_or_base_is_not_comparable() -> None:
    other = replace(OURS, model="d" * 32)
    assert told(True, replace(other, cut=8), THEIRS) == (0, [])
    for design, base in (("other", "c" * 32), ("design", "e" * 32)):
        witness = Witness(7, "a" * 32, "b" * 32, design, base)
        assert told(True, other, witness) == (0, [])


def test_what_is_never_answered_does_not_pile_up() -> None:
    agreement = Agreement(lambda *_: None)
    for cut in range(100):
        agreement.ours(replace(OURS, cut=cut), "design", "c" * 32)
        agreement.theirs(Witness(cut + 1000, "a" * 32, "b" * 32, "design", "c" * 32))
    assert len(agreement._ours) <= 16
    assert len(agreement._theirs) <= 16
    agreement.clear()
    assert not agreement._ours
