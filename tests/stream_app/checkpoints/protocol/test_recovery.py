"""A recovery takes the newest whole checkpoint, never a wrong one, and explains a refusal."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.checkpoints.protocol.recovery import GENERATIONS, CheckpointRefused, Recovery
from stream_app.checkpoints.protocol.validation import consistent
from stream_app.checkpoints.protocol.writer import Acked, Freeze, LeaseAcquired, Send, Writer
from stream_app.wire.state_records import (
    CHECKPOINT_FORMAT,
    PAGE_BYTES,
    UNCHANGED,
    ArrayPages,
    ClaimKey,
    Manifest,
    ManifestKey,
    PageKey,
    StateOrigin,
    decode_manifest,
    decode_state_key,
    encode_manifest,
    encode_page,
    ledger_root,
    model_root,
)
from tests.simulation.broker import Record, Topic
from tests.simulation.peaceful import (
    DESIGN,
    TOPIC_ID,
    damage,
    drive,
    frozen,
    owner,
    placed,
    read,
    small,
    write,
)

FULL = b"\1" * PAGE_BYTES
NAN = struct.pack("<f", float("nan")) * (PAGE_BYTES // 4)


def two() -> tuple[Topic, Writer]:
    """A topic with two checkpoints of one generation, at the cuts 1 and 2."""
    topic = Topic()
    writer = owner(topic)
    write(writer, topic, frozen({"a": FULL + b"\1", "b": b"\2"}, 1))
    write(writer, topic, frozen({"a": FULL + b"\3", "b": b"\2"}, 2))
    return topic, writer


def at(topic: Topic, key: bytes) -> int:
    """The number of the newest record of a key."""
    return max(i for i, record in enumerate(topic.records) if record.key == key)


def cut_found(topic: Topic) -> int | None:
    found = read(topic).newest()
    return None if found is None else found.manifest.cut


def test_an_empty_topic_holds_no_checkpoint() -> None:
    recovery = read(Topic())
    assert (recovery.newest(), recovery.records, recovery.foreign, recovery.damaged) == (
        None, 0, 0, 0,
    )  # fmt: skip


def test_what_was_written_is_found() -> None:
    topic, _ = two()
    recovery = read(topic)
    found = recovery.newest()
    assert found is not None
    assert (found.manifest.cut, found.manifest.number, recovery.damaged) == (2, 2, 0)
    assert placed(topic)[1].page(0, 0) == FULL
    assert (placed(topic)[1].page(0, 1), placed(topic)[1].page(1, 0)) == (b"\3", b"\2")
    assert sorted(found.keys) == sorted({record.key for record in topic.records})


def test_a_page_as_at_the_start_is_not_in_the_topic() -> None:
    topic = Topic()
    write(owner(topic), topic, frozen({"a": bytes(3)}, 1))
    found = read(topic).newest()
    assert found is not None
    assert found.manifest.arrays[0].slots == bytes([UNCHANGED])
    assert placed(topic)[1].page(0, 0) == bytes(3)


def test_nan_in_a_page_is_just_bytes() -> None:
    topic = Topic()
    write(owner(topic), topic, frozen({"a": NAN}, 1))
    found = read(topic).newest()
    assert found is not None
    assert placed(topic)[1].page(0, 0) == NAN


def test_compaction_changes_nothing() -> None:
    topic, writer = two()
    write(writer, topic, frozen({"a": FULL + b"\4", "b": b"\2"}, 3))
    newest = {record.key: record.offset for record in topic.records}
    topic.records = [r for r in topic.records if newest[r.key] == r.offset]
    assert cut_found(topic) == 3


# --- damage ---------------------------------------------------------------------------------------


def flipped(value: bytes) -> bytes:
    return value[:-1] + bytes([value[-1] ^ 1])


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": flipped,
    "one byte short": lambda value: value[:-1],
    "one byte long": lambda value: value + b"\0",
    "empty": lambda value: b"",
    "only its head": lambda value: value[:9],
    "foreign": lambda value: b"something else entirely",
    "removed": lambda value: None,
}


@pytest.mark.parametrize("damaging", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_page_leads_to_the_checkpoint_before(
    damaging: Callable[[bytes], bytes | None],
) -> None:
    topic, writer = two()
    offset = at(topic, PageKey(0, 1, 1, writer.generation or 0).encode())
    damage(topic, offset, damaging(topic.records[offset].value or b""))
    recovery = read(topic)
    found = recovery.newest()
    assert found is not None
    assert (found.manifest.cut, recovery.damaged) == (1, 1)
    assert placed(topic)[1].page(0, 1) == b"\1"


@pytest.mark.parametrize("damaging", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_manifest_leads_to_the_checkpoint_before(
    damaging: Callable[[bytes], bytes | None],
) -> None:
    topic, writer = two()
    offset = at(topic, ManifestKey(0, writer.generation or 0).encode())
    damage(topic, offset, damaging(topic.records[offset].value or b""))
    recovery = read(topic)
    found = recovery.newest()
    assert found is not None
    assert found.manifest.cut == 1
    assert recovery.damaged == (topic.records[offset].value is not None)


def test_a_damaged_page_that_both_share_leads_to_the_generation_before() -> None:
    topic, _ = two()
    writer = owner(topic, 1)
    for cut in (3, 4):
        write(writer, topic, frozen({"a": FULL + bytes([cut]), "b": b"\2"}, cut))
    offset = at(topic, PageKey(1, 0, 0, writer.generation or 0).encode())
    damage(topic, offset, flipped(topic.records[offset].value or b""))
    assert cut_found(topic) == 2


def test_when_everything_is_damaged_nothing_is_found() -> None:
    topic, _ = two()
    for offset, record in enumerate(topic.records):
        if record.key[:1] == b"M":
            damage(topic, offset, flipped(record.value or b""))
    recovery = read(topic)
    assert (recovery.newest(), recovery.damaged) == (None, 2)
    assert recovery.newest() is None
    assert recovery.damaged == 2, "asking again counts again from zero"


def test_pages_of_two_generations_do_not_mix() -> None:
    topic, writer = two()
    other = owner(topic, 1)
    pages = other.step(Freeze(frozen({"a": FULL + b"\7", "b": b"\2"}, 3)))
    for page in pages[:2]:
        assert isinstance(page, Send)
        topic.append(page.key, page.value)  # the third is lost, and it dies
    found = read(topic).newest()
    assert found is not None
    assert (found.manifest.generation, found.manifest.cut) == (writer.generation, 2)
    assert placed(topic)[1].page(0, 1) == b"\3"


def test_a_strangers_records_are_counted_and_ignored() -> None:
    topic, _ = two()
    for key in (b"", b"?", b"P", b"M" + bytes(30), b"C"):
        topic.append(key, b"value")
    recovery = read(topic)
    recovery.read(topic.end, None, b"value")
    found = recovery.newest()
    assert found is not None
    assert (found.manifest.cut, recovery.foreign) == (2, 6)


def test_a_generation_that_is_not_claimed_yet_is_a_strangers() -> None:
    topic, writer = two()
    later = topic.end + 100
    for record in list(topic.records):
        name = decode_state_key(record.key)
        if isinstance(name, PageKey | ManifestKey):
            name = msgspec.structs.replace(name, generation=later)
            topic.append(name.encode(), record.value)
    recovery = read(topic)
    found = recovery.newest()
    assert found is not None
    assert found.manifest.generation == writer.generation
    assert recovery.foreign == 6


def test_a_manifest_under_another_key_does_not_count() -> None:
    topic, writer = two()
    value = topic.records[at(topic, ManifestKey(0, writer.generation or 0).encode())].value
    topic.append(ManifestKey(1, writer.generation or 0).encode(), value)
    recovery = read(topic)
    found = recovery.newest()
    assert found is not None
    assert (found.manifest.cut, recovery.damaged) == (2, 1)


@given(st.lists(st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=60))))
def test_random_records_never_raise(records: list[tuple[bytes, bytes | None]]) -> None:
    recovery = Recovery(DESIGN, TOPIC_ID, 2)
    for offset, (key, value) in enumerate(records):
        recovery.read(offset, b"PMC"[offset % 3 : offset % 3 + 1] + key, value)
    assert recovery.newest() is None


# --- which one ------------------------------------------------------------------------------------


def test_the_newest_generation_counts() -> None:
    topic, _ = two()
    newer = owner(topic, 1)
    write(newer, topic, frozen({"a": b"\1"}, 3))
    found = read(topic).newest()
    assert found is not None
    assert (found.manifest.generation, found.manifest.number) == (newer.generation, 1)


def test_a_late_manifest_of_a_slow_owner_takes_nothing_back() -> None:
    topic, writer = two()
    slow = owner(topic, 1)
    (page,) = slow.step(Freeze(frozen({"a": b"\7"}, 3)))
    assert isinstance(page, Send)
    (manifest,) = slow.step(Acked(page.token, topic.append(page.key, page.value)))
    assert isinstance(manifest, Send)
    write(writer, topic, frozen({"a": b"\5"}, 9))
    topic.append(manifest.key, manifest.value)
    found = read(topic).newest()
    assert found is not None
    assert (found.manifest.generation, found.manifest.cut) == (writer.generation, 9)


def test_another_base_of_a_newer_owner_counts_although_its_cut_is_smaller() -> None:
    topic, _ = two()
    origin = StateOrigin(0, (0, 0), excluded=("ab" * 16,))
    write(owner(topic, 1), topic, frozen({"a": b"\7"}, 1, origin))
    found = read(topic).newest()
    assert found is not None
    assert (found.manifest.cut, found.manifest.origin) == (1, origin)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "values"),
    [
        ({"design": "e" * 32}, ("d" * 32, "e" * 32, "settings", "murmurec worker --rebuild")),
        ({"topic_id": "another"}, ("topic", "another", "--prefix")),
        ({"partitions": 3}, ("partitions 2", "not 3", "--prefix")),
    ],
    ids=["design", "topic", "partitions"],
)
def test_a_checkpoint_of_something_else_is_refused_with_both_values(
    asked: dict[str, str], values: tuple[str, ...]
) -> None:
    topic, _ = two()
    with pytest.raises(CheckpointRefused) as raised:
        read(topic, **asked).newest()  # type: ignore[arg-type]
    assert all(value in str(raised.value) for value in values)


def test_an_older_checkpoint_of_something_else_is_no_reason_to_refuse() -> None:
    topic, _ = two()
    other = replace(frozen({"a": b"\1"}, 3), design="e" * 32)
    other = replace(
        other,
        model=model_root("e" * 32, other.arrays),
        ledger=ledger_root("e" * 32, other.ledger_arrays),
    )
    write(owner(topic, 1), topic, other)
    found = read(topic, design="e" * 32).newest()
    assert found is not None
    assert found.manifest.cut == 3


def test_a_newer_format_of_the_newest_generation_is_refused() -> None:
    topic, writer = two()
    topic.append(ManifestKey(1, writer.generation or 0).encode(), newer())
    with pytest.raises(CheckpointRefused, match=r"format 4 .* reads format 3.*newer.*--rebuild"):
        read(topic).newest()


def test_a_newer_format_of_an_older_generation_is_passed_over() -> None:
    topic, writer = two()
    topic.append(ManifestKey(1, writer.generation or 0).encode(), newer())
    write(owner(topic, 1), topic, frozen({"a": b"\1"}, 3))
    assert cut_found(topic) == 3


def newer() -> bytes:
    version, body = bytes([CHECKPOINT_FORMAT + 1]), b"whatever it holds"
    return version + blake2b(version + body, digest_size=16).digest() + body


# --- memory ---------------------------------------------------------------------------------------


def test_generations_that_were_never_removed_are_let_go_of() -> None:
    topic, generations = Topic(), 10
    for name in range(generations):
        writer = Writer()
        drive(writer, topic, LeaseAcquired(bytes([name]) * 16, "w"))  # knows of nothing to remove
        write(writer, topic, frozen({"a": FULL}, 1 + name))
    recovery = read(topic)
    assert len(recovery._generations) <= GENERATIONS
    assert cut_found(topic) == generations
    live = [decode_state_key(key) for key in recovery.keys]
    assert sum(isinstance(name, ClaimKey) for name in live) == generations
    assert len(live) == 3 * generations, "a new owner still learns of all of them"


def test_a_generation_that_reaches_further_is_kept() -> None:
    topic = Topic()
    for name in range(10):
        writer = Writer()
        drive(writer, topic, LeaseAcquired(bytes([name]) * 16, "w"))
        write(writer, topic, frozen({"a": FULL}, 99 if name == 0 else 1 + name))
    assert cut_found(topic) == 99


# --- what a manifest must satisfy -----------------------------------------------------------------


def whole() -> Manifest:
    topic, writer = two()
    value = topic.records[at(topic, ManifestKey(0, writer.generation or 0).encode())].value
    return decode_manifest(value or b"")


def array(**changed: object) -> Callable[[Manifest], Manifest]:
    """Change the second array, and the root with it."""

    def change(manifest: Manifest) -> Manifest:
        first, second = manifest.arrays
        arrays = (first, msgspec.structs.replace(second, **changed))
        return rooted(manifest, arrays)

    return change


def rooted(manifest: Manifest, arrays: tuple[ArrayPages, ...]) -> Manifest:
    return msgspec.structs.replace(
        manifest, arrays=arrays, model=model_root(manifest.design, arrays)
    )


def ledger(name: str, numbers: tuple[int, ...], shape: tuple[int, ...]) -> object:
    """Change an array of the ledger, and the root with it."""

    def change(manifest: Manifest) -> Manifest:
        arrays = tuple(
            small(name, shape, numbers) if a.name == name else a for a in manifest.ledger_arrays
        )
        root = ledger_root(manifest.design, arrays)
        return msgspec.structs.replace(manifest, ledger_arrays=arrays, ledger=root)

    return change


def plain(**changed: object) -> Callable[[Manifest], Manifest]:
    return lambda manifest: msgspec.structs.replace(manifest, **changed)


FLAWS = {
    "another model": plain(model="0" * 32),
    "another ledger": plain(ledger="0" * 32),
    "ends of fewer partitions": plain(end_offsets=(5,)),
    "ends that the ledger does not count": plain(end_offsets=(5, 5)),
    "a base that the ledger does not count": plain(origin=StateOrigin(0, (1, 0))),
    "a base of other partitions": plain(origin=StateOrigin(0, (0, 0, 0))),
    "names out of order": lambda m: rooted(m, m.arrays[::-1]),
    "a name twice": lambda m: rooted(m, (m.arrays[0], m.arrays[0])),
    "a slot too many": array(slots=b"\0\0"),
    "a digest too few": array(digests=b""),
    "a third slot": array(slots=b"\2"),
    "more bytes than pages": array(shape=(PAGE_BYTES + 1,)),
    "a shape below zero": array(shape=(-1,)),
    "an endless shape": array(shape=(2**62, 2**62)),
    "numbers of Python": array(dtype="|O8"),
    "no type": array(dtype=""),
    "records that were not counted": ledger("records", (1, 3, 4, 1), (2, 2)),
    "absent of one partition": ledger("absent", (1,), (1,)),
    "fewer numbers than its shape": ledger("absent", (1, 0), (3,)),
    "ends of the ledger elsewhere": ledger("ends", (5, 5), (2,)),
}


def test_a_manifest_that_was_written_agrees_with_itself() -> None:
    assert consistent(whole())


@pytest.mark.parametrize("flaw", FLAWS.values(), ids=FLAWS)
def test_a_manifest_with_a_flaw_is_passed_over(flaw: Callable[[Manifest], Manifest]) -> None:
    flawed = flaw(whole())
    assert not consistent(flawed)
    topic, writer = two()
    topic.append(ManifestKey(0, writer.generation or 0).encode(), encode_manifest(flawed))
    recovery = read(topic)
    found = recovery.newest()
    assert found is not None
    assert (found.manifest.cut, recovery.damaged) == (1, 1)


def test_a_manifest_without_a_ledger_is_one_without_counts() -> None:
    bare = msgspec.structs.replace(whole(), ledger_arrays=(), ledger=ledger_root(DESIGN, ()))
    assert consistent(bare)


def test_a_page_longer_than_its_place_is_another_page() -> None:
    topic, writer = two()
    key = PageKey(1, 0, 0, writer.generation or 0).encode()
    topic.records[at(topic, key)] = Record(
        topic.records[at(topic, key)].offset, key, encode_page(1, b"\2\2")
    )
    assert cut_found(topic) is None
