"""Full disks: the broker's and the worker's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.replay.lost_tail import tail_of
from stream_app.wire import fingerprint
from tests.conftest import Kafka
from tests.faults.brokers import Node, fill
from tests.faults.conftest import Flow, Proof, another_checkpoint, sentence, stop
from tests.fixtures.streams import Published, events, publish
from tests.kafka.conftest import Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


_ENDS_BEFORE = re.compile(r"(\S+) partition (\d+) does not hold the record before offset (\d+)")
# The record of a new leader has its topic beside the partition, one below a cut at the beginning.
_REPLACED = re.compile(
    r"(?:(\S+): )?offset (\d+) of (?:(\S+) )?partition (\d+) holds another record than the one"
    r" [^(]*\((\w{16}), not (\w{16})\)"
)


def missed(refusal: str) -> tuple[TopicPartition, tuple[str, str] | None]:
    """Return the place of the record that a worker misses by its refusal, and the fingerprints of
    the record that was found there and of the missing one, or None where there was no record."""
    assert "lost its end" in refusal, refusal
    ends, replaced = _ENDS_BEFORE.search(refusal), _REPLACED.search(refusal)
    if ends:
        return TopicPartition(ends[1], int(ends[2]), int(ends[3]) - 1), None
    assert replaced, refusal
    place = TopicPartition(replaced[3] or replaced[1], int(replaced[4]), int(replaced[2]))
    return place, (replaced[5], replaced[6])


def check_loss(refusal: str, kafka: Kafka, sent: Sequence[Published]) -> None:
    """Check that the log ends before the record that a worker misses, or holds another one there.

    The flow goes on meanwhile and fills the log again. A write that failed in the middle may also
    stay in the file: the next record gets its offset and is read, and the restarted broker keeps
    the earlier one. So the worker's fingerprints decide, and they must be true: one of the record
    that the log holds, the other of a record that was `sent` to the partition.
    """
    place, fingerprints = missed(refusal)
    consumer = clients.consumer(kafka.connection)
    try:
        end = clients.offsets(consumer, place)[1]
        if end <= place.offset:
            assert fingerprints is None, f"{refusal}: the log ends at {end}"
        elif fingerprints:
            found, lost = fingerprints
            assert found == tail_of(record_at(consumer, place)).fingerprint, refusal
            assert lost in {
                fingerprint(place.offset, epoch, each.key, each.value)
                for each in sent
                for epoch in range(4)
                if each.partition == place.partition
            } - {found}, refusal
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("observed", "fingerprints"),
    [
        ("t.v1 partition 2 does not hold the record before offset 8, which was read", None),
        ("offset 7 of t.v1 partition 2 holds another record than the one that was read "
         "(0123456789abcdef, not fedcba9876543210)", ("0123456789abcdef", "fedcba9876543210")),
        ("t.v1: offset 7 of partition 2 holds another record than the one that cut 9 was made for "
         "(0123456789abcdef, not fedcba9876543210)", ("0123456789abcdef", "fedcba9876543210")),
    ],
)  # fmt: skip
def test_each_refusal_of_a_lost_end_names_the_record(
    observed: str, fingerprints: tuple[str, str] | None
) -> None:
    refusal = f"the worker ended with exit code 1: murmurec: {observed}: the log lost its end"
    place, found = missed(refusal)
    assert (place.topic, place.partition, place.offset) == ("t.v1", 2, 7)
    assert found == fingerprints


def record_at(consumer: Consumer, place: TopicPartition) -> Message:
    """Return the record at a place."""
    consumer.assign([place])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None, message.error()
    assert message.offset() == place.offset
    return message


class TestBrokerDisk:
    """The broker's log is on a disk of 48 MB."""

    @pytest.fixture
    def place(self, disk: Callable[..., Path]) -> Path:
        return disk("48m")

    @pytest.fixture
    def broker(self, place: Path, tmp_path: Path) -> Iterator[Node]:
        (place / "log").mkdir()
        home = tmp_path / "broker"
        home.mkdir()
        (home / "log").symlink_to(place / "log")
        made = Node(home)
        try:
            made.start()
            yield made
        finally:
            made.kill()

    @pytest.fixture
    def kafka(self, broker: Node) -> Kafka:
        return Kafka(broker.bootstrap)

    @pytest.fixture
    def repaired(self, broker: Node, place: Path, topics: str) -> Iterator[None]:
        """Make room and let the broker live when the topics are deleted."""
        yield
        (place / "ballast").unlink(missing_ok=True)
        broker.start()

    def test_a_broker_whose_disk_is_full_dies_and_with_room_everything_goes_on(
        self,
        broker: Node,
        place: Path,
        repaired: None,
        start: Start,
        flow: Flow,
        proof: Proof,
        rng: np.random.Generator,
        kafka: Kafka,
    ) -> None:
        """A broker that fails in the middle of a write may drop what was written after it and read:
        then the worker refuses to go on, at once or after a checkpoint, and is right."""
        records = [publish(event) for event in events(rng, 900)]
        worker = start()
        with flow(records[:200]):
            another_checkpoint(worker)
        with flow(records[200:]):
            ballast = fill(place)
            assert broker.ended(30)
            worker.check()
            ballast.unlink()
            broker.start()
            try:
                another_checkpoint(worker)
            except UserError as refusal:
                check_loss(str(refusal), kafka, records)
                return
        try:
            state = worker.wait_for(ends_of(records))
        except UserError as refusal:
            check_loss(str(refusal), kafka, records)
            return
        proof(state)


def test_a_full_data_directory_stops_no_worker(
    disk: Callable[..., Path],
    start: Start,
    flow: Flow,
    proof: Proof,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing that it needs lies there: the state is in Kafka."""
    place = disk("1m", inodes=16)
    fill(place)
    use_up_inodes(place)
    records = [publish(event) for event in events(rng, 200)]
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(place))
    worker = start()
    with flow(records):
        another_checkpoint(worker)
    proof(worker.wait_for(ends_of(records)))
    stop(worker)


def test_a_full_cache_directory_is_one_sentence(
    disk: Callable[..., Path], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = disk("1m", inodes=16)
    fill(place)
    use_up_inodes(place)
    monkeypatch.setenv("MURMUREC_TUNING_CACHE_DIR", str(place))
    assert "make room" in sentence(start(ready=False))


def use_up_inodes(place: Path) -> None:
    """Leave no room for one more name."""
    for i in range(100):
        try:
            (place / f"name-{i}").touch()
        except OSError:
            return
    raise AssertionError(f"{place} still takes new files")
