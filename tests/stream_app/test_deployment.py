"""Names in the settings against what a worker serves, and the table of learners."""

from __future__ import annotations

import pytest

from stream_app.deployment import spec_from_settings
from stream_app.errors import UserError
from stream_app.models.baselines.learners import LEARNERS
from stream_app.models.factorization.factory import LEARNERS as SERVED
from stream_app.settings import Settings


@pytest.mark.parametrize("model", LEARNERS)
def test_a_worker_serves_the_learners_of_kill_tests_and_refuses_the_others(model: str) -> None:
    from tests.chaos import test_kills

    (table,) = (m for m in test_kills.test_no_kill_leaves_a_wrong_state.pytestmark if m.args[1:])
    rows = [getattr(row, "values", row) for row in table.args[1]]  # some carry a mark
    killed = {setup.model for setup, _ in rows}
    assert killed == set(SERVED)
    if model in killed:
        assert spec_from_settings(Settings(model=model)).model == model
        return
    with pytest.raises(UserError) as refused:
        spec_from_settings(Settings(model=model))
    assert str(refused.value) == (f"model {model!r}: workers serve hybrid, sketch")


def test_an_unknown_name_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(UserError) as refused:
        spec_from_settings(Settings(model="bloom"))
    assert str(refused.value) == "model 'bloom': workers serve hybrid, sketch"
