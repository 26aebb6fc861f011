"""Digests at the same cut are compared whichever comes first, and only where they can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.agents.checkpointing.digest_comparison import DigestComparison, Digests
from stream_app.wire import DigestReport

BASE = "c" * 32
OURS = Digests(7, (1, 2, 3, 4), "a" * 32, "b" * 32, BASE)
REPORT = DigestReport(7, "a" * 32, "b" * 32, "design", BASE)


def compared(
    ours_first: bool, own: Digests, *reports: DigestReport
) -> tuple[DigestComparison, list[int]]:
    """Return what was compared, and which cuts differed."""
    found: list[int] = []
    comparison = DigestComparison(
        "design", lambda digest_report, _: found.append(digest_report.cut)
    )
    if ours_first:
        comparison.add_own(own)
    for digest_report in reports:
        comparison.add_report(digest_report)
    if not ours_first:
        comparison.add_own(own)
    return comparison, found


@pytest.mark.parametrize("ours_first", [True, False])
def test_equal_digests_agree_and_others_are_reported(ours_first: bool) -> None:
    comparison, found = compared(ours_first, OURS, REPORT)
    assert (comparison.agreed, found) == (1, [])
    for other in (replace(OURS, model="d" * 32), replace(OURS, ledger="d" * 32)):
        comparison, found = compared(ours_first, other, REPORT)
        assert (comparison.agreed, found) == (0, [7])


@pytest.mark.parametrize("ours_first", [True, False])
def test_every_digest_report_of_a_cut_is_compared(ours_first: bool) -> None:
    lie = DigestReport(7, "e" * 32, "b" * 32, "design", BASE)
    comparison, found = compared(ours_first, OURS, REPORT, lie)
    assert (comparison.agreed_before, found) == (1, [7])


@pytest.mark.parametrize("ours_first", [True, False])
def test_another_cut_or_design_is_not_comparable(ours_first: bool) -> None:
    other = replace(OURS, model="d" * 32)
    assert compared(ours_first, replace(other, cut=8), REPORT)[1] == []
    digest_report = DigestReport(7, "a" * 32, "b" * 32, "other", BASE)
    assert compared(ours_first, other, digest_report)[1] == []


@pytest.mark.parametrize("ours_first", [True, False])
def test_another_origin_is_reported_until_a_report_of_our_origin(ours_first: bool) -> None:
    elsewhere = DigestReport(7, "d" * 32, "b" * 32, "design", "e" * 32)
    comparison, found = compared(ours_first, OURS, elsewhere)
    assert (comparison.other_origin, found) == ("e" * 32, [])
    comparison, _ = compared(ours_first, OURS, elsewhere, REPORT)
    assert comparison.other_origin == ""


def test_digests_without_a_counterpart_do_not_accumulate() -> None:
    comparison = DigestComparison("design", lambda *_: None)
    for cut in range(100):
        comparison.add_own(replace(OURS, cut=cut))
        comparison.add_report(DigestReport(cut + 1000, "a" * 32, "b" * 32, "design", BASE))
    assert len(comparison._own) <= 16
    assert len(comparison._reports) <= 16
    comparison.clear()
    assert not comparison._own


def test_reports_of_one_cut_do_not_accumulate() -> None:
    found: list[int] = []
    comparison = DigestComparison("design", lambda report, _: found.append(report.cut))
    for number in range(1000):
        lie = DigestReport(7, f"{number:032x}", "b" * 32, "design", BASE)
        comparison.add_report(lie)
        comparison.add_report(lie)
    assert sum(map(len, comparison._reports.values())) <= 8
    comparison.add_own(OURS)
    assert len(found) <= 8


def test_a_cut_agrees_once() -> None:
    comparison, _ = compared(True, OURS, REPORT, REPORT, REPORT)
    assert comparison.agreed == 1
