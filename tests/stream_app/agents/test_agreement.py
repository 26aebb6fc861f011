"""Digests at the same cut are compared whichever comes first, and only where they can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.agents.checkpointing.digest_comparison import DigestComparison, Digests
from stream_app.wire import DigestReport

BASE = "c" * 32
OURS = Digests(7, (1, 2, 3, 4), "a" * 32, "b" * 32, BASE)
THEIRS = DigestReport(7, "a" * 32, "b" * 32, "design", BASE)


def told(
    ours_first: bool, ours: Digests, *theirs: DigestReport
) -> tuple[DigestComparison, list[int]]:
    """Return what was compared, and which cuts differed."""
    found: list[int] = []
    agreement = DigestComparison("design", lambda witness, _: found.append(witness.cut))
    if ours_first:
        agreement.ours(ours)
    for witness in theirs:
        agreement.theirs(witness)
    if not ours_first:
        agreement.ours(ours)
    return agreement, found


@pytest.mark.parametrize("ours_first", [True, False])
def test_equal_digests_agree_and_others_are_told(ours_first: bool) -> None:
    agreement, found = told(ours_first, OURS, THEIRS)
    assert (agreement.agreed, found) == (1, [])
    for other in (replace(OURS, model="d" * 32), replace(OURS, ledger="d" * 32)):
        agreement, found = told(ours_first, other, THEIRS)
        assert (agreement.agreed, found) == (0, [7])


@pytest.mark.parametrize("ours_first", [True, False])
def test_every_witness_of_a_cut_is_compared(ours_first: bool) -> None:
    lie = DigestReport(7, "e" * 32, "b" * 32, "design", BASE)
    agreement, found = told(ours_first, OURS, THEIRS, lie)
    assert (agreement.agreed_before, found) == (1, [7])


@pytest.mark.parametrize("ours_first", [True, False])
def test_another_cut_or_design_is_not_comparable(ours_first: bool) -> None:
    other = replace(OURS, model="d" * 32)
    assert told(ours_first, replace(other, cut=8), THEIRS)[1] == []
    witness = DigestReport(7, "a" * 32, "b" * 32, "other", BASE)
    assert told(ours_first, other, witness)[1] == []


@pytest.mark.parametrize("ours_first", [True, False])
def test_another_base_is_told_until_ours_is_witnessed(ours_first: bool) -> None:
    elsewhere = DigestReport(7, "d" * 32, "b" * 32, "design", "e" * 32)
    agreement, found = told(ours_first, OURS, elsewhere)
    assert (agreement.other_base, found) == ("e" * 32, [])
    agreement, _ = told(ours_first, OURS, elsewhere, THEIRS)
    assert agreement.other_base == ""


def test_what_is_never_answered_does_not_pile_up() -> None:
    agreement = DigestComparison("design", lambda *_: None)
    for cut in range(100):
        agreement.ours(replace(OURS, cut=cut))
        agreement.theirs(DigestReport(cut + 1000, "a" * 32, "b" * 32, "design", BASE))
    assert len(agreement._ours) <= 16
    assert len(agreement._theirs) <= 16
    agreement.clear()
    assert not agreement._ours
