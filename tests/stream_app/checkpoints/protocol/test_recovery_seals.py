"""A recovery under a secret: forged checkpoints do not count, and every change of the secret is
refused with its ways out."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
import pytest

from stream_app.checkpoints.protocol.recovery import CheckpointRefused, Recovery
from stream_app.checkpoints.protocol.writer import LeaseAcquired, Writer
from stream_app.wire import state_records
from stream_app.wire.authenticity.seal import ANY, OPEN, Seal
from stream_app.wire.state_records import (
    CHECKPOINT_FORMAT,
    DIGEST_BYTES,
    ManifestKey,
    decode_manifest,
    encode_manifest,
)
from tests.simulation.broker import Topic
from tests.simulation.peaceful import DESIGN, TOPIC_ID, drive, frozen, write

SEAL, OTHER = Seal("a" * 32, "murmurec"), Seal("b" * 32, "murmurec")


def checkpoint(topic: Topic, cut: int, seal: Seal) -> Writer:
    """Write a checkpoint under a seal, as a new owner."""
    writer = Writer(seal=seal)
    drive(writer, topic, LeaseAcquired(bytes([cut]) * 16, "w"))
    write(writer, topic, frozen({"a": bytes([cut])}, cut))
    return writer


def read(topic: Topic, seal: Seal) -> Recovery:
    recovery = Recovery(DESIGN, TOPIC_ID, 2, seal)
    for record in topic.records:
        recovery.read(record.offset, record.key, record.value)
    return recovery


def cut_found(topic: Topic, seal: Seal) -> int:
    found = read(topic, seal).newest()
    assert found is not None
    return found.manifest.cut


@pytest.mark.parametrize("seal", [OPEN, SEAL])
def test_what_was_written_under_a_seal_is_found_under_it(seal: Seal) -> None:
    topic = Topic()
    checkpoint(topic, 1, seal)
    checkpoint(topic, 2, seal)
    recovery = read(topic, seal)
    assert (cut_found(topic, seal), recovery.unsealed) == (2, 0)


@pytest.mark.parametrize("forger", [OPEN, OTHER])
def test_a_forged_checkpoint_of_a_future_cut_does_not_count(forger: Seal) -> None:
    topic = Topic()
    checkpoint(topic, 3, SEAL)
    checkpoint(topic, 99, forger)
    recovery = read(topic, SEAL)
    found = recovery.newest()
    assert found is not None
    assert (found.manifest.cut, recovery.unsealed) == (3, 1)


def test_a_manifest_that_keeps_the_tag_of_another_does_not_count() -> None:
    topic = Topic()
    writer = checkpoint(topic, 3, SEAL)
    genuine = next(r for r in reversed(topic.records) if r.key[:1] == b"M")
    assert genuine.value is not None
    manifest = decode_manifest(genuine.value, SEAL)
    future = msgspec.structs.replace(manifest, cut=99, number=2)
    forged = encode_manifest(future, ANY)
    sealed = genuine.value[17:33] + forged[33:]
    digest = blake2b(forged[:1] + sealed, digest_size=16).digest()
    lifted = forged[:1] + digest + sealed
    topic.append(ManifestKey(0, writer.generation or 0).encode(), forged)
    assert cut_found(topic, SEAL) == 3
    topic.append(ManifestKey(0, writer.generation or 0).encode(), lifted)
    recovery = read(topic, SEAL)
    found = recovery.newest()
    assert found is not None
    assert (found.manifest.cut, recovery.unsealed, recovery.damaged) == (3, 1, 0)


def of_format(value: bytes, number: int) -> bytes:
    """Return the value of a manifest with another number of its format, as any writer can."""
    head, sealed = bytes([number]), value[1 + DIGEST_BYTES :]
    return head + blake2b(head + sealed, digest_size=DIGEST_BYTES).digest() + sealed


@pytest.mark.parametrize("number", [0, 1, CHECKPOINT_FORMAT, CHECKPOINT_FORMAT + 1, 255])
@pytest.mark.parametrize("forger", [OPEN, OTHER, SEAL])
def test_a_forged_manifest_of_another_format_does_not_count(forger: Seal, number: int) -> None:
    """With the seal of a genuine one, too: it covers the format."""
    topic = Topic()
    checkpoint(topic, 3, SEAL)
    checkpoint(topic, 99, forger)
    newest = next(r for r in reversed(topic.records) if r.key[:1] == b"M")
    topic.append(newest.key, of_format(newest.value or b"", number))
    recovery = read(topic, SEAL)
    found = recovery.newest()
    assert found is not None
    assert (found.manifest.cut, recovery.unsealed) == (3, 1)


@pytest.mark.parametrize("seal", [OPEN, SEAL])
def test_a_genuine_manifest_of_a_newer_format_is_refused(
    seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topic()
    checkpoint(topic, 3, seal)
    with monkeypatch.context() as newer:
        newer.setattr(state_records, "CHECKPOINT_FORMAT", CHECKPOINT_FORMAT + 1)
        newer.setattr(state_records, "DESIGN_CONTRACT", 0)
        checkpoint(topic, 4, seal)
    with pytest.raises(CheckpointRefused, match=r"format 4 .* reads format 3.*newer"):
        read(topic, seal).newest()


@pytest.mark.parametrize("seal", [OPEN, SEAL])
def test_the_next_format_reads_its_own_seals(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seal of a format after 2 covers its number, for the reader as for the writer."""
    monkeypatch.setattr(state_records, "CHECKPOINT_FORMAT", CHECKPOINT_FORMAT + 1)
    monkeypatch.setattr(state_records, "DESIGN_CONTRACT", 0)
    topic = Topic()
    checkpoint(topic, 3, seal)
    assert cut_found(topic, seal) == 3


@pytest.mark.parametrize("before", [OPEN, OTHER])
def test_a_new_secret_is_refused_with_its_ways_out(before: Seal) -> None:
    topic = Topic()
    checkpoint(topic, 3, before)
    with pytest.raises(CheckpointRefused, match=r"set the secret back.*--reseal.*--rebuild"):
        read(topic, SEAL).newest()
    assert cut_found(topic, ANY) == 3


def test_a_removed_secret_is_refused_with_its_ways_out() -> None:
    topic = Topic()
    checkpoint(topic, 2, OPEN)
    checkpoint(topic, 3, SEAL)
    with pytest.raises(CheckpointRefused, match=r"no state_secret: set the one.*--reseal"):
        read(topic, OPEN).newest()
    checkpoint(topic, 4, OPEN)
    assert cut_found(topic, OPEN) == 4
