"""The Faust application of a worker: its configuration, and Faust's form of Kafka's credentials.

Faust provides group membership, the ownership of the clock, the query stream and the web views. The
offsets that it commits do not matter: the reader takes its position from the log.

Faust's web server on a listener of `stream_app/web`, with its limits.

Faust's client is the one that is not librdkafka: its TLS context is of the same properties.

    ssl.ca.location | ssl.ca.pem                      authorities, a file or folder, or PEM text
    ssl.certificate.location | ssl.certificate.pem    this client's certificate, with its chain
    ssl.key.location | ssl.key.pem                    its key, encrypted where ssl.key.password is
                                                      set
    ssl.endpoint.identification.algorithm             none: the broker's name is not checked
    enable.ssl.certificate.verification               false: its certificate is not checked either

Every other property about TLS is refused: to leave it out would make one of the two clients accept
what the other one refuses. `config show` never shows the key, and no error repeats it.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import faust
from faust.web.drivers.aiohttp import Web

from stream_app.agents.faust_ext.group_membership import member_identity
from stream_app.agents.faust_ext.state_table import PatientTableManager
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.settings import Settings
from stream_app.web.connections import Connections, Limits, Listener
from stream_app.web.refusals import Access

_CA, _CERTIFICATE, _KEY = "ssl.ca", "ssl.certificate", "ssl.key"
_PASSWORD = "ssl.key.password"
_NAME_CHECK = "ssl.endpoint.identification.algorithm"
_CHECK = "enable.ssl.certificate.verification"
_READ = {
    *(f"{name}.{form}" for name in (_CA, _CERTIFICATE, _KEY) for form in ("location", "pem")),
    _PASSWORD,
    _NAME_CHECK,
    _CHECK,
}
_KEYSTORE = "ssl.keystore."


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context for librdkafka's properties; raises UserError for what it cannot hold."""
    for name in properties:
        if name.startswith(_KEYSTORE):
            raise UserError(
                f"Kafka property {name}: a worker reads no PKCS#12 keystore; write it as PEM "
                "(openssl pkcs12 -in FILE -out FILE.pem) and set ssl.certificate.location and "
                "ssl.key.location"
            )
        if name.startswith("ssl.") and name not in _READ:
            raise UserError(f"Kafka property {name} is not supported for a worker: leave it out")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_authorities(made, properties)
    _load_certificate(made, properties)
    checked = properties.get(_CHECK, "true").lower() != "false"
    made.check_hostname = checked and properties.get(_NAME_CHECK, "https").lower() != "none"
    made.verify_mode = ssl.CERT_REQUIRED if checked else ssl.CERT_NONE
    return made


def _load_authorities(made: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    text, place = properties.get(f"{_CA}.pem"), properties.get(f"{_CA}.location")
    try:
        if text is not None:
            made.load_verify_locations(cadata=text)
        elif place is not None:
            is_folder = Path(place).is_dir()
            made.load_verify_locations(**{"capath" if is_folder else "cafile": place})
        else:
            made.load_default_certs()
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        name = f"{_CA}.pem" if text is not None else f"{_CA}.location = {place}"
        raise UserError(
            f"Kafka property {name}: no certificate of an authority can be read "
            f"({_reason(error)}); give it in PEM"
        ) from None


def _load_certificate(made: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Load this client's certificate and key; each is a file or a text."""
    if not any(name.startswith((f"{_CERTIFICATE}.", f"{_KEY}.")) for name in properties):
        return
    with tempfile.TemporaryDirectory(prefix="murmurec-") as folder:  # its owner's alone
        certificate = _place(properties, _CERTIFICATE, Path(folder))
        key = _place(properties, _KEY, Path(folder))
        if certificate is None:
            raise UserError(f"Kafka property {_KEY}: set {_CERTIFICATE}.location or .pem as well")
        password = properties.get(_PASSWORD, "")
        try:
            # With a password, empty or not, a key that is encrypted asks for none at a terminal.
            made.load_cert_chain(certificate, key, password)
        except (OSError, ValueError) as error:
            raise UserError(
                f"Kafka properties {_CERTIFICATE} and {_KEY}: they cannot be read "
                f"({_reason(error)}); give both in PEM, and {_PASSWORD} where the key is encrypted"
            ) from None


def _place(properties: Mapping[str, str], name: str, folder: Path) -> Path | None:
    """Return the file of a property; a text is written to one, as Python reads files alone."""
    text, place = properties.get(f"{name}.pem"), properties.get(f"{name}.location")
    if text is None:
        return None if place is None else Path(place)
    written = folder / f"{name}.pem"
    written.write_text(text, encoding="utf-8")
    return written


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "not PEM").replace("_", " ").lower()
    return getattr(error, "strerror", None) or "not PEM"


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
    context = tls_context(properties) if protocol.endswith("SSL") else None
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
