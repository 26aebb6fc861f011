"""The check of many signatures by one call has the verdicts of one signature by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.errors import UserError
from stream_app.replay import signature_check
from stream_app.replay.signature_check import SignatureCheck
from stream_app.wire import Event, decode_many
from stream_app.wire.signatures import Claim, Signatures, vectors
from stream_app.wire.signatures.envelope import verify_each
from tests.fixtures.replicas import SMALL, Replica
from tests.fixtures.signed_devices import TOPIC, signed, signing_key
from tests.fixtures.streams import Published, run_of

CHECK = SignatureCheck(2)
HONEST = [
    Claim(key.public_key, key.seal("", b"x" * n)[33:97], b"murmurec event 1\0\0" + b"x" * n)
    for n, key in enumerate(map(signing_key, range(70)))
]
CRAFTED = [
    Claim(bytes.fromhex(key), bytes.fromhex(signature), vectors.MESSAGE)
    for _, key, signature, _ in vectors.VECTORS
]


@settings(deadline=None, max_examples=60)
@given(
    picked=st.lists(st.integers(0, len(HONEST) + len(CRAFTED) - 1), max_size=150),
    broken=st.lists(st.tuples(st.integers(0, 149), st.integers(0, 2), st.integers(0, 15))),
)
def test_the_verdicts_are_those_of_one_signature_at_a_time(
    picked: list[int], broken: list[tuple[int, int, int]]
) -> None:
    claims = [(HONEST + CRAFTED)[n] for n in picked]
    for row, part, place in broken:
        if row < len(claims):
            columns = [bytearray(column) for column in claims[row]]
            columns[part][place % len(columns[part])] ^= 16
            claims[row] = Claim(*map(bytes, columns))
    assert CHECK(claims).tolist() == verify_each(claims).tolist()
    taken = sum(n < len(HONEST) for n in picked)
    assert broken or int(CHECK(claims).sum()) >= taken


def test_a_library_with_other_rules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature_check, "library_agrees", lambda: False)
    with pytest.raises(UserError, match="replicas would differ"):
        SignatureCheck()


SPEC = replace(SMALL, devices="signed")
INTAKE = replace(SPEC.intake, signatures=Signatures(TOPIC, required=True, verify=CHECK))


def event(seq: int, **changes: Any) -> Event:
    items, reports = np.arange(3, dtype=np.uint64), np.zeros(3, np.uint8)
    return Event(bytes(16), seq, "rr:5:2", 20_000, items, reports, **changes)


def outcomes(replica: Replica, records: list[Published]) -> list[int]:
    run = run_of(records, 0, len(records), records[0].partition)
    return replica.apply(decode_many(run, INTAKE)).records.tolist()


def test_a_forged_number_costs_a_signing_device_nothing() -> None:
    victim, forger = signing_key(1), signing_key(2)
    genuine = [signed(event(seq), victim) for seq in range(1, 301)]
    forged = [
        signed(event(10**6), forger, victim=victim),
        Published(genuine[0].partition, genuine[0].key, (genuine[9].value or b"")[97:]),
    ]
    replica = Replica(SPEC)
    found = outcomes(replica, [*genuine[:5], *forged, *genuine[5:]])
    assert found == [0] * 5 + [3] * 2 + [0] * 295
    assert replica.ledger.rejected() == {"bad_signature": 2}
    # A record of the victim that is written once more, by whatever writer, changes nothing.
    assert outcomes(replica, genuine[100:200]) == [1] * 100
    # Its own jump is believed at once, as it cannot be forged.
    assert outcomes(replica, [signed(event(10**6), victim)]) == [0]
