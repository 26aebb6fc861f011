"""The bounds against those of dp-accounting, where both know the mechanism (peer/generate.py)."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.gaussian.naming import parse
from tests.stream_app.privacy.accounting.peer.generate import (
    FINE,
    PURE,
    SUMS,
    SUMS_TABLE,
    TABLE,
)

SUM_ROWS = [tuple(row) for row in json.loads(SUMS_TABLE.read_text(encoding="utf-8"))]
ROWS = [tuple(row) for row in json.loads(TABLE.read_text(encoding="utf-8"))]


def test_the_table_holds_every_setting_of_its_generator():
    assert [row[:3] for row in ROWS] == PURE
    assert [row[:2] for row in SUM_ROWS] == SUMS
    assert len(ROWS) >= 38
    assert len(SUM_ROWS) == 12


@pytest.mark.parametrize(("id", "count", "delta", "peer"), ROWS)
def test_both_libraries_agree(id, count, delta, peer):
    loss = report_loss(id).self_composed(count)
    assert loss.epsilon(delta) == pytest.approx(peer, rel=1e-6)
    # A bound of the peer is above the truth; so no bound here may prove much less.
    assert loss.delta(peer * (1 - 1e-6)) > delta


@pytest.mark.parametrize(("id", "delta", "rounded", "integers"), SUM_ROWS)
def test_both_libraries_agree_on_a_campaign_of_noisy_sums(id, delta, rounded, integers):
    epsilon = float(parse(id).epsilon(Fraction(delta)))
    assert epsilon == pytest.approx(rounded, rel=1e-6)
    if integers is not None:  # the peer's discrete Gaussians, without the price of rounding
        assert epsilon > integers - len(parse(id).sums) * FINE
        dearest = max(1 / (each.variance - Fraction(9, 4)) for each in parse(id).sums)
        assert epsilon < integers * (1 + 3 * float(dearest) + 1e-5)
