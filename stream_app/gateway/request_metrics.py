"""Prometheus metrics of a gateway; no client, device or item is ever a label."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from stream_app.gateway.contract.rejection_reasons import OF_EVENTS, HttpReason
from stream_app.monitoring.collectors import Collectors
from stream_app.monitoring.metric_table import Label, Metric, Source

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
        *("gateway_reports_total", "counter", Source.ARRIVALS, (Label("answer", ANSWERS),)),
        "Bodies sent to /reports, by how they were answered.",
    ),
    Metric(
        *("gateway_confirm_seconds", "histogram", Source.ARRIVALS, ()),
        "Time from an event's arrival to its confirmation by Kafka.",
        buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
    ),
    Metric(
        *("gateway_queries_total", "counter", Source.QUERIES, (Label("answer", ASKED),)),
        "Queries over HTTP, by how they were answered; query: it made no sense.",
    ),
    Metric(
        *("gateway_answer_seconds", "histogram", Source.QUERIES, ()),
        "Time from a query's arrival to the answer of a worker.",
        buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
    ),
    Metric(
        *("gateway_unconfirmed", "gauge", Source.ARRIVALS, ()),
        "Events that wait for Kafka's confirmation.",
        initial=0,
    ),
    Metric(
        *("gateway_connections", "gauge", Source.PROCESS, ()),
        "Open connections of clients.",
        initial=0,
    ),
    Metric(
        *("gateway_ready", "gauge", Source.PROCESS, ()),
        "1 while Kafka and its topics answer, else 0.",
        initial=0,
    ),
)


class GatewayMetrics(Collectors):
    """Everything that a gateway publishes, in one registry."""

    def __init__(self) -> None:
        super().__init__(GATEWAY_METRICS, CollectorRegistry())

    def answered(self, answer: str) -> None:
        """Count a body by how it was answered: one of `ANSWERS`."""
        self._counters["gateway_reports_total"].labels(answer).inc()

    def confirmed(self, seconds: float) -> None:
        """Count the time that an event waited for Kafka."""
        self._histograms["gateway_confirm_seconds"].observe(seconds)

    def asked(self, answer: str, seconds: float) -> None:
        """Count a query by how it was answered, one of `ASKED`; `seconds` since it arrived."""
        self._counters["gateway_queries_total"].labels(answer).inc()
        if answer == "answered":
            self._histograms["gateway_answer_seconds"].observe(seconds)

    def render(self, unconfirmed: int, connections: int, ready: bool) -> bytes:
        """Return the text of /metrics with these three as they are now."""
        self._gauges["gateway_unconfirmed"].set(unconfirmed)
        self._gauges["gateway_connections"].set(connections)
        self._gauges["gateway_ready"].set(ready)
        return self.exposition()
