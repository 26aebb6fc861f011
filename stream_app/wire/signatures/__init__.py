"""Signed events: an envelope with a public key and a signature, and the device named by that key.

    envelope   C1 | public key 32 | signature 64 | event                (Ed25519, RFC 8032)
    signed     "murmurec event 1" 0 | topic's name 0 | event            (bytes, in this order)
    pseudonym  first 16 bytes of SHA-256(public key)

No event begins with the byte C1: it is neither JSON nor MessagePack. The topic's name is signed, so
an event counts in the deployment for which it was made and in no other. A browser needs nothing but
WebCrypto for all three lines.

A record may carry a tag of 16 bytes, as the Kafka header `tag` or as `;tag=` and 32 hex digits in
the content type of a body. Its device alone makes and checks it, by a key that never leaves it, to
know its own records again; servers keep it as it came and look at nothing in it.

A signature proves that the device named by the record made these bytes, and so that its numbering
is its own; not that the report in them was drawn as its mechanism says.
"""

from stream_app.wire.signatures.envelope import (
    ENVELOPE,
    HEAD_BYTES,
    TAG,
    TAG_BYTES,
    Claim,
    Signatures,
    SigningKey,
    digest_of,
    envelope_device,
    opened,
    tag_in,
)
