"""Logs: an outage is told, not recited."""

from __future__ import annotations

import logging

import pytest

from stream_app.monitoring.log_setup import RateLimitFilter


def record(message: str, created: float) -> logging.LogRecord:
    made = logging.LogRecord("aiokafka.conn", logging.ERROR, "f", 1, message, None, None)
    made.created = created
    return made


@pytest.mark.parametrize(
    ("message", "created", "told"),
    [
        ("127.0.0.1:9092 failed after 5 ms", 5.0, False),
        ("127.0.0.1:9092 failed after 7 ms", 9.9, False),
        ("127.0.0.1:9092 failed after 7 ms", 10.0, True),
        ("another thing", 5.0, True),
    ],
)
def test_a_message_is_told_once_in_ten_seconds_numbers_aside(
    message: str, created: float, told: bool
) -> None:
    seldom = RateLimitFilter(10.0)
    assert seldom.filter(record("127.0.0.1:9092 failed after 1 ms", 0.0))
    assert seldom.filter(record(message, created)) is told


def test_what_the_worker_itself_says_is_always_told() -> None:
    seldom = RateLimitFilter(10.0)
    for created in (0.0, 0.1, 0.2):
        own = record("clock.owned", created)
        own.name = "stream_app.agents.clock_owner"
        assert seldom.filter(own)
