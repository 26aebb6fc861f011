"""A party at work waits for a broker that does not answer, and says so once."""

from __future__ import annotations

from typing import Any

import pytest

from stream_app.aggregation.party import Party
from stream_app.aggregation.service import serve
from stream_app.campaigns.rounds import Rounds
from stream_app.errors import Unanswered, UserError
from tests.stream_app.aggregation.world import Kept, keys_of


class Log:
    """A log of rounds without entries, which raises what it is given, one look after the other."""

    def __init__(self, *looks: UserError | None) -> None:
        self._looks = list(looks)
        self.rounds = Rounds()

    @property
    def over(self) -> bool:
        return not self._looks

    def catch_up(self) -> Rounds:
        if self._looks and (found := self._looks.pop(0)) is not None:
            raise found
        return self.rounds

    def wait(self, seconds: float) -> None:
        return


def said(*looks: UserError | None) -> list[str]:
    log: Any = Log(*looks)
    found: list[str] = []
    party = Party(keys_of(1)[0], Kept())
    serve(party, log, lambda _: (), lambda _: (), lambda: bool(log.over), found.append)
    return found


def test_a_party_waits_for_a_broker_that_is_away_and_says_so_once() -> None:
    away = Unanswered("the broker did not answer")
    assert said(None, away, away, None, None) == [
        "waiting for Kafka: the broker did not answer",
        "Kafka is back",
    ]


def test_any_other_fault_ends_a_party() -> None:
    with pytest.raises(UserError, match="no right"):
        said(None, UserError("no right"))
