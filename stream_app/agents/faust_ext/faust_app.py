"""The Faust application of a worker: its configuration, and Faust's form of Kafka's credentials.

Faust provides group membership, the ownership of the clock, the query stream and the web views. The
offsets that it commits do not matter: the reader takes its position from the log.

Faust's web server on a listener of `stream_app/web`, with its limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import faust
from faust.web.drivers.aiohttp import Web

from stream_app.agents.faust_ext import tls
from stream_app.agents.faust_ext.group_membership import member_identity
from stream_app.agents.faust_ext.table_manager import PatientTableManager
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.settings import Settings
from stream_app.web.connections import Connections, Limits, Listener
from stream_app.web.refusals import Access

SESSION_SECONDS = 6.0
_SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def new_app(
    settings: Settings, connection: Connection, admin_port: int, data_dir: Path
) -> faust.App:
    """Return an application without stages; Faust requires `data_dir` and stores nothing in it."""
    app = faust.App(
        settings.worker_group,
        env={},  # a variable such as WEB_PORT or PRODUCER_ACKS would outrank what is set here
        broker=[f"kafka://{address.strip()}" for address in connection.bootstrap.split(",")],
        broker_credentials=credentials(settings.kafka),
        store="memory://",
        datadir=str(data_dir),
        autodiscover=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=False,
        broker_session_timeout=SESSION_SECONDS,
        broker_heartbeat_interval=SESSION_SECONDS / 4,
        broker_request_timeout=15.0,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="latest",
        producer_linger=0,
        web_bind=settings.admin_host,
        web_host=settings.admin_host,
        web_port=admin_port,
        web_tables_enabled=False,
        web_router_enabled=False,
        table_standby_replicas=0,
        TableManager=PatientTableManager,
        **member_identity(settings.topic_prefix, settings.instance),
    )
    access = Access(
        frozenset({settings.admin_host.lower(), *settings.admin_hosts}), settings.admin_token
    )
    app.web = LimitedWeb(app, Limits(), (access.checked,))
    return app


def credentials(properties: Mapping[str, str]) -> Any:
    """Return Faust's form of librdkafka's security properties, None for a plain connection.

    Raises UserError for a SASL mechanism or a TLS property that Faust does not support.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return None
    context = tls.context(properties) if protocol.endswith("SSL") else None
    if protocol == "SSL":
        return faust.SSLCredentials(context)
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "PLAIN"))
    if mechanism not in _SASL_MECHANISMS:
        raise UserError(
            f"sasl.mechanism {mechanism}: a worker supports PLAIN and SCRAM-SHA-256/512"
        )
    return faust.SASLCredentials(
        username=properties.get("sasl.username"),
        password=properties.get("sasl.password"),
        mechanism=mechanism,
        ssl_context=context,
    )


_END_SECONDS = 0.5  # for views that still run at the end


class LimitedWeb(Web):
    """Faust's aiohttp application; `middlewares` run before every view."""

    def __init__(
        self, app: faust.App, limits: Limits, middlewares: tuple[Any, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(app, **kwargs)
        self.connections = Connections(limits)
        self.web_app.middlewares.extend((self.connections.limited, *middlewares))
        self._listener = Listener(
            self.web_app, self.connections, linger_seconds=0, end_seconds=_END_SECONDS
        )

    async def start_server(self) -> None:
        """Listen; raises OSError for an address that cannot be bound."""
        await self._listener.start(self.app.conf.web_bind, self.app.conf.web_port)

    async def stop_server(self) -> None:
        """Stop listening, then end the views."""
        await self._listener.stop()
        await super().stop_server()
