"""The bounds against those of dp-accounting, where both know the mechanism (peer/generate.py)."""

from __future__ import annotations

import json

import pytest

from stream_app.privacy.accounting.whole_person import report_loss
from tests.stream_app.privacy.accounting.peer.generate import PROJECTIONS, PURE, TABLE

ROWS = [tuple(row) for row in json.loads(TABLE.read_text(encoding="utf-8"))]


def test_the_table_holds_every_setting_of_its_generator():
    assert [row[:3] for row in ROWS] == [*PURE, *PROJECTIONS]
    assert len(ROWS) >= 40


@pytest.mark.parametrize(("id", "count", "delta", "peer"), ROWS)
def test_both_libraries_agree(id, count, delta, peer):
    projection = id.startswith("jlt")
    loss = report_loss(id, "rating" if projection else "person").self_composed(count)
    assert loss.epsilon(delta) == pytest.approx(peer, rel=1e-6)
    # A bound of the peer is above the truth; so no bound here may prove much less.
    assert loss.delta(peer * (1 - 1e-6)) > delta
