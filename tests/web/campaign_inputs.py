"""Plans and ratings over which Python and the browser compute the same.

The numbers of a contribution that are random in Python are drawn in the browser from the device's
key and everything that is sealed: `drawn` writes that law a second time.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
from nacl import bindings
from numpy.typing import NDArray

from producers.ranking import RatedItem
from producers.ranking.in_scope import in_scope
from stream_app import wire
from stream_app.campaigns import together
from stream_app.campaigns.planning import Wanted, stages
from stream_app.campaigns.sealing import as_words, statement_of
from stream_app.campaigns.verified import norm_proof
from stream_app.wire.campaigns.contribution import Contribution, box_context, encode_contribution
from stream_app.wire.campaigns.plan import Campaign, encode_plan

LEVELS, NUMBER = 5, 2**60 + 1
TEXTS = ("alien", 'a "q" \\ \t 12345678901234567890', "千と千尋 🎬", '{"whole":"7"}')
INTEGERS = (0, 7, 2**53 + 1, 2**63 - 1)


class Case(NamedTuple):
    """A stage, ratings (item, level), and the vector of Python."""

    index: int
    rated: list[tuple[wire.Item, int]]
    vector: NDArray[np.int32]

    def told(self) -> dict[str, Any]:
        """Return the case as the browser gets it."""
        rated = [{"key": f"{wire.key(item):016x}", "level": level} for item, level in self.rated]
        return {"stage": self.index, "rated": rated}


def campaign(items: int, keys: tuple[str, ...]) -> Campaign:
    """Return a plan of two stages over so many items, half of them of each stage."""
    rng = np.random.default_rng(items)
    scope = (*TEXTS, *INTEGERS, *(int(each) for each in rng.choice(2**62, items - 8)))
    parties: Literal[1, 2] = 1 if len(keys) == 1 else 2
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    half = Wanted("together", together.size(items // 2), Fraction(1, 2))
    planned = stages(epsilon, delta, [half, half])
    return Campaign(NUMBER, epsilon, delta, parties, scope, planned, keys)


def cases(made: Campaign) -> Iterator[Case]:
    """Give, for each stage, histories of several lengths."""
    rng = np.random.default_rng(7)
    for index in range(len(made.stages)):
        for length in (0, 1, 2, 9, len(made.scope) // 2, len(made.scope)):
            rated = _history(rng, made, length)
            yield Case(index, rated, _vector(made, index, rated))


def _history(rng: np.random.Generator, made: Campaign, length: int) -> list[tuple[wire.Item, int]]:
    places = rng.permutation(len(made.scope))[:length]
    return [(made.scope[place], int(rng.integers(LEVELS))) for place in places]


def _vector(made: Campaign, index: int, rated: list[tuple[wire.Item, int]]) -> NDArray[np.int32]:
    rows = [RatedItem(item, wire.key(item), 1.0 + level) for item, level in rated]
    return together.contribution(made.stages[index], in_scope(made.scope, rows))


def plan_text(made: Campaign) -> str:
    """Return the plan's bytes in base64."""
    return base64.b64encode(encode_plan(made)).decode()


def body(
    made: Campaign, stage: int, device: bytes, vector: NDArray[np.int32], secret: bytes
) -> bytes:
    """Return the record of a contribution whose random numbers are those of the browser."""
    named = made.digest + stage.to_bytes(4, "little") + device
    root = _keyed(secret, named + vector.astype("<i4").tobytes())

    def drawn(label: str) -> bytes:
        return _keyed(root, label.encode())

    if made.parties == 1:
        payloads = (as_words(vector).astype("<u4").tobytes(),)
    else:
        statement = statement_of(made, stage, device)
        payloads = norm_proof.prove(statement, vector, drawn("seed"), drawn("blind"))
    boxes = tuple(
        _sealed(
            box_context(made.digest, stage, device, party) + payload,
            bytes.fromhex(made.keys[party]),
            drawn(f"box {party}"),
        )
        for party, payload in enumerate(payloads)
    )
    return encode_contribution(Contribution(made.digest, stage, device, boxes))


def _keyed(key: bytes, content: bytes) -> bytes:
    return blake2b(content, digest_size=32, key=key, person=b"murmurec.draw.1").digest()


def _sealed(plain: bytes, public: bytes, secret: bytes) -> bytes:
    """Return libsodium's sealed box with this secret key of its own."""
    own = bindings.crypto_scalarmult_base(secret)
    nonce = blake2b(own + public, digest_size=24).digest()
    return own + bindings.crypto_box(plain, nonce, public, secret)
