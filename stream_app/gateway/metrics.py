"""Prometheus metrics of a gateway; no client, device or item is ever a label."""

from __future__ import annotations

from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from stream_app.gateway.contract.reasons import OF_EVENTS, HttpReason
from stream_app.monitoring.metric_table import Label, Metric, Source

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# How a body sent to /reports is answered.
ANSWERS = (
    *("accepted", "duplicate"),
    *map(str, (HttpReason.CONTENT_TYPE, HttpReason.SEQ_REUSED, HttpReason.RATE, HttpReason.KAFKA)),
    *map(str, OF_EVENTS),
)
# How a query ended.
ASKED = ("answered", "refused", "query", "rate", "busy", "no_answer")

GATEWAY_METRICS: tuple[Metric, ...] = (
    Metric(
        "gateway_reports_total",
        "counter",
        Source.ARRIVALS,
        (Label("answer", ANSWERS),),
        "Bodies sent to /reports, by how they were answered.",
    ),
    Metric(
        "gateway_confirm_seconds",
        "histogram",
        Source.ARRIVALS,
        (),
        "Time from an event's arrival to its confirmation by Kafka.",
        buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
    ),
    Metric(
        "gateway_queries_total",
        "counter",
        Source.QUERIES,
        (Label("answer", ASKED),),
        "Queries over HTTP, by how they were answered; query: it made no sense.",
    ),
    Metric(
        "gateway_answer_seconds",
        "histogram",
        Source.QUERIES,
        (),
        "Time from a query's arrival to the answer of a worker.",
        buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
    ),
    Metric(
        "gateway_unconfirmed",
        "gauge",
        Source.ARRIVALS,
        (),
        "Events that wait for Kafka's confirmation.",
        initial=0,
    ),
    Metric(
        "gateway_connections",
        "gauge",
        Source.PROCESS,
        (),
        "Open connections of clients.",
        initial=0,
    ),
    Metric(
        "gateway_ready",
        "gauge",
        Source.PROCESS,
        (),
        "1 while Kafka and its topics answer, else 0.",
        initial=0,
    ),
)


class GatewayMetrics:
    """Everything that a gateway publishes, in one registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        rows = {metric.name: metric for metric in GATEWAY_METRICS}

        def text(name: str) -> tuple[str, str]:
            return rows[name].published_name, rows[name].help_text

        registry = self.registry
        answers = Counter(*text("gateway_reports_total"), ["answer"], registry=registry)
        self._answers = {name: answers.labels(name) for name in ANSWERS}
        confirm = rows["gateway_confirm_seconds"]
        self._confirm = Histogram(*text(confirm.name), buckets=confirm.buckets, registry=registry)
        queries = Counter(*text("gateway_queries_total"), ["answer"], registry=registry)
        self._queries = {name: queries.labels(name) for name in ASKED}
        answer = rows["gateway_answer_seconds"]
        self._answer = Histogram(*text(answer.name), buckets=answer.buckets, registry=registry)
        self._unconfirmed = Gauge(*text("gateway_unconfirmed"), registry=registry)
        self._connections = Gauge(*text("gateway_connections"), registry=registry)
        self._ready = Gauge(*text("gateway_ready"), registry=registry)

    def answered(self, answer: str) -> None:
        """Count a body by how it was answered: one of `ANSWERS`."""
        self._answers[answer].inc()

    def confirmed(self, seconds: float) -> None:
        """Count the time that an event waited for Kafka."""
        self._confirm.observe(seconds)

    def asked(self, answer: str, seconds: float) -> None:
        """Count a query by how it was answered, one of `ASKED`; `seconds` since it arrived."""
        self._queries[answer].inc()
        if answer == "answered":
            self._answer.observe(seconds)

    def render(self, unconfirmed: int, connections: int, ready: bool) -> bytes:
        """Return the text of /metrics with these three as they are now."""
        self._unconfirmed.set(unconfirmed)
        self._connections.set(connections)
        self._ready.set(ready)
        return generate_latest(self.registry)
