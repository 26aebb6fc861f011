"""A device's vector, split and sealed: what each party of a campaign can and cannot read.

    central   party 0 reads the vector, of uint32 integers modulo 2^32
    split     party 0 reads a seed, which stands for its share: r
              party 1 reads x - r modulo 2^48 - 65
              both read a part of a proof that x is within the bound (`verified/norm_proof.py`)

(Additive secret sharing with proofs: Boneh et al., Prio, NSDI 2017.) A share by itself is uniform,
whatever x is; only the sum of both is x. Sums of shares are shares of the sum, so each party adds
its shares and no party ever holds a vector.

Boxes are libsodium's sealed boxes (X25519, XSalsa20, Poly1305; anonymous sender). A party takes a
box only where it begins with the context of its plan, stage, device and party.
"""

from __future__ import annotations

import numpy as np
from nacl import bindings
from nacl.exceptions import CryptoError
from numpy.typing import NDArray

from stream_app.campaigns.verified import norm_proof
from stream_app.campaigns.verified.norm_proof import Checked, Statement
from stream_app.privacy.randomness import RandomSource
from stream_app.wire.campaigns.contribution import (
    CONTEXT_BYTES,
    SEAL_BYTES,
    Contribution,
    box_context,
)
from stream_app.wire.campaigns.plan import Campaign

_SECRET_WORDS = norm_proof.SEED_BYTES // 8


def as_words(vector: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Return signed integers modulo 2^32, (size,) uint32."""
    return vector.astype(np.int64).astype(np.uint32)


def within(vector: NDArray[np.integer], bound: int) -> bool:
    """Return whether the L2 norm of integers is at most `bound`, exactly."""
    sizes = np.abs(vector.astype(np.int64))
    if int(sizes.max(initial=0)) > bound:
        return False
    # At most 48,000 squares of 2^48: below 2^64.
    return int(np.square(sizes.astype(np.uint64)).sum()) <= bound**2


def seal(
    campaign: Campaign,
    stage: int,
    device: bytes,
    vector: NDArray[np.integer],
    source: RandomSource,
) -> Contribution:
    """Return the contribution of a device: its vector (size,), readable by all parties together.

    `source` gives the seed of the shares; the keys of the boxes come from libsodium. Raises
    ValueError for a vector that is not of this stage, whose norm is above the stage's bound, or
    where the plan names no keys.
    """
    terms = campaign.stages[stage]
    if vector.shape != (terms.size,):
        raise ValueError(f"a vector of {vector.shape}: stage {stage} takes ({terms.size},)")
    if not within(vector, terms.bound):
        raise ValueError(f"a vector beyond the bound: stage {stage} takes a norm of {terms.bound}")
    if len(campaign.keys) != campaign.parties:
        raise ValueError(f"campaign {campaign.number} names no keys of its parties")
    if campaign.parties == 1:
        payloads = [as_words(vector).astype("<u4").tobytes()]
    else:
        words = source.words(2 * _SECRET_WORDS).astype("<u8").tobytes()
        seed, blind = words[: norm_proof.SEED_BYTES], words[norm_proof.SEED_BYTES :]
        statement = statement_of(campaign, stage, device)
        payloads = list(norm_proof.prove(statement, vector, seed, blind))
    plan = campaign.digest
    boxes = tuple(
        bindings.crypto_box_seal(
            box_context(plan, stage, device, party) + payload, bytes.fromhex(key)
        )
        for party, (payload, key) in enumerate(zip(payloads, campaign.keys, strict=True))
    )
    return Contribution(plan, stage, device, boxes)


def box_bytes(campaign: Campaign, stage: int, party: int) -> int:
    """Return the size of a party's box in this stage, the same for every device."""
    if campaign.parties == 1:
        payload = 4 * campaign.stages[stage].size
    else:
        payload = statement_of(campaign, stage, b"").payload_bytes[party]
    return SEAL_BYTES + CONTEXT_BYTES + payload


def open_box(
    campaign: Campaign, contribution: Contribution, party: int, public: bytes, secret: bytes
) -> NDArray[np.unsignedinteger] | None:
    """Return a party's share (size,) of a contribution; None where its box is sealed to another
    key, damaged, or was made for another plan, stage, device or party."""
    payload = _payload(contribution, party, public, secret)
    if payload is None:
        return None
    if campaign.parties == 1:
        size = campaign.stages[contribution.stage].size
        return np.frombuffer(payload, "<u4") if len(payload) == 4 * size else None
    statement = statement_of(campaign, contribution.stage, contribution.device)
    return norm_proof.share_of(statement, party, payload)


def check_box(
    campaign: Campaign, contribution: Contribution, party: int, public: bytes, secret: bytes
) -> Checked | None:
    """Return the share of one of two parties, and what it says of the proof; None as `open_box`."""
    payload = _payload(contribution, party, public, secret)
    statement = statement_of(campaign, contribution.stage, contribution.device)
    return None if payload is None else norm_proof.check(statement, party, payload)


def _payload(contribution: Contribution, party: int, public: bytes, secret: bytes) -> bytes | None:
    try:
        plain = bindings.crypto_box_seal_open(contribution.boxes[party], public, secret)
    except CryptoError:
        return None
    context = box_context(contribution.plan, contribution.stage, contribution.device, party)
    return plain[CONTEXT_BYTES:] if plain[:CONTEXT_BYTES] == context else None


def statement_of(campaign: Campaign, stage: int, device: bytes) -> Statement:
    """Return what the proof of a device states; it counts for this plan and stage alone."""
    terms = campaign.stages[stage]
    context = campaign.digest + stage.to_bytes(4, "little") + device
    return Statement(context, terms.size, terms.bound)
