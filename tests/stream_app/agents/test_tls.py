"""The TLS context of Faust's client, from the properties that librdkafka reads."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from stream_app.agents.faust_ext.faust_app import tls_context
from stream_app.errors import UserError
from tests.faults.brokers import PASSWORD, certificates


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificates(tmp_path_factory.mktemp("keys"))


def places(keys: Path, **more: str) -> dict[str, str]:
    """Return the properties of a client with a certificate; further ones with _ for a dot."""
    given = {
        "ssl.certificate.location": str(keys / "user.crt"),
        "ssl.key.location": str(keys / "user.encrypted.key"),
        "ssl.key.password": PASSWORD,
    }
    return given | {name.replace("_", "."): value for name, value in more.items()}


def test_certificates_of_files_and_of_text_are_the_same(keys: Path) -> None:
    files = tls_context({"ssl.ca.location": str(keys / "ca.crt")} | places(keys))
    text = tls_context(
        {
            "ssl.ca.pem": (keys / "ca.crt").read_text(),
            "ssl.certificate.pem": (keys / "user.crt").read_text(),
            "ssl.key.pem": (keys / "user.encrypted.key").read_text(),
            "ssl.key.password": PASSWORD,
        }
    )
    assert files.get_ca_certs() == text.get_ca_certs()
    assert len(files.get_ca_certs()) == 1
    for made in (files, text):
        assert made.check_hostname
        assert made.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("given", "checks_name", "mode"),
    [
        ({}, True, ssl.CERT_REQUIRED),
        ({"ssl.endpoint.identification.algorithm": "none"}, False, ssl.CERT_REQUIRED),
        ({"ssl.endpoint.identification.algorithm": "https"}, True, ssl.CERT_REQUIRED),
        ({"enable.ssl.certificate.verification": "false"}, False, ssl.CERT_NONE),
    ],
)
def test_what_is_checked_is_what_the_properties_ask_for(
    given: dict[str, str], checks_name: bool, mode: ssl.VerifyMode
) -> None:
    made = tls_context(given)
    assert (made.check_hostname, made.verify_mode) == (checks_name, mode)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ssl_key_password": "wrong"}, "ssl.key.password where the key is encrypted"),
        ({"ssl_key_password": ""}, "ssl.key.password where the key is encrypted"),
        ({"ssl_ca_location": "/nowhere/ca.pem"}, "ssl.ca.location = /nowhere/ca.pem"),
        ({"ssl_ca_pem": "junk"}, "ssl.ca.pem"),
        ({"ssl_certificate_location": "/nowhere/a.pem"}, "cannot be read (no such file"),
        ({"ssl_key_pem": "-----BEGIN PRIVATE KEY-----\nhunter2\n"}, "cannot be read"),
        ({"ssl_keystore_location": "client.p12"}, "openssl pkcs12"),
        ({"ssl_keystore_password": "hunter2"}, "openssl pkcs12"),
        ({"ssl_cipher_suites": "x"}, "ssl.cipher.suites is not supported for a worker"),
        ({"ssl_crl_location": "x"}, "ssl.crl.location is not supported for a worker"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_without_a_secret(
    keys: Path, more: dict[str, str], said: str
) -> None:
    with pytest.raises(UserError) as refused:
        tls_context(places(keys, **more))
    assert said.lower() in str(refused.value).lower()
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_key_without_its_certificate_is_refused(keys: Path) -> None:
    given = {"ssl.key.location": str(keys / "user.key")}
    with pytest.raises(UserError, match=r"set ssl\.certificate\.location"):
        tls_context(given)
