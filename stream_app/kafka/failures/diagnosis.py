"""Why no Kafka answers at an address, as one sentence: what librdkafka says and what the port says.

librdkafka reports a wrong password, a certificate or a closed port, but says nothing of a port that
speaks another language and little of one that expects TLS. `probe_sentence` therefore probes the
port with an ApiVersions request, which every Kafka answers, and with a TLS handshake.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from enum import Enum

_PROBE_SECONDS = 1.0
# ApiVersions v0: api key, version, correlation id, client id. Allowed before authentication.
_CORRELATION = 0x6D757272
_API_VERSIONS = struct.pack(">hhih", 18, 0, _CORRELATION, -1)
_REQUEST = struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS


class ProbeResult(Enum):
    """What a port did when it was probed."""

    NO_LISTENER = "no process listens"
    KAFKA = "it answered as Kafka does"
    TLS = "it completed a TLS handshake"
    OTHER = "it answered, but not as Kafka does"
    SILENT = "it accepted the connection and did not answer"


_Causes = tuple[tuple[str, str], ...]
# What takes other settings.
_REFUSALS: _Causes = (
    (
        r"SASL authentication error|Authentication failed",
        "Kafka at {at} refuses the user name or password: correct sasl.username and sasl.password",
    ),
    (
        r"Unsupported SASL mechanism: broker's supported mechanisms: (?P<found>[\w,-]+)",
        "Kafka at {at} does not accept this sasl.mechanism: set it to {found}",
    ),
    (
        r"not valid in current SASL state",
        "Kafka at {at} asks for no password on this port: set security.protocol to PLAINTEXT "
        "or SSL, or use the port of its SASL listener",
    ),
    (
        r"certificate verify failed",
        "the certificate of {at} is not signed by an authority this machine trusts: "
        "set ssl.ca.location to the authority's certificate",
    ),
    (
        r"PLAINTEXT broker listener|wrong version number|http request",
        "{at} does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT, "
        "or use the port of its TLS listener",
    ),
)
_CAUSES: _Causes = (
    *_REFUSALS,
    (
        r"Failed to resolve '(?P<found>[^']+)'",
        "the host name of {found} is not known: correct the address",
    ),
    (
        r"Connection refused",
        "nothing listens at {at}: start a broker (murmurec broker start) or correct the address "
        "(--bootstrap or MURMUREC_BOOTSTRAP_SERVERS)",
    ),
)


def cause(lines: list[str], at: str) -> str | None:
    """Return the sentence for an error that waiting does not fix, if there is one."""
    return _found(_CAUSES, lines, at)


def _found(causes: _Causes, lines: list[str], at: str) -> str | None:
    text = "\n".join(lines)
    for pattern, sentence in causes:
        found = re.search(pattern, text, re.IGNORECASE)
        if found:
            return sentence.format(at=at, **found.groupdict())
    return None


def refusal(lines: list[str], at: str, secure: bool, ask: bool) -> str | None:
    """Return the sentence for a client that is refused until its settings are others, if it is;
    `ask`: of a client without TLS, ask the port for it, of which librdkafka says nothing."""
    if ask and not secure and probe(at) is ProbeResult.TLS:
        return probe_sentence(at, secure)
    return _found(_REFUSALS, lines, at)


def probe_sentence(address: str, secure: bool) -> str:
    """Return the sentence for a port of which librdkafka had nothing definite to say.

    `secure`: the client already used TLS.
    """
    answer = probe(address)
    if answer is ProbeResult.TLS and secure:
        answer = ProbeResult.KAFKA if _is_kafka(_over_tls(*split(address))) else ProbeResult.OTHER
    return {
        ProbeResult.NO_LISTENER: f"nothing can be reached at {address}: check the address and the "
        "network",
        ProbeResult.KAFKA: f"Kafka at {address} closes the connection of a client without a "
        "password, or is not ready: set security.protocol and sasl.*, or try again",
        ProbeResult.TLS: f"{address} expects TLS: set security.protocol to SSL or SASL_SSL "
        "(-X security.protocol=SSL)",
        ProbeResult.OTHER: f"what listens at {address} is not Kafka: correct the address",
        ProbeResult.SILENT: f"what listens at {address} does not answer as Kafka does: "
        "correct the address, or try again if the broker is still starting",
    }[answer]


def probe(address: str) -> ProbeResult:
    """Tell what listens at `host:port`, in two connections of at most a second each."""
    host, port = split(address)
    try:
        reply = _exchange(host, port)
    except OSError:
        return ProbeResult.NO_LISTENER
    if _is_kafka(reply):
        return ProbeResult.KAFKA
    if _over_tls(host, port) is not None:
        return ProbeResult.TLS
    return ProbeResult.OTHER if reply else ProbeResult.SILENT


def split(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`; Kafka's usual port where none is given."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        host, port = address, "9092"
    return host.strip("[]"), int(port)


def _exchange(host: str, port: int) -> bytes:
    """Return the first bytes that come back for an ApiVersions request; none is an answer too."""
    with socket.create_connection((host, port), _PROBE_SECONDS) as connection:
        try:
            # Its length is ten, a line feed: a server of lines, such as a web server, answers too.
            connection.sendall(_REQUEST)
            return connection.recv(64)
        except OSError:
            return b""


def _is_kafka(reply: bytes | None) -> bool:
    """Tell whether this is an answer to the ApiVersions request."""
    return bool(reply and len(reply) >= 8 and struct.unpack(">i", reply[4:8])[0] == _CORRELATION)


def _over_tls(host: str, port: int) -> bytes | None:
    """Return the first bytes that come back inside TLS, None where the port completes no handshake;
    whose certificate does not matter."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), _PROBE_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host) as inside,
        ):
            try:
                inside.sendall(_REQUEST)
                return inside.recv(64)
            except OSError:
                return b""
    except OSError:
        return None
