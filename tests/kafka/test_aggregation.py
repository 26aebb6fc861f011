"""Aggregators as processes over a real broker: a campaign in split mode, and killed on the way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from stream_app.aggregation import keys
from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.aggregation.party import RecordsGone
from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
from stream_app.campaigns.rounds import Phase, StageState
from stream_app.campaigns.sealing import seal
from stream_app.cli import run
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.topic_follower import records
from stream_app.privacy.randomness import SystemSource
from stream_app.wire import Topics
from stream_app.wire.campaigns.contribution import encode_contribution
from stream_app.wire.campaigns.plan import Campaign, encode_plan
from stream_app.wire.campaigns.round_log import AbortReason, NoisyShare, decode_round
from tests.conftest import Kafka
from tests.fixtures import forks
from tests.fixtures.waiting import until
from tests.stream_app.aggregation.test_party import noise_of
from tests.stream_app.aggregation.world import device_id, plan_of, vectors

pytestmark = pytest.mark.kafka

SIZE = 2000
DEVICES = 40


class Aggregator:
    """`murmurec aggregate` of one party, as often as it is started."""

    def __init__(self, role: Role, folder: Path, arguments: Sequence[str]) -> None:
        self._command = ["aggregate", "--party", role]
        self._command += ["--folder", str(folder), *arguments]
        self._log = folder / f"{role}.log"
        self.process: forks.Forked | None = None

    def start(self) -> None:
        self.process = forks.start(self._command, self._log)

    def end(self, number: int) -> int | None:
        """Send a signal to the process, if there is one; return the exit code."""
        if self.process is None:
            return None
        self.process.send_signal(number)
        code = self.process.wait(30)
        self.process = None
        return code

    @property
    def printed(self) -> str:
        return self._log.read_text()


@pytest.fixture
def parties(tmp_path: Path) -> tuple[PartyKeys, ...]:
    return keys.make(tmp_path, Role.A), keys.make(tmp_path, Role.B)


@pytest.fixture
def aggregators(
    kafka: Kafka, topics: str, tmp_path: Path, parties: tuple[PartyKeys, ...]
) -> Iterator[list[Aggregator]]:
    """Give both parties' processes, not started; what runs at the end is killed."""
    arguments = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    made = [Aggregator(each.role, tmp_path, arguments) for each in parties]
    yield made
    for each in made:
        each.end(signal.SIGKILL)


@pytest.fixture
def coordinator(kafka: Kafka, topics: str) -> Iterator[Coordinator]:
    names = Topics(topics)
    with ExitStack() as stack:
        log = RoundTopic(kafka.connection, names.rounds)
        stack.callback(log.close)
        contributions = ContributionTopic(kafka.connection, names.contributions)
        stack.callback(contributions.close)
        yield Coordinator(log, contributions)


@pytest.fixture
def contribute(kafka: Kafka, topics: str) -> Callable[[Campaign, int, np.ndarray], None]:
    """Give a function that sends a vector for every device."""
    producer = clients.producer(kafka.connection)

    def sent(campaign: Campaign, stage: int, rows: np.ndarray) -> None:
        for device, row in enumerate(rows):
            made = seal(campaign, stage, device_id(device), row, SystemSource())
            clients.send(
                producer,
                Topics(topics).contributions,
                key=made.key,
                value=encode_contribution(made),
            )
        assert producer.flush(30) == 0

    return sent


def result(coordinator: Coordinator, index: int) -> StageState:
    """Return a stage when it has a result or will have none."""
    ended = (Phase.RELEASED, Phase.ABORTED)
    stage = coordinator.log.rounds.stages[index]
    until(lambda: coordinator.log.catch_up() and stage.phase in ended, "the stage has ended")
    return stage


def check(stage: StageState, sent: np.ndarray, parties: tuple[PartyKeys, ...]) -> None:
    """The result is the exact sum and the noise that these keys give, drawn once."""
    assert stage.phase is Phase.RELEASED
    assert stage.contributions == len(sent)
    noise = sum(noise_of(each, stage) for each in parties)
    assert np.array_equal(stage.result, sent.sum(axis=0) + noise)


def shares(kafka: Kafka, topics: str) -> list[NoisyShare]:
    """Return every share that was ever written."""
    found = records(kafka.connection, Topics(topics).rounds)
    entries = [decode_round(message.value()) for message in found]
    return [entry for entry in entries if isinstance(entry, NoisyShare)]


def test_two_parties_that_are_killed_on_the_way_release_each_sum_once(
    kafka, topics, parties, aggregators, coordinator, contribute, rng
):
    """Two stages. SIGKILL takes a party when it is ready, when it has named what it opened, and
    when a share is in the log: its own, or while it makes it."""
    campaign = plan_of(parties, size=SIZE, bound=2048)
    coordinator.begin(campaign)
    for index in (0, 1):
        sent = vectors(rng, DEVICES, SIZE) // 10
        coordinator.open_stage()
        contribute(campaign, index, sent)
        stage = coordinator.close_stage()
        for each in aggregators:
            each.start()
        victim = int(rng.integers(2))
        moments = {
            "ready": lambda victim=victim: "answers on" in aggregators[victim].printed,
            "opened": lambda stage=stage, victim=victim: victim in stage.opened,
            "shared": lambda stage=stage: stage.shares,
        }
        for name, moment in moments.items():
            until(lambda moment=moment: coordinator.log.catch_up() and moment(), name)
            assert aggregators[victim].end(signal.SIGKILL) == -signal.SIGKILL
            aggregators[victim].start()
        check(result(coordinator, index), sent, parties)
        for each in aggregators:
            assert each.end(signal.SIGTERM) in (0, -signal.SIGTERM)
    written = shares(kafka, topics)
    everyone = {(stage, party) for stage in (0, 1) for party in (0, 1)}
    assert {(each.stage, each.party) for each in written} == everyone
    assert len(set(written)) == 4


@pytest.mark.thorough
def test_a_silent_party_times_out_and_the_other_releases_nothing(
    kafka, topics, parties, aggregators, coordinator, contribute, rng
):
    campaign = plan_of(parties, size=SIZE, bound=2048)
    coordinator.begin(campaign)
    coordinator.open_stage()
    contribute(campaign, 0, vectors(rng, 3, SIZE) // 10)
    stage = coordinator.close_stage()
    aggregators[0].start()
    until(lambda: coordinator.log.catch_up() and stage.opened, "party a has answered")
    coordinator.abort_stage(AbortReason.TIMED_OUT)
    aggregators[1].start()
    until(lambda: all("timed_out" in each.printed for each in aggregators), "both know the end")
    assert [each.end(signal.SIGTERM) for each in aggregators] == [0, 0]
    assert "opened 3 of 3 contributions" in aggregators[0].printed
    assert "opened" not in aggregators[1].printed
    assert "noisy share" not in aggregators[0].printed
    assert shares(kafka, topics) == []
    with pytest.raises(UserError, match="no campaign is under way"):
        coordinator.open_stage()


@pytest.mark.thorough
def test_records_that_the_broker_has_deleted_end_the_stage_and_deleted_rounds_the_process(
    kafka, topics, parties, aggregators, coordinator, contribute, rng
):
    campaign = plan_of(parties, size=SIZE, bound=2048)
    coordinator.begin(campaign)
    coordinator.open_stage()
    contribute(campaign, 0, vectors(rng, 9, SIZE) // 10)
    stage = coordinator.close_stage()
    names = Topics(topics)
    delete_first(kafka, names.contributions, int(np.argmax(stage.ends)))
    aggregators[0].start()
    assert result(coordinator, 0).aborted is AbortReason.RECORDS_GONE
    assert aggregators[0].end(signal.SIGTERM) == 0
    delete_first(kafka, names.rounds, 0)
    aggregators[1].start()
    assert aggregators[1].process.wait(60) == 1
    assert "rounds were deleted" in " ".join(aggregators[1].printed.split())
    aggregators[1].process = None


def test_a_stage_is_read_from_its_begin_to_its_end_and_no_further(
    kafka, topics, parties, coordinator, contribute, rng
):
    campaign = plan_of(parties)
    coordinator.begin(campaign)
    contribute(campaign, 0, vectors(rng, 5))
    coordinator.open_stage()
    contribute(campaign, 0, vectors(rng, 20))
    stage = coordinator.close_stage()
    contribute(campaign, 0, vectors(rng, 20))
    windows = enumerate(zip(stage.begins, stage.ends, strict=True))
    expected = [(place, offset) for place, window in windows for offset in range(*window)]
    assert len(expected) == 20
    topic = ContributionTopic(kafka.connection, Topics(topics).contributions)
    assert [(each.partition, each.offset) for each in topic.read(stage)] == expected
    stage.ends = tuple(end + 10**6 for end in stage.ends)
    with pytest.raises(RecordsGone):
        next(topic.read(stage))
    stage.begins, stage.ends = (0,) * 5, (0,) * 5  # the topic was made again, with fewer
    with pytest.raises(RecordsGone):
        next(topic.read(stage))
    topic.close()


def test_an_open_stage_is_read_on_from_the_places_that_are_asked_for(
    kafka, topics, parties, coordinator, contribute, rng
):
    """Reading goes on where it was, begins again at other places, and ends with the stage."""
    campaign = plan_of(parties)
    coordinator.begin(campaign)
    begins = coordinator.open_stage().begins
    contribute(campaign, 0, vectors(rng, 8))
    topic = ContributionTopic(kafka.connection, Topics(topics).contributions)
    with closing(topic):
        first, places = read_on(topic, begins, 8)
        contribute(campaign, 0, vectors(rng, 8))
        more, places = read_on(topic, places, 8)
        again, _ = read_on(topic, begins, 16)
        assert sorted(again) == sorted(first + more)
        stage = coordinator.close_stage()
        assert stage.ends == places
        assert [(each.partition, each.offset) for each in topic.read(stage)] == sorted(again)
        assert list(topic.read_on(())) == []
        delete_first(kafka, Topics(topics).contributions, again[0][0])
        rest, _ = read_on(topic, begins, 16 - sum(place == again[0][0] for place, _ in again))
        assert again[0][0] not in {place for place, _ in rest}


def read_on(
    topic: ContributionTopic, places: tuple[int, ...], count: int
) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
    """Return so many records that are read on, and the places after them."""
    found, after = list[tuple[int, int]](), list(places)

    def more() -> bool:
        for each in topic.read_on(tuple(after)):
            assert each.offset == after[each.partition]
            found.append((each.partition, each.offset))
            after[each.partition] = each.offset + 1
        return len(found) >= count

    until(more, f"{count} records are read")
    assert len(found) == count
    return found, tuple(after)


def delete_first(kafka: Kafka, topic: str, partition: int) -> None:
    """Delete the first record of a partition."""
    admin = clients.admin(kafka.connection)
    for done in admin.delete_records([TopicPartition(topic, partition, 1)]).values():
        done.result(30)


def test_the_owner_begins_and_ends_a_campaign_by_hand(
    kafka, topics, parties, tmp_path, environment, capsys
):
    common = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode_plan(plan_of(parties, size=3, bound=1)))
    public = [part for role in "ab" for part in ("--key", str(tmp_path / f"{role}.pub"))]
    assert run(["rounds", "show", *common]) == 0
    assert run(["rounds", "begin", str(plan), *public, *common]) == 0
    assert run(["rounds", "stage", "close", *common]) == 1
    for step in (["stage", "open"], ["stage", "close"], ["stage", "abort"], ["show"]):
        assert run(["rounds", *step, *common]) == 0
    shown = capsys.readouterr()
    assert "no campaign has begun" in shown.out
    assert "aborted: withdrawn" in shown.out
    assert "stage 0 is planned: only one that is open can close" in " ".join(shown.err.split())
    assert run(["rounds", "begin", str(plan), *public, *common]) == 1
    assert "choose a number above it" in " ".join(capsys.readouterr().err.split())
    assert run(["rounds", "begin", str(plan), *public[:2], *common]) == 1
    assert "each party has a key of its own" in " ".join(capsys.readouterr().err.split())


def test_a_party_whose_key_is_not_named_says_so_once(
    kafka, topics, parties, aggregators, coordinator, contribute, rng, capsys, environment
):
    """The plan names another party b; a party a that answered waits for it."""
    other = PartyKeys.random(Role.B)
    campaign = plan_of((parties[0], other))
    coordinator.begin(campaign)
    coordinator.open_stage()
    contribute(campaign, 0, vectors(rng, 3))
    stage = coordinator.close_stage()
    assert run(["rounds", "show", "--bootstrap", kafka.bootstrap, "--prefix", topics]) == 0
    assert "0 together closed - 0 0" in " ".join(capsys.readouterr().out.split())
    for each in aggregators:
        each.start()
    until(lambda: coordinator.log.catch_up() and stage.opened, "party a has answered")
    until(lambda: "is not answered here" in aggregators[1].printed, "party b says why it does not")
    assert run(["rounds", "show", "--bootstrap", kafka.bootstrap, "--prefix", topics]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"party b: {other.public.hex()}" in shown
    assert "stage 0 waits for party b" in shown
    for each in aggregators:
        each.end(signal.SIGTERM)
    printed = " ".join(aggregators[1].printed.split())
    assert printed.count("campaign 1: is not answered here") == 1
    assert f"party b has {parties[1].public.hex()[:16]}..." in printed
    assert "is not answered here" not in aggregators[0].printed


def test_a_process_without_keys_is_one_sentence(environment, tmp_path, capsys):
    place = ["--party", "a", "--folder", str(tmp_path)]
    assert run(["aggregate", *place]) == 1
    assert "there are no keys" in capsys.readouterr().err
    assert run(["aggregate", "--make-keys", *place]) == 0
    assert (tmp_path / "a.pub").read_text().strip() in capsys.readouterr().out
    assert run(["aggregate", "--make-keys", *place]) == 1
    assert "has keys already" in " ".join(capsys.readouterr().err.split())
