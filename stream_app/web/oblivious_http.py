"""The seal of Oblivious HTTP (RFC 9458): a request that the relay in between cannot read.

    client                                 relay                    gateway
    seal_request(public, request)  ----->  forwards bytes  ----->   open_request(secret, sealed)
    answer.open(sealed)            <-----                  <-----   answer.seal(response)

HPKE in base mode (RFC 9180) with X25519, HKDF-SHA256 and AES-128-GCM, which browsers have too:
every request has a fresh key pair, so two of one client have nothing in common. A response is
sealed with a secret that the request's context exports (RFC 9458, 4.4). A sealed request may be
sent again by the relay, and opens again: what it asks for has to be idempotent.

public, secret: 32 bytes. Clients pin the public key, so that a relay cannot hand out its own.
"""

from __future__ import annotations

import hmac
import os
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyhpke import AEADId, CipherSuite, ContextInterface, KDFId, KEMId, KEMKey, KEMKeyPair
from pyhpke.exceptions import PyHPKEError

REQUEST, RESPONSE, KEYS = "message/ohttp-req", "message/ohttp-res", "application/ohttp-keys"
KEY_BYTES = 32
_SUITE = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)
_KEY_ID = 1
_HEAD = struct.pack(">BHHH", _KEY_ID, 0x0020, 0x0001, 0x0001)
_INFO = b"message/bhttp request\0" + _HEAD
_NONCE_BYTES = 16  # of a response: the longer of the key and the nonce of AES-128-GCM


class Unopened(ValueError):
    """Bytes that do not open: damaged, or sealed to another key."""


class Answer:
    """The way back of one request."""

    def __init__(self, encapsulated: bytes, context: ContextInterface) -> None:
        self._encapsulated = encapsulated
        self._secret = context.export(b"message/bhttp response", 16)

    def seal(self, response: bytes, nonce: bytes | None = None) -> bytes:
        """Return the sealed response; `nonce`, of 16 bytes, only where a test gives it."""
        nonce = os.urandom(_NONCE_BYTES) if nonce is None else nonce
        cipher, iv = self._derived(nonce)
        return nonce + cipher.encrypt(iv, response, None)

    def open(self, sealed: bytes) -> bytes:
        """Return the response; `Unopened` for one that this request's gateway did not seal."""
        cipher, iv = self._derived(sealed[:_NONCE_BYTES])
        try:
            return cipher.decrypt(iv, sealed[_NONCE_BYTES:], None)
        except (InvalidTag, ValueError):
            raise Unopened("the response does not open: it is damaged or forged") from None

    def _derived(self, nonce: bytes) -> tuple[AESGCM, bytes]:
        key = hmac.digest(self._encapsulated + nonce, self._secret, "sha256")
        parts = [hmac.digest(key, label + b"\1", "sha256") for label in (b"key", b"nonce")]
        return AESGCM(parts[0][:16]), parts[1][:12]


def public_of(secret: bytes) -> bytes:
    """Return the public half of a gateway's key."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def key_configurations(public: bytes) -> bytes:
    """Return the one key configuration of a gateway, as `KEYS` has it (RFC 9458, 3)."""
    one = _HEAD[:3] + public + struct.pack(">H", 4) + _HEAD[3:]
    return struct.pack(">H", len(one)) + one


def seal_request(
    public: bytes, request: bytes, pair: KEMKeyPair | None = None
) -> tuple[bytes, Answer]:
    """Return the sealed request, and what opens its response; ValueError for no public key. `pair`:
    of this request, only where a test gives it."""
    key = KEMKey.from_pyca_cryptography_key(X25519PublicKey.from_public_bytes(public))
    encapsulated, context = _SUITE.create_sender_context(key, info=_INFO, eks=pair)
    return _HEAD + encapsulated + context.seal(request), Answer(encapsulated, context)


def open_request(secret: bytes, sealed: bytes) -> tuple[bytes, Answer]:
    """Return the request in sealed bytes, and what seals its response; raises `Unopened`."""
    begins = len(_HEAD) + KEY_BYTES
    encapsulated = sealed[len(_HEAD) : begins]
    key = KEMKey.from_pyca_cryptography_key(X25519PrivateKey.from_private_bytes(secret))
    try:
        context = _SUITE.create_recipient_context(encapsulated, key, info=_INFO)
        if sealed.startswith(_HEAD):
            return context.open(sealed[begins:]), Answer(encapsulated, context)
    except (PyHPKEError, ValueError):
        pass
    raise Unopened("the request does not open with this key")
