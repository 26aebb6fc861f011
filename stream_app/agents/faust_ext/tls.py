"""The TLS context of the one client that is not librdkafka: the same properties, read by Python.

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

from stream_app.errors import UserError

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


def context(properties: Mapping[str, str]) -> ssl.SSLContext:
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
