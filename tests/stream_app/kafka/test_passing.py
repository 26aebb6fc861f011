"""Requests wait for the end of what passes by itself, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from stream_app.errors import Unanswered, UserError
from stream_app.kafka import clients
from stream_app.kafka.passing import answered, passes

AWAY = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_COORDINATOR,
)
PLACE = TopicPartition("ratings", 2)


@pytest.mark.parametrize("code", AWAY)
def test_what_a_restart_or_an_election_causes_passes(code: int) -> None:
    assert passes(KafkaError(code))


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._AUTHENTICATION,
        KafkaError._BAD_MSG,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._FATAL,
    ],
)
def test_what_somebody_must_mend_does_not_pass(code: int) -> None:
    assert not passes(KafkaError(code))


def test_what_kafka_itself_says_can_be_retried_passes() -> None:
    assert passes(KafkaError(KafkaError.UNKNOWN, "try again", retriable=True))


class Asked:
    """A consumer that raises these codes, one a request, and then answers; with `forever` it
    raises the last one from then on."""

    def __init__(self, *codes: int, forever: bool = False) -> None:
        self._codes: Iterator[int] = iter(codes)
        self._last = codes[-1] if forever else None
        self.seconds: list[float] = []
        self.lists = True

    def list_topics(self, timeout: float) -> Asked:
        if not self.lists:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self

    @property
    def topics(self) -> dict[str, object]:
        return {}

    def get_watermark_offsets(
        self, place: TopicPartition, timeout: float, cached: bool
    ) -> tuple[int, int]:
        assert (place, cached) == (PLACE, False)
        self.seconds.append(timeout)
        code = next(self._codes, self._last)
        if code is not None:
            raise KafkaException(KafkaError(code))
        return 3, 7


def offsets_of(asked: Asked, seconds: float) -> tuple[int, int]:
    consumer: Consumer = asked  # type: ignore[assignment]
    return clients.offsets(consumer, PLACE, seconds)


def test_offsets_are_asked_for_until_the_broker_is_back() -> None:
    asked = Asked(*AWAY, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert offsets_of(asked, 60.0) == (3, 7)
    assert len(asked.seconds) == len(AWAY) + 2
    assert 60.0 >= asked.seconds[0] > asked.seconds[-1], "each request gets what is left"


def test_a_broker_that_stays_away_is_one_sentence_at_the_deadline() -> None:
    asked = Asked(KafkaError._TRANSPORT, forever=True)
    with pytest.raises(
        Unanswered,
        match=r"^the offsets of topic ratings partition 2 cannot be read: the broker did not "
        r"answer within 0\.1 s \(.*transport failure\); try again$",
    ):
        offsets_of(asked, 0.1)
    assert len(asked.seconds) > 1
    assert min(asked.seconds) > 0


def test_an_error_that_does_not_pass_is_raised_at_once() -> None:
    asked = Asked(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(UserError, match=r"no right to READ it") as refused:
        offsets_of(asked, 60.0)
    assert not isinstance(refused.value, Unanswered)
    assert len(asked.seconds) == 1


def test_a_topic_that_stays_unknown_is_an_answer() -> None:
    """Who waits for a broker would wait for a deleted topic without end."""
    with pytest.raises(UserError, match=r"cannot be read: .*nknown topic") as refused:
        offsets_of(Asked(KafkaError.UNKNOWN_TOPIC_OR_PART, forever=True), 0.1)
    assert not isinstance(refused.value, Unanswered)


def test_a_partition_that_is_unknown_because_nobody_answers_is_no_answer() -> None:
    """librdkafka forgets partitions while the broker is away."""
    asked = Asked(KafkaError._UNKNOWN_PARTITION, forever=True)
    asked.lists = False
    with pytest.raises(Unanswered, match="did not list its topics"):
        offsets_of(asked, 0.1)


def test_a_future_without_a_result_is_asked_for_again() -> None:
    late: list[Future[Any]] = [Future(), Future()]
    late[1].set_result("here")
    assert answered(lambda _: late.pop(0).result(0.01), 60.0, "x") == "here"
    with pytest.raises(Unanswered, match=r"^x: the broker did not answer within 0\.05 s; try"):
        answered(lambda left: Future[str]().result(left), 0.05, "x")


class Listing:
    """A client whose broker is away at the first request."""

    def __init__(self) -> None:
        self.topics = {"ratings": object()}
        self._codes = [KafkaError._TRANSPORT]

    def list_topics(self, timeout: float) -> Listing:
        if self._codes:
            raise KafkaException(KafkaError(self._codes.pop()))
        return self


def test_topics_are_listed_when_the_broker_is_back() -> None:
    listing = Listing()
    assert list(clients.listed(listing)) == ["ratings"]  # type: ignore[arg-type]
