"""What every view of a gateway is made from: the settings, the broker, and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from stream_app.errors import UserError
from stream_app.gateway.metrics import GatewayMetrics
from stream_app.gateway.readiness import Readiness
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


@dataclass(frozen=True)
class GatewaySettings:
    """The settings of a gateway; `demo_side` is a file with the item side of a demo."""

    host: str
    port: int
    hosts: frozenset[str]
    origins: frozenset[str]
    rate: float
    worker_url: str
    worker_token: str | None = field(repr=False)
    privacy_mode: str = "local"
    devices: str = "open"
    partitions: int = 4
    query_partitions: int = 4
    demo_side: Path | None = None

    @classmethod
    def from_settings(cls, settings: Settings, demo_side: Path | None = None) -> GatewaySettings:
        """Return what the gateway reads of the settings."""
        worker = settings.gateway_worker or f"http://127.0.0.1:{settings.admin_port}"
        return cls(
            host=settings.gateway_host,
            port=settings.gateway_port,
            hosts=frozenset({settings.gateway_host.lower(), *settings.gateway_hosts}),
            origins=frozenset(settings.gateway_origins),
            rate=settings.gateway_rate,
            worker_url=worker.rstrip("/"),
            worker_token=settings.admin_token,
            privacy_mode=settings.privacy_mode,
            devices=settings.devices,
            partitions=settings.partitions,
            query_partitions=settings.query_partitions or settings.partitions,
            demo_side=demo_side,
        )


@dataclass(frozen=True, eq=False)
class Gateway:
    """One gateway: what its views share. `readiness` and `connections` change while it runs."""

    settings: GatewaySettings
    connection: Connection
    topics: Topics
    intake: Intake
    mechanisms: tuple[Mechanism, ...]
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
        own = GatewaySettings.from_settings(settings, demo_side)
        return cls(own, connection, topics, intake, mechanisms)
