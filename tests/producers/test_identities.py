"""Signing devices: key pairs from the journal's key, signed bytes in it, one name a user."""

from __future__ import annotations

import hmac
from pathlib import Path

import numpy as np
import pytest

from producers.device.requests import ReportSettings
from producers.identities import Identities
from producers.journal import Journal, Message
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.wire.signatures import Signatures, SigningKey
from tests.producers.conftest import TOPIC
from tests.producers.journals import at
from tests.producers.journals import rated as enrolled_rate

INTAKE = wire.Intake({"rr:5:2": 5}, signatures=Signatures(TOPIC, required=True))
KEY = bytes(range(32))


def rated(journal: Journal, user: str, item: int | str, *, signed: bool = True) -> Message:
    identities = Identities(journal.key, signed=signed)

    def encode(event: wire.Event) -> bytes:
        return wire.encode_json(event, [item]) if isinstance(item, str) else wire.encode(event)

    reporting = ReportSettings(
        TOPIC, registry.parse("rr:5:2"), encode=encode, identities=identities
    )
    return enrolled_rate(user, item, 4, reporting, scale=Scale(), journal=journal, epoch=20_000)


def decoded(message: Message) -> wire.Event:
    row = np.frombuffer(message.key, np.uint8).reshape(1, 32)
    where = int(wire.partitions_of(row, wire.PARTITIONS)[0])
    return wire.decode(message.key, message.value, where, INTAKE)


@pytest.mark.parametrize("item", [7, "a string is an id too"])
def test_an_event_is_signed_by_the_key_pair_of_its_user(tmp_path: Path, item: int | str) -> None:
    with at(tmp_path / "journal") as journal:
        event = decoded(rated(journal, "ann", item))
        assert event.device == Identities(journal.key, signed=True).pseudonym("ann")
        assert event.items.tolist() == [wire.key(item)]


def test_what_is_sent_again_is_signed_already_and_the_same_bytes(tmp_path: Path) -> None:
    """The journal stores the envelope: neither a crash nor a compaction makes another one."""
    path = tmp_path / "journal"
    with at(path) as journal:
        values = [rated(journal, user, 7).value for user in ("ann", "bob")]
    with at(path) as journal:
        journal.compact()
    with at(path) as journal:
        assert [message.value for message in journal.pending()] == values
        assert [decoded(message).seq for message in journal.pending()] == [1, 1]


def test_key_pairs_are_stable_differ_by_user_and_journal_and_are_no_pseudonyms() -> None:
    def named(user: str, key: bytes = KEY) -> tuple[bytes, bytes]:
        identities = Identities(key, signed=True)
        name = identities.pseudonym(user)
        return name, identities.seal("t", name, b"event")

    assert named("ann") == named("ann")
    names = {named(user, key)[0] for user in ("ann", "bob") for key in (KEY, KEY[::-1])}
    assert len(names) == 4
    # An open pseudonym is public and half of a hash of the user: a seed is another hash.
    seed = hmac.digest(KEY, b"murmurec ed25519\0ann", "sha256")
    assert seed[:16] != Identities(KEY).pseudonym("ann")
    assert SigningKey.from_seed(seed).pseudonym == named("ann")[0]
    with pytest.raises(ValueError, match="NUL"):
        named("ann\0")


@pytest.mark.parametrize("signed", [False, True])
def test_a_user_keeps_one_name_in_a_journal(tmp_path: Path, signed: bool) -> None:
    """Another name would get a second budget and a second report on every item."""
    with at(tmp_path / "journal") as journal:
        rated(journal, "ann", 7, signed=signed)
        before = journal.pending()
        with pytest.raises(UserError, match="whose budgets would begin again"):
            rated(journal, "ann", 8, signed=not signed)
        assert journal.pending() == before
        rated(journal, "bob", 8, signed=not signed)
