"""What every view of a gateway is made from: the settings, the broker, and what is allowed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiohttp import web

from stream_app.errors import UserError
from stream_app.gateway.readiness import Readiness
from stream_app.gateway.request_metrics import GatewayMetrics
from stream_app.kafka.clients import Connection
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


# Name of an endpoint -> its view.
Views = Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]


@dataclass(frozen=True, eq=False)
class Gateway:
    """One gateway: what its views share. `readiness` and `connections` change while it runs;
    `demo_side` is a file with the item side of a demo."""

    settings: Settings
    connection: Connection
    topics: Topics
    intake: Intake
    mechanisms: tuple[Mechanism, ...]
    demo_side: Path | None = None
    metrics: GatewayMetrics = field(default_factory=GatewayMetrics)
    connections: Connections = field(default_factory=lambda: Connections(Limits(most=600)))
    readiness: Readiness = field(default_factory=Readiness)

    @classmethod
    def from_settings(cls, settings: Settings, demo_side: Path | None = None) -> Gateway:
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
        return cls(settings, connection, topics, intake, mechanisms, demo_side)
