"""A device's vector, split and sealed: what each party of a campaign can and cannot read.

    central   party 0 reads the vector
    split     party 0 reads a seed, whose keystream of ChaCha20 is its share: r
              party 1 reads x - r modulo 2^32

(Additive secret sharing: Boneh et al., Prio, NSDI 2017, section 3.) A share by itself is uniform,
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

from stream_app.privacy.gaussian.keyed_source import KeyedSource
from stream_app.privacy.randomness import RandomSource
from stream_app.wire.campaigns.contribution import (
    CONTEXT_BYTES,
    SEED_BYTES,
    Contribution,
    box_context,
    holds_seed,
)
from stream_app.wire.campaigns.plan import Campaign


def expand(seed: bytes, size: int) -> NDArray[np.uint32]:
    """Return the share (size,) uint32 that a seed of 32 bytes stands for."""
    words = KeyedSource(seed).words(-(-size // 2))
    share: NDArray[np.uint32] = words.astype("<u8", copy=False).view("<u4")[:size]
    return share.astype(np.uint32, copy=False)


def split(vector: NDArray[np.integer], seed: bytes) -> NDArray[np.uint32]:
    """Return the other share (size,) uint32 of a vector of integers: x - r modulo 2^32."""
    return as_words(vector) - expand(seed, len(vector))


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
        seed = source.words(SEED_BYTES // 8).astype("<u8").tobytes()
        payloads = [seed, split(vector, seed).astype("<u4").tobytes()]
    plan = campaign.digest
    boxes = tuple(
        bindings.crypto_box_seal(
            box_context(plan, stage, device, party) + payload, bytes.fromhex(key)
        )
        for party, (payload, key) in enumerate(zip(payloads, campaign.keys, strict=True))
    )
    return Contribution(plan, stage, device, boxes)


def open_box(
    campaign: Campaign, contribution: Contribution, party: int, public: bytes, secret: bytes
) -> NDArray[np.uint32] | None:
    """Return a party's share (size,) uint32 of a contribution; None where its box is sealed to
    another key, damaged, or was made for another plan, stage, device or party."""
    try:
        plain = bindings.crypto_box_seal_open(contribution.boxes[party], public, secret)
    except CryptoError:
        return None
    context = box_context(contribution.plan, contribution.stage, contribution.device, party)
    size = campaign.stages[contribution.stage].size
    payload = plain[CONTEXT_BYTES:]
    if plain[:CONTEXT_BYTES] != context:
        return None
    if holds_seed(campaign, party):
        return expand(payload, size) if len(payload) == SEED_BYTES else None
    return np.frombuffer(payload, "<u4") if len(payload) == 4 * size else None
