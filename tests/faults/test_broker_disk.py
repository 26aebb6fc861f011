"""Full disks: the broker's and the worker's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from stream_app.errors import UserError
from stream_app.kafka import clients
from tests.conftest import Kafka
from tests.faults.brokers import Node, fill
from tests.faults.conftest import Flow, Proof, another_checkpoint, sentence, stop
from tests.fixtures.streams import events, publish
from tests.kafka.conftest import Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


_ENDS_BEFORE = re.compile(r"(\S+) partition (\d+) does not hold the record before offset (\d+)")
_REPLACED = re.compile(r"offset (\d+) of (\S+) partition (\d+) holds another record than the one")


def check_loss(refusal: str, kafka: Kafka) -> None:
    """Check that the log ends before the record that a worker misses, or was filled again there."""
    assert "lost its end" in refusal, refusal
    ends, replaced = _ENDS_BEFORE.search(refusal), _REPLACED.search(refusal)
    assert ends or replaced, refusal
    consumer = clients.consumer(kafka.connection)
    try:
        if ends:
            end = clients.offsets(consumer, TopicPartition(ends[1], int(ends[2])))[1]
            assert end < int(ends[3]), refusal
        else:
            assert replaced
            place = TopicPartition(replaced[2], int(replaced[3]), int(replaced[1]))
            # Written by the leader of after the restart: the first one's epoch is 0.
            assert epoch_at(consumer, place) > 0, refusal
    finally:
        consumer.close()


def epoch_at(consumer: Consumer, place: TopicPartition) -> int:
    """Return the leader epoch of the record at a place."""
    consumer.assign([place])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None, message.error()
    assert message.offset() == place.offset
    epoch = message.leader_epoch()
    assert epoch is not None
    return epoch


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
                check_loss(str(refusal), kafka)
                return
        try:
            state = worker.wait_for(ends_of(records))
        except UserError as refusal:
            check_loss(str(refusal), kafka)
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
    monkeypatch.setenv("MURMUREC_CACHE_DIR", str(place))
    assert "make room" in sentence(start(ready=False))


def use_up_inodes(place: Path) -> None:
    """Leave no room for one more name."""
    for i in range(100):
        try:
            (place / f"name-{i}").touch()
        except OSError:
            return
    raise AssertionError(f"{place} still takes new files")
