"""`murmurec rounds begin` refuses a plan that no device would follow, without a broker."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.cli import run
from stream_app.wire.campaigns.plan import encode_plan
from tests.fixtures.campaigns import plan


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"epsilon": Fraction(1, 2)}, "more than the 0.5 that it states"),
        ({"epsilon": Fraction(10**20 - 1)}, "is above 64"),
        ({"epsilon": Fraction(4), "scope": (1, 2)}, "has 36 integers; s items of the 2"),
    ],
)
def test_a_plan_that_no_device_would_follow_is_refused_without_a_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict, sentence: str
) -> None:
    party = keys.make(tmp_path, Role.CENTRAL)
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(plan(keys=(party.public.hex(),), **changed)))
    command = ["rounds", "begin", str(path), "--key", str(tmp_path / "central.pub")]
    assert run([*command, "--bootstrap", "127.0.0.1:1"]) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert sentence in shown
    assert "nothing was written" in shown
