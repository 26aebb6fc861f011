"""What every view of a gateway is made from: the settings, the broker, what is allowed, and the
Prometheus metrics, in which no client, device or item is ever a label."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from stream_app.errors import UserError
from stream_app.gateway.contract.rejection_reasons import OF_EVENTS, HttpReason
from stream_app.gateway.readiness import Readiness
from stream_app.kafka.clients import Connection
from stream_app.monitoring.collectors import Collectors
from stream_app.monitoring.metric_table import Label, Metric, Source
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings
from stream_app.web.connections import Connections, Limits
from stream_app.wire import Intake, Topics
from stream_app.wire.signatures import Signatures

# An extension block of an event has a meaning for later releases only, and no device of this one
# sends it: to a gateway it would be a field of which it cannot say that it was released. Workers of
# a deployment under a later contract take events with one from Kafka.
CONTRACT = 1

# How a body sent to /reports, or to /contributions, is answered.
ANSWERS = (
    *("accepted", "duplicate"),
    *map(str, (HttpReason.CONTENT_TYPE, HttpReason.SEQ_REUSED, HttpReason.RATE, HttpReason.KAFKA)),
    *map(str, OF_EVENTS),
    *("no_campaigns", "signed", "stage", "contributed", "contribution"),
)
# How a query ended.
ASKED = ("answered", "refused", "query", "rate", "busy", "no_answer")

GATEWAY_METRICS: tuple[Metric, ...] = (
    Metric(
        *("gateway_reports_total", "counter", Source.ARRIVALS, (Label("answer", ANSWERS),)),
        "Bodies sent to /reports and /contributions, by how they were answered.",
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
        *("gateway_refused_replies_total", "counter", Source.QUERIES, ()),
        "Records under the id of a query that are no answer sealed to it.",
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

    def reply_refused(self) -> None:
        """Count a record that is no answer to the query under whose id it came."""
        self._counters["gateway_refused_replies_total"].inc()

    def render(self, unconfirmed: int, connections: int, ready: bool) -> bytes:
        """Return the text of /metrics with these three as they are now."""
        self._gauges["gateway_unconfirmed"].set(unconfirmed)
        self._gauges["gateway_connections"].set(connections)
        self._gauges["gateway_ready"].set(ready)
        return self.exposition()


# Name of an endpoint -> its view.
Views = Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]


@dataclass(frozen=True, eq=False)
class Gateway:
    """One gateway: what its views share. `readiness` and `connections` change while it runs;
    `demo_facts` is a file with what a demo measured, `pinned` the JSON of /web/pinned.json."""

    settings: Settings
    connection: Connection
    topics: Topics
    intake: Intake
    mechanisms: tuple[Mechanism, ...]
    demo_facts: Path | None = None
    pinned: bytes | None = None
    metrics: GatewayMetrics = field(default_factory=GatewayMetrics)
    connections: Connections = field(default_factory=lambda: Connections(Limits(most=600)))
    readiness: Readiness = field(default_factory=Readiness)

    @classmethod
    def from_settings(
        cls, settings: Settings, demo_facts: Path | None = None, pinned: bytes | None = None
    ) -> Gateway:
        """Return the gateway of these settings; refuses an unknown mechanism, and no broker."""
        connection = Connection(settings.servers, settings.kafka)
        topics = Topics(settings.topic_prefix)
        try:
            mechanisms = tuple(registry.parse(name) for name in settings.mechanisms)
        except ValueError as error:
            raise UserError(str(error)) from None
        signatures = Signatures(topic=topics.ratings, required=settings.signed)
        intake = Intake.of_mechanisms(
            mechanisms, settings.partitions, settings.accept_tests, signatures
        )
        intake = replace(intake, contract=CONTRACT)
        return cls(settings, connection, topics, intake, mechanisms, demo_facts, pinned)
