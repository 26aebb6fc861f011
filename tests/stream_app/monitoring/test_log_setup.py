"""Logs: a repeated message of an outage is written seldom, and Faust's services are quiet."""

from __future__ import annotations

import logging

import pytest

from stream_app.monitoring.log_setup import RateLimitFilter, ServiceFilter


def record(message: str, created: float) -> logging.LogRecord:
    made = logging.LogRecord("aiokafka.conn", logging.ERROR, "f", 1, message, None, None)
    made.created = created
    return made


@pytest.mark.parametrize(
    ("message", "created", "written"),
    [
        ("127.0.0.1:9092 failed after 5 ms", 5.0, False),
        ("127.0.0.1:9092 failed after 7 ms", 9.9, False),
        ("127.0.0.1:9092 failed after 7 ms", 10.0, True),
        ("another thing", 5.0, True),
    ],
)
def test_a_message_is_written_once_in_ten_seconds_whatever_its_numbers(
    message: str, created: float, written: bool
) -> None:
    limit = RateLimitFilter(10.0)
    assert limit.filter(record("127.0.0.1:9092 failed after 1 ms", 0.0))
    assert limit.filter(record(message, created)) is written


def test_the_workers_own_events_are_always_written() -> None:
    limit = RateLimitFilter(10.0)
    for created in (0.0, 0.1, 0.2):
        own = record("clock.owned", created)
        own.name = "stream_app.agents.application"
        assert limit.filter(own)


@pytest.mark.parametrize(
    ("message", "level", "written"),
    [
        ("[^-LogReader]: Starting...", logging.INFO, False),
        ("[^-LogReader]: Crashed reason=KeyError()", logging.ERROR, True),
        ("worker.started", logging.INFO, True),
    ],
)
def test_start_and_stop_messages_of_services_are_dropped_below_a_warning(
    message: str, level: int, written: bool
) -> None:
    made = logging.LogRecord("stream_app.agents.log_reader", level, "f", 1, message, None, None)
    assert ServiceFilter().filter(made) is written
