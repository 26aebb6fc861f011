"""Options of a query: at most one, and what the worker does not serve is refused with a reason."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_app.agents.queries import answers
from stream_app.agents.queries import answers as answers_of_worker
from stream_app.agents.queries.answers import Answers
from stream_app.agents.runtime import Runtime
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.wire import (
    MAX_SEQ,
    Query,
    Recommendation,
    Status,
    decode_message,
)
from stream_app.wire.authenticity.sealed_replies import SealedQuery
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.stream_app.agents.lines import a_runtime, runtime_alone

USER = "1" * 32
TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


def a_query(user: str | None = USER, id: str = "0" * 16, **options: Any) -> Query:
    return Query(id, user, 10, MAX_SEQ, **options)


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return runtime_alone()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (a_query(None, similar_to=5, for_="now"), "at most one"),
        (a_query(None), "pseudonym of 32 hex"),
        (a_query(None, for_="now"), "pseudonym of 32 hex"),
        (a_query(similar_to=5), "names no user"),
    ],
    ids=str,
)
def test_what_is_not_served_is_refused_with_a_reason(
    runtime: Runtime, query: Query, reason: str
) -> None:
    found = answers.outcome(runtime, query, 0.0)
    assert isinstance(found, Refused)
    assert reason in found.reason
    value = answers.encoded_refusal(runtime, "0" * 16, Status.REFUSED, found.reason)
    assert decode_message(Recommendation, value).reason == found.reason
    assert len(value) == answers.reply_bytes(runtime.catalogue)


@pytest.mark.parametrize(("given", "visit"), [({}, "next"), ({"for_": "next"}, "next"),
                                              ({"for_": "now"}, "now")], ids=str)  # fmt: skip
def test_the_reply_to_a_user_says_which_visit_it_is_for(
    runtime: Runtime, given: dict[str, str], visit: str
) -> None:
    found = answers.outcome(runtime, a_query(**given), 0.0)
    assert isinstance(found, RankedItems)
    value = answers.encoded_reply(
        answers.recommendation(runtime, "0" * 16, found), runtime.catalogue
    )
    assert decode_message(Recommendation, value).for_ == visit
    assert len(value) == answers.reply_bytes(runtime.catalogue)


class Written:
    """A producer that keeps what is written, and refuses as many replies as are to be refused."""

    def __init__(self, reason: KafkaError | Exception = TIMED_OUT) -> None:
        self.reason = reason
        self.replies: list[Recommendation] = []
        self.wrote = asyncio.Event()
        self.unsent = 0
        self.polled = 0
        self.refused = 0

    def __len__(self) -> int:
        """Return how many replies the broker has not acknowledged."""
        return self.unsent

    def poll(self, seconds: float) -> int:
        """Let the broker acknowledge some."""
        self.polled += 1
        self.unsent = max(0, self.unsent - 1000)
        return 0

    def produce(
        self, topic: str, *, value: bytes, on_delivery: Callable[[Any, Any], None], **_: Any
    ) -> None:
        """Keep a reply, and report what became of it."""
        self.replies.append(decode_message(Recommendation, value))
        self.wrote.set()
        self.refused -= 1
        reason = self.reason if self.refused >= 0 else None
        if isinstance(reason, Exception):
            raise reason
        on_delivery(reason, Record(self.replies[-1].id.encode(), value))


@dataclass
class Record:
    """A record as a delivery report has it."""

    of_key: bytes
    of_value: bytes

    def key(self) -> bytes:
        """Return the key."""
        return self.of_key

    def value(self) -> bytes:
        """Return the value."""
        return self.of_value


def nothing() -> None:
    """Take the outcome of a query."""


def test_while_no_reply_can_be_written_queries_wait_and_each_has_one_outcome() -> None:
    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        producer = Written()
        producer.unsent = 10_000
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        assert answers.offer(a_query(), 0.0, nothing)
        await asyncio.sleep(0)
        assert not producer.replies
        assert not answers.wait_for_room(lambda: True)
        assert await asyncio.to_thread(answers.wait_for_room, lambda: False)
        assert producer.polled > 1
        answers.turn_away(a_query(), nothing)
        answers.turn_away(msgspec.structs.replace(a_query(), deadline=1), nothing)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(producer.replies) < 3:
                producer.wrote.clear()
                await producer.wrote.wait()
        found = {(reply.status, reply.reason) for reply in producer.replies}
        assert found == {
            (Status.BUSY, None), (Status.REFUSED, answers_of_worker.EXPIRED), (Status.OK, None)
        }  # fmt: skip
        assert outcomes(runtime) == {"answered": 1, "busy": 1, "expired": 1}

    asyncio.run(main())


@pytest.mark.parametrize(("again_seconds", "tries"), [(30.0, 3), (-(2.0**60), 1)])
def test_a_reply_that_the_broker_did_not_take_is_sent_again_while_somebody_may_wait(
    monkeypatch: pytest.MonkeyPatch, again_seconds: float, tries: int
) -> None:
    """A query is done when the broker has its reply, or when nobody waits any more."""

    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        producer, done = Written(), list[bool]()
        producer.refused = 2
        monkeypatch.setattr(answers_of_worker, "_AGAIN_SECONDS", again_seconds)
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        answers.turn_away(a_query(), lambda: done.append(True))
        assert len(producer.replies) == tries
        assert len({reply.id for reply in producer.replies}) == 1
        assert done == [True]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "could not be written .*max.message.bytes"),
        (KafkaError(KafkaError.POLICY_VIOLATION), "could not be written"),
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "WRITE"),
        (KafkaException(KafkaError(KafkaError._FATAL)), "a record was refused"),
        (BufferError("queue full"), "queue full"),
    ],
    ids=str,
)
def test_a_reply_that_is_never_taken_ends_the_worker(
    refused: KafkaError | Exception, sentence: str
) -> None:
    """With one sentence; its query has no outcome, so it is read again."""

    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        producer, done = Written(refused), list[bool]()
        producer.refused = 1000
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        answers.turn_away(a_query(), lambda: done.append(True))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await runtime.status.ending.wait()
        assert (len(producer.replies), done) == (1, [])
        assert re.search(sentence, str(runtime.status.failure))

    asyncio.run(main())


def outcomes(runtime: Runtime) -> dict[str, float]:
    """Return how many queries had each outcome that occurred."""
    lines = runtime.metrics.exposition().decode().splitlines()
    found = [re.fullmatch(r'murmurec_queries_total{outcome="(.+)"} (.+)', line) for line in lines]
    return {each[1]: float(each[2]) for each in found if each and float(each[2])}


def test_an_answer_that_fails_ends_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> RankedItems:
        raise ZeroDivisionError

    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        monkeypatch.setattr(answers_of_worker, "outcome", broken)
        answers = Answers(runtime, Written())  # type: ignore[arg-type]
        answers.offer(a_query(), 0.0, nothing)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while runtime.status.failure is None:
                await asyncio.sleep(0)
        assert isinstance(runtime.status.failure, ZeroDivisionError)

    asyncio.run(main())


class Records(Written):
    """A producer that keeps what is written as it is."""

    def produce(
        self, topic: str, *, value: bytes, on_delivery: Callable[[Any, Any], None], **_: Any
    ) -> None:
        """Keep a record."""
        self.values.append(value)
        self.wrote.set()
        on_delivery(None, Record(b"", value))

    def __init__(self) -> None:
        super().__init__()
        self.values: list[bytes] = []


def test_a_reply_to_a_query_with_a_key_is_sealed_whatever_it_says() -> None:
    """Lists and refusals have one size; to a key that is no key the refusal is in the clear."""

    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        producer = Records()
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        asked = [SealedQuery(a_query(id=f"{n:016x}")) for n in range(3)]
        weak = a_query(reply_key="00" * 32)
        answers.turn_away(asked[0].query, nothing)
        answers.turn_away(msgspec.structs.replace(asked[1].query, deadline=1), nothing)
        answers.offer(asked[2].query, 0.0, nothing)
        answers.offer(weak, 0.0, nothing)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(producer.values) < 4:
                producer.wrote.clear()
                await producer.wrote.wait()
        assert len({len(value) for value in producer.values[:3]}) == 1
        for number, (each, value) in enumerate(zip(asked, producer.values, strict=False)):
            assert not re.search(rb'"status"|null,null|expired:', value)
            reply = decode_message(Recommendation, each.opened(value))
            assert reply.id == each.query.id
            assert reply.status is (Status.BUSY, Status.REFUSED, Status.OK)[number]
            assert asked[number - 1].opened(value) is None
        refused = decode_message(Recommendation, producer.values[3])
        assert (refused.status, refused.reason) == (
            Status.REFUSED, "reply_key: no public key of X25519"
        )  # fmt: skip

    asyncio.run(main())


def test_every_reason_fits_a_reply(runtime: Runtime) -> None:
    constants = [value for name, value in vars(answers).items() if name.isupper()]
    reasons = [value for value in constants if isinstance(value, str) and " " in value]
    assert len(reasons) >= 4
    for reason in reasons:
        value = answers.encoded_refusal(runtime, "0" * 16, Status.REFUSED, reason)
        assert decode_message(Recommendation, value).reason == reason
