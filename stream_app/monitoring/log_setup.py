"""Structured logs of one process: JSON lines, or colour on a terminal; never a payload.

Every line goes to stderr in one write, so that lines of two threads do not interleave. Messages of
libraries, which use the standard library's logging, have the same form.
"""

from __future__ import annotations

import logging
import re
import sys
from math import inf
from typing import Literal

import structlog

# The Kafka clients: during an outage each of them repeats the same message.
_CLIENTS = ("aiokafka", "faust", "mode", "stream_app.kafka.clients")


class RateLimitFilter(logging.Filter):
    """Passes a message of a Kafka client once per `seconds`.

    Messages that differ only in numbers count as equal.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        super().__init__()
        self._seconds = seconds
        self._last_written: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written; records of other loggers always are."""
        if not record.name.startswith(_CLIENTS):
            return True
        message = re.sub(r"[0-9]+", "#", record.getMessage())
        if record.created - self._last_written.get(message, -inf) < self._seconds:
            return False
        if len(self._last_written) > 1000:
            self._last_written.clear()
        self._last_written[message] = record.created
        return True


class ServiceFilter(logging.Filter):
    """Drops the start and stop messages of Faust's services, such as "[^-LogReader]: Starting...".

    The library names the logger of a service after the module of its class, so a subclass in this
    project logs under the project's name. Messages from WARNING on are kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        return record.levelno >= logging.WARNING or not str(record.msg).startswith("[^")


def configure(level: str = "INFO", style: Literal["auto", "json", "console"] = "auto") -> None:
    """Set up logging for this process."""
    console = style == "console" or (style == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if console else structlog.processors.JSONRenderer()
    )
    if not console:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Faust and its client log every assignment and heartbeat; a worker's own events cover both.
    for name in ("faust", "mode", "aiokafka", "aiohttp.access", "asyncio", "numba"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    handler.addFilter(RateLimitFilter())
    if root.level > logging.DEBUG:
        handler.addFilter(ServiceFilter())
