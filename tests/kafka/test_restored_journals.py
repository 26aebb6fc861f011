"""A journal that was put back from a backup releases nothing, whichever way its user takes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from confluent_kafka import TopicPartition

from murmurec import Device
from producers.campaign.stage_requests import Sending, contribute
from producers.device.rating import rate
from producers.device.requests import ReportSettings
from producers.identities import Identities
from producers.journal import Journal, Message, PersonBudget
from producers.journal.disk import Disk
from producers.last_seen import check_contributions
from producers.person.enrolment import ADAPTIVE
from producers.publishing import OutboxRelay, Publisher
from producers.scale import Scale
from stream_app import wire
from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.cli import run
from stream_app.cli.device.publishers import check_copies
from stream_app.errors import OlderJournal
from stream_app.kafka import clients
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.settings import load
from stream_app.wire.campaigns.contribution import (
    SIGNED_AS,
    decode_value,
    encode_contribution,
)
from stream_app.wire.signatures import SigningKey, digest_of
from tests.conftest import Kafka
from tests.kafka.test_aggregation import coordinator
from tests.kafka.test_contribute import ITEMS, plan_of
from tests.producers.test_campaign import opened, pinned, plan
from tests.stream_app.aggregation.world import keys_of

__all__ = ["coordinator"]
pytestmark = pytest.mark.kafka

SENTENCE = "so this is an older copy"


@pytest.fixture(params=["same", "other"])
def put_back(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Path, Path], None]:
    """Put a copy in the place of a journal: on the machine that has continued it, which knows that
    by itself, or on another one, which the topic tells."""

    def put(copy: Path, path: Path) -> None:
        shutil.copy(copy, path)
        if request.param == "other":
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other-machine"))

    return put


@pytest.fixture
def journal(environment: Callable[..., None], kafka: Kafka, topics: str, tmp_path: Path) -> Path:
    path = tmp_path / "own" / "device.journal"
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL=str(path),
    )
    assert run(["device", "enrol", "--user", "ann"]) == 0
    return path


def held(kafka: Kafka, topic: str) -> int:
    """Return how many records the topic holds."""
    with clients.consumer(kafka.connection) as reader:
        places = [TopicPartition(topic, each) for each in range(wire.PARTITIONS)]
        return sum(clients.offsets(reader, each)[1] for each in places)


def publish(item: int, *more: str) -> int:
    return run(["publish", "--user", "ann", "--item", str(item), "--rating", "4", *more])


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    sentence = " ".join(capsys.readouterr().err.split())
    assert SENTENCE in sentence
    assert "put the newest copy back" in sentence
    return sentence


def test_three_copies_that_are_put_back_publish_no_second_draw(
    journal, put_back, kafka, topics, tmp_path, capsys
):
    topic, copy = wire.Topics(topics).ratings, tmp_path / "copy"
    shutil.copy(journal, copy)
    assert publish(1) == 0
    assert publish(2) == 0  # the plain journey goes on
    newest = journal.read_bytes()
    for _ in range(3):
        put_back(copy, journal)
        assert publish(1) == 1
        refused(capsys)
        assert journal.read_bytes() == copy.read_bytes()  # nothing is drawn or spent
    assert held(kafka, topic) == 2
    journal.write_bytes(newest)  # what the sentence says
    assert publish(3) == 0
    assert held(kafka, topic) == 3


def test_a_replay_from_a_copy_that_was_put_back_is_refused(
    journal, put_back, kafka, topics, tmp_path, capsys
):
    ratings, copy = tmp_path / "ratings.csv", tmp_path / "copy"
    ratings.write_text("user,item,rating,time\n" + "".join(f"{u},{u},4,1\n" for u in range(1, 6)))
    journal.unlink()  # the account of a person
    with Journal.open(journal) as opened:
        shutil.copy(opened.path, copy)
    assert run(["replay", str(ratings)]) == 0
    for epoch in ([], ["--emission", "epoch"]):
        put_back(copy, journal)
        assert run(["replay", str(ratings), *epoch]) == 1
        refused(capsys)
        with Journal.open(journal) as opened:
            assert opened.next_number == 1
    assert held(kafka, wire.Topics(topics).ratings) == 5


def test_a_contribution_from_a_copy_that_was_put_back_is_refused(
    journal, put_back, kafka, topics, tmp_path, coordinator, capsys
):
    party, scope = keys.make(tmp_path, Role.CENTRAL), tmp_path / "items.txt"
    scope.write_text("".join(f"{item}\n" for item in range(1, ITEMS + 1)))
    coordinator.begin(plan_of(party.public))
    coordinator.open_stage()
    command = ["device", "contribute", "--user", "ann", "--scope", str(scope)]
    command += ["--keys", str(tmp_path / "central.pub"), "--journal", str(journal)]
    copy = tmp_path / "copy"
    shutil.copy(journal, copy)
    assert run(command) == 0
    put_back(copy, journal)
    assert run(command) == 1
    refused(capsys)
    assert journal.read_bytes() == copy.read_bytes()
    assert held(kafka, wire.Topics(topics).contributions) == 1


def test_a_device_in_python_sends_nothing_from_a_copy_that_was_put_back(
    journal, put_back, kafka, topics, tmp_path, request
):
    copy = tmp_path / "copy"
    shutil.copy(journal, copy)
    with Device("ann", journal) as device:
        device.rate(1, 4)
        assert device.publish() == 1
        device.rate(2, 4)
        assert device.publish() == 1
    put_back(copy, journal)
    with Device("ann", journal) as device:
        if "[same]" in request.node.name:
            with pytest.raises(OlderJournal, match=SENTENCE):
                device.rate(1, 4)
            assert device.spent == 0
        else:  # without the broker it cannot be known yet
            device.rate(1, 4)
            device.rate(3, 4)
        with pytest.raises(OlderJournal, match=SENTENCE):
            device.publish()
    assert held(kafka, wire.Topics(topics).ratings) == 2


def test_a_topic_without_its_first_records_and_with_a_forged_event_stops_nobody(
    journal, kafka, topics, capsys
):
    topic = wire.Topics(topics).ratings
    assert publish(1) == 0
    with clients.consumer(kafka.connection) as reader:
        places = [TopicPartition(topic, each) for each in range(wire.PARTITIONS)]
        ends = [TopicPartition(topic, each.partition, clients.offsets(reader, each)[1])
                for each in places]  # fmt: skip
    admin = clients.admin(kafka.connection)
    for done in admin.delete_records(ends).values():
        done.result(20)
    assert publish(2) == 0
    with Journal.open(journal) as opened:
        (account,) = opened.enrolled()
    writer = clients.producer(kafka.connection)
    place = next(each.partition for each in ends if each.offset)
    writer.produce(topic, b'{"seq": 9}', account.device.hex().encode(), place)
    assert writer.flush(20) == 0
    assert publish(3) == 0


MANY = 100
RR = RandomizedResponse(5, Fraction(2))
Headers = list[tuple[str, bytes]]


class Unsynced(Disk):
    """A disk that survives no power cut, and knows no newest copy of a journal."""

    def sync(self, _: int) -> None: ...
    def sync_folder(self, _: Path) -> None: ...


@dataclass
class Person:
    """A device of its own journal, with copies of it from before its event and its contribution."""

    journal: Journal
    identities: Identities
    device: bytes
    copies: list[Path]
    sent: list[Message]  # an event and a contribution, which Kafka has confirmed, and an event


@pytest.fixture(params=["open", "signed"])
def crowd(
    request: pytest.FixtureRequest,
    kafka: Kafka,
    topics: str,
    tmp_path: Path,
    environment: Callable[..., None],
) -> Iterator[list[Person]]:
    """Give devices whose records are on the topics; of the newest event none knows that."""
    signed, today = request.param == "signed", int(time.time()) // wire.EPOCH_SECONDS
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICES=request.param,
    )
    names, campaign = wire.Topics(topics), plan(keys_of(1), signed=signed or msgspec.UNSET)
    terms, people = replace(pinned(campaign), signs=signed), list[Person]()
    with ExitStack() as stack:
        publisher = Publisher(clients.producer(kafka.connection), names.ratings)
        for number in range(MANY):
            path = tmp_path / f"{number}.journal"
            journal = stack.enter_context(Journal.open(path, disk=Unsynced()))
            identities = Identities(journal.key, signed=signed)
            device = identities.pseudonym("ann")
            budget = PersonBudget(Fraction(1000), plan=ADAPTIVE)
            journal.enrol([device], budget, today - 1)
            reporting = ReportSettings(names.ratings, RR, identities=identities)
            copies, sent = [], list[Message]()
            for item in (1, 0, 2):
                copies.append(Path(shutil.copy(path, tmp_path / f"{number}.{item}")))
                if item:
                    given = {"scale": Scale(), "journal": journal, "epoch": today}
                    sent.append(rate("ann", item, 4, reporting, **given))
                else:
                    to = Sending(names.contributions, today, identities)
                    rounds = opened(campaign)
                    sent.append(contribute(journal, device, [], rounds, terms, sending=to))
            relay = OutboxRelay(journal, publisher)
            for message in sent[:2]:
                relay.send(message)
            last = sent[2]
            publisher.send(last.key, last.value, topic=last.topic, headers=journal.headers(last))
            people.append(Person(journal, identities, device, copies, sent))
        publisher.close()
        assert (publisher.accepted, publisher.failed) == (3 * MANY, 0)
        yield people


def forgeries(victim: Person, other: Person) -> Iterator[tuple[str, bytes, Headers]]:
    """Yield topic, value and headers of records that somebody else writes under a victim's name."""
    event, contribution, last = victim.sent
    (tag,), (box_tag,) = victim.journal.headers(event), victim.journal.headers(contribution)
    forger = SigningKey.from_seed(b"f" * 32)
    seq = last.seq + 1
    items, reports = np.uint64([3]), np.uint8([1])
    later = wire.Event(victim.device, seq, RR.id, 20_000, items, reports)
    same = replace(later, seq=last.seq)
    ratings, contributions = event.topic, contribution.topic
    yield ratings, wire.encode(later), []
    yield ratings, wire.encode_json(replace(later, seq=10**6)), [("tag", os.urandom(16))]
    yield ratings, wire.encode(later), [tag, *victim.journal.headers(last)]
    yield ratings, wire.encode(same), victim.journal.headers(last)
    value = wire.encode(later)  # tagged by this journal for another account, and another topic
    elsewhere = (other.device, ratings), (victim.device, contributions)
    found = [victim.journal.tag(topic, name, digest_of(value)) for name, topic in elsewhere]
    yield ratings, value, [("tag", each) for each in found]
    sealed = forger.seal(ratings, wire.encode(later))
    yield ratings, sealed, [tag]
    own = decode_value(contribution.value)
    value = encode_contribution(msgspec.structs.replace(own, stage=1))
    yield contributions, value, []
    yield contributions, value, [box_tag]
    yield contributions, forger.seal(SIGNED_AS, value), [("tag", os.urandom(16))]
    yield contributions, value, [tag, ("tag", b""), ("tag", box_tag[1][:15])]


def test_a_thousand_forged_records_stop_no_device_and_older_copies_are_still_refused(
    crowd: list[Person], kafka: Kafka
) -> None:
    settings, writer, forged = load(), clients.producer(kafka.connection), 0
    for place, victim in enumerate(crowd):
        for topic, value, headers in forgeries(victim, crowd[place - 1]):
            writer.produce(topic, value, victim.device.hex().encode(), headers=headers)
            forged += 1
    assert writer.flush(60) == 0
    assert forged == 1000
    check_copies(settings, [each.journal for each in crowd], campaigns=True)

    names, device = wire.Topics(settings.topic_prefix), crowd[0].device
    for place, last in enumerate((0, 1, 1)):
        with Journal.open(crowd[0].copies[place]) as older:
            match = rf"last event of device {device.hex()} has the number {last}, and .* number 2"
            with pytest.raises(OlderJournal, match=rf"{match}, {SENTENCE}.*--trust-journal"):
                check_copies(settings, [older], campaigns=True)
    with (
        Journal.open(crowd[0].copies[1]) as older,
        pytest.raises(OlderJournal, match=f"no contribution of .* to stage 0 .* {SENTENCE}"),
    ):
        check_contributions(
            *(kafka.connection, names.contributions, wire.PARTITIONS, {device: older}),
            signed=settings.signed,
        )
