"""A damaged checkpoint of one line must not give way to an older one of another: the model that was
left behind with an adopted snapshot would silently be back."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from stream_app.checkpoints.protocol.recovery import CheckpointRefused, Recovery, UnusableCheckpoint
from stream_app.checkpoints.protocol.writer import (
    Acked,
    Durable,
    Freeze,
    Frozen,
    FrozenArray,
    LeaseAcquired,
    Writer,
)
from stream_app.wire.state_records import (
    Manifest,
    ManifestKey,
    PageKey,
    StateOrigin,
    ledger_root,
    model_root,
    page_digest,
)

LOG = StateOrigin(0, (0,))
ADOPTED = StateOrigin(7, (70,), snapshot="a" * 32)
GAP = StateOrigin(7, (70,), truncated=True)
DEVICE = "d" * 32


@dataclass
class Topic:
    """The state topic as a list of records."""

    records: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def write(self, writer: Writer, event: LeaseAcquired | Freeze, most: int | None = None) -> None:
        """Let the writer send what it wants to, at most so many records."""
        outputs = writer.step(event)
        while outputs and (most is None or most > 0):
            output = outputs.pop(0)
            if isinstance(output, Durable):
                continue
            self.records.append((output.key, output.value))
            outputs += writer.step(Acked(output.token, len(self.records) - 1))
            most = None if most is None else most - 1

    def generation(self, *checkpoints: tuple[int, StateOrigin], most: int | None = None) -> int:
        """Write checkpoints (cut, origin) as a new owner and return its generation."""
        writer = Writer()
        stale = [key for key, value in dict(self.records).items() if value is not None]
        self.write(writer, LeaseAcquired(len(self.records).to_bytes(16), "test", stale))
        assert writer.generation is not None
        for cut, origin in checkpoints:
            self.write(writer, Freeze(frozen(cut, origin)), most)
        return writer.generation

    def flip(self, generation: int, array: int = 0) -> None:
        """Flip a bit of the newest page of a generation."""
        for at in reversed(range(len(self.records))):
            key, value = self.records[at]
            if value and any(
                key == PageKey(array, 0, slot, generation).encode() for slot in (0, 1)
            ):
                self.records[at] = key, value[:-1] + bytes([value[-1] ^ 1])
                return
        raise AssertionError(f"generation {generation} has no page of array {array}")

    def newest(self) -> Manifest | None:
        """Return what a worker starts from."""
        recovery = Recovery("design", "topic", 1)
        for offset, (key, value) in enumerate(self.records):
            recovery.read(offset, key, value)
        found = recovery.newest()
        return found.manifest if found else None


def frozen(cut: int, origin: StateOrigin) -> Frozen:
    """Return a state of two pages that differs at every cut."""
    pages = [f"{name} at {cut} from {origin.digest}".encode() for name in "ab"]
    arrays = tuple(
        FrozenArray(name, "|u1", (len(page),), page_digest(page), b"\1")
        for name, page in zip("ab", pages, strict=True)
    )
    return Frozen(
        "design", "topic", cut, (10 * cut,), cut, origin, model_root("design", arrays),
        ledger_root("design", ()), arrays, (), lambda array, _: pages[array],
    )  # fmt: skip


@pytest.mark.parametrize("origin", [ADOPTED, GAP], ids=["a snapshot", "a gap"])
@pytest.mark.parametrize("before", [[(6, LOG)], []], ids=["another line before", "nothing before"])
def test_a_flipped_bit_does_not_bring_the_abandoned_model_back(
    origin: StateOrigin, before: list[tuple[int, StateOrigin]]
) -> None:
    topic = Topic()
    if before:
        topic.generation(*before)
    adopted = topic.generation((7, origin))
    assert (found := topic.newest()) is not None
    assert found.origin == origin
    topic.flip(adopted)
    with pytest.raises(UnusableCheckpoint, match=r"is damaged.*murmurec state rebuild.*--snapshot"):
        topic.newest()


def test_an_older_checkpoint_of_the_same_history_is_used_instead() -> None:
    topic = Topic()
    first = topic.generation((7, ADOPTED), (8, ADOPTED))
    topic.flip(topic.generation((9, ADOPTED)))
    assert (found := topic.newest()) is not None
    assert (found.generation, found.cut) == (first, 8)


def test_an_exclusion_may_be_recovered_from_the_log() -> None:
    topic = Topic()
    topic.generation((6, LOG))
    topic.flip(topic.generation((8, msgspec.structs.replace(LOG, excluded=(DEVICE,)))))
    assert (found := topic.newest()) is not None
    assert found.origin == LOG
    alone = Topic()
    alone.flip(alone.generation((8, msgspec.structs.replace(LOG, excluded=(DEVICE,)))))
    assert alone.newest() is None


@pytest.mark.parametrize("most", [0, 1, 2])
def test_an_interrupted_first_checkpoint_of_an_adopted_state_is_none(most: int) -> None:
    """Without its manifest nothing was adopted: the operator's command failed with an error."""
    topic = Topic()
    topic.generation((6, LOG))
    topic.generation((7, ADOPTED), most=most)
    assert (found := topic.newest()) is not None
    assert found.origin == LOG


def test_what_a_newer_generation_has_superseded_may_be_damaged() -> None:
    """Its pages go one by one when tombstones remove it, its manifest perhaps last."""
    topic = Topic()
    old = topic.generation((6, LOG))
    adopted = topic.generation((7, ADOPTED))
    newest = topic.generation((8, ADOPTED), (9, ADOPTED))
    for generation in (old, adopted):
        topic.records.append((PageKey(0, 0, 0, generation).encode(), None))
    assert (found := topic.newest()) is not None
    assert (found.generation, found.cut) == (newest, 9)


def test_the_slots_of_the_checkpoint_before_may_be_written_over() -> None:
    """A third checkpoint begins to use the first one's slots and is interrupted."""
    topic, writer = Topic(), Writer()
    topic.generation((6, LOG))
    topic.write(writer, LeaseAcquired(b"o" * 16, "test"))
    for cut in (7, 8):
        topic.write(writer, Freeze(frozen(cut, ADOPTED)))
    topic.write(writer, Freeze(frozen(9, ADOPTED)), most=1)
    assert (found := topic.newest()) is not None
    assert found.cut == 8


def test_a_rebuild_is_no_remedy_for_another_rating_topic() -> None:
    """Its cuts name offsets of the old one."""
    topic = Topic()
    topic.generation((6, LOG))
    recovery = Recovery("design", "another", 1)
    for offset, (key, value) in enumerate(topic.records):
        recovery.read(offset, key, value)
    with pytest.raises(CheckpointRefused, match=r"restore the rating topic.*--prefix") as refused:
        recovery.newest()
    assert "--rebuild" not in str(refused.value)


def test_a_manifest_without_its_pages_is_damage() -> None:
    topic = Topic()
    topic.generation((6, LOG))
    adopted = topic.generation((7, ADOPTED))
    slots = (PageKey(1, 0, slot, adopted).encode() for slot in (0, 1))
    topic.records += [(key, None) for key in slots]
    assert ManifestKey(1, adopted).encode() in dict(topic.records)
    with pytest.raises(UnusableCheckpoint):
        topic.newest()
