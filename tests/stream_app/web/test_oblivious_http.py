"""The seal, against the example of RFC 9458 (appendix A), and bytes that do not open."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pyhpke import KEMKey, KEMKeyPair

from stream_app.web.oblivious_http import (
    Unopened,
    key_configurations,
    open_request,
    public_of,
    seal_request,
)

SECRET = bytes.fromhex("3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a")
PUBLIC = bytes.fromhex("31e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e798155")
_OWN = X25519PrivateKey.from_private_bytes(
    bytes.fromhex("bc51d5e930bda26589890ac7032f70ad12e4ecb37abb1b65b1256c9c48999c73")
)
EPHEMERAL = KEMKeyPair(*map(KEMKey.from_pyca_cryptography_key, (_OWN, _OWN.public_key())))
REQUEST = bytes.fromhex("00034745540568747470730b6578616d706c652e636f6d012f")
SEALED = bytes.fromhex("""
    010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b4726374e469135906
    992e1268c594d2a10c695d858c40a026e7965e7d86b83dd440b2c0185204b4d63525""")
NONCE = bytes.fromhex("c789e7151fcba46158ca84b04464910d")
RESPONSE = bytes.fromhex("0140c8")
SEALED_RESPONSE = NONCE + bytes.fromhex("86f9013e404feea014e7be4a441f234f857fbd")


def test_the_request_of_the_rfc_is_sealed_to_its_bytes_and_opens() -> None:
    assert public_of(SECRET) == PUBLIC
    sealed, _ = seal_request(PUBLIC, REQUEST, EPHEMERAL)
    assert sealed == SEALED
    assert open_request(SECRET, SEALED)[0] == REQUEST


def test_the_response_of_the_rfc_is_sealed_to_its_bytes_and_opens() -> None:
    _, gateways = open_request(SECRET, SEALED)
    assert gateways.seal(RESPONSE, NONCE) == SEALED_RESPONSE
    _, clients = seal_request(PUBLIC, REQUEST, EPHEMERAL)
    assert clients.open(SEALED_RESPONSE) == RESPONSE


def test_the_key_configuration_is_that_of_the_rfc_with_one_suite() -> None:
    config = key_configurations(PUBLIC)
    assert config == b"\0\x29" + b"\1\0\x20" + PUBLIC + bytes.fromhex("000400010001")
    assert int.from_bytes(config[:2]) == len(config) - 2


def test_two_requests_of_a_client_have_nothing_in_common() -> None:
    sealed = [seal_request(PUBLIC, REQUEST)[0][7:] for _ in range(2)]
    assert len({each[start : start + 8] for each in sealed for start in range(len(each) - 7)}) == (
        2 * (len(sealed[0]) - 7)
    )


def damaged(value: bytes, place: int) -> bytes:
    return value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]


@pytest.mark.parametrize("place", [*range(len(SEALED))])
def test_a_request_with_one_bit_changed_does_not_open(place) -> None:
    with pytest.raises(Unopened):
        open_request(SECRET, damaged(SEALED, place))


@pytest.mark.parametrize("place", [0, 16, len(SEALED_RESPONSE) - 1])
def test_a_response_with_one_bit_changed_does_not_open(place) -> None:
    _, answer = seal_request(PUBLIC, REQUEST, EPHEMERAL)
    with pytest.raises(Unopened):
        answer.open(damaged(SEALED_RESPONSE, place))
    with pytest.raises(Unopened):
        answer.open(SEALED_RESPONSE[:place])


@pytest.mark.parametrize("size", [0, 1, 7, 38, 39, 54])
def test_a_short_request_does_not_open(size) -> None:
    with pytest.raises(Unopened):
        open_request(SECRET, SEALED[:size])


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31)])
def test_a_point_of_small_order_is_refused(point) -> None:
    with pytest.raises(Unopened):
        open_request(SECRET, SEALED[:7] + point + SEALED[39:])
    with pytest.raises(ValueError, match="key"):
        seal_request(point, REQUEST)


def test_another_key_does_not_open() -> None:
    with pytest.raises(Unopened):
        open_request(NONCE + NONCE, SEALED)
    _, another = seal_request(PUBLIC, REQUEST)
    with pytest.raises(Unopened):
        another.open(SEALED_RESPONSE)
