"""The run behind the previews, short: every process of it, and what Prometheus has of each."""

from __future__ import annotations

import pytest

from tests.fixtures.programs import program
from tests.pictures.boards import PREVIEWS
from tests.pictures.live import MECHANISM, SITES, recorded
from tests.pictures.series import Curve, filled

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]


def test_worker_devices_queries_audit_and_site_are_in_the_series_of_a_run() -> None:
    tool = program("prometheus", package="prometheus")
    with recorded(tool, ratings=15_000) as run:
        found: dict[str, tuple[Curve, ...]] = {
            panel["title"]: filled(panel, run).curves
            for preview in PREVIEWS
            for panel in preview.panels
        }
    epsilons = {curve.legend: curve.last for curve in found["Epsilon of a report"]}
    for mechanism, claimed in ((MECHANISM, 2), (SITES, 0.5)):
        assert epsilons[f"claimed: {mechanism}, value"] == claimed
        assert 0 < epsilons[f"shown by canaries, at least: {mechanism}"] < claimed
    assert {"applied"} <= {curve.legend for curve in found["Records"] if curve.last > 0}
    assert {"answered"} <= {curve.legend for curve in found["Queries"] if curve.last > 0}
    assert {"accepted"} <= {curve.legend for curve in found["Events"] if curve.last > 0}
    assert found["Prediction error, recent events"]
