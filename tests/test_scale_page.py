"""The page of the plan: its table is computed, and stands as it is computed."""

from __future__ import annotations

from research.privacy_page import filled
from tests import scale_page


def test_the_tables_of_the_page_are_those_of_the_arithmetic():
    page = scale_page.PAGE.read_text(encoding="utf-8")
    assert filled(page, scale_page.TABLES) == page, "run: python -m tests.scale_page"
    assert page.count("\n| 1e") == len(scale_page.POPULATIONS)


def test_other_numbers_make_another_table():
    cheap = scale_page.scale({"core_hour": 0.001})
    assert cheap != scale_page.scale()
    assert cheap.count("\n") == scale_page.scale().count("\n")


def test_the_simulated_run_is_shown_beside_the_arithmetic():
    rows = scale_page.simulated({}, seconds=150.0).splitlines()
    (busiest,) = (row.split(" | ") for row in rows if "busiest core" in row)
    assert abs(float(busiest[1]) / float(busiest[2].strip(" |")) - 1) < 0.15
