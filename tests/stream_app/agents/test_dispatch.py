"""Options of a query: at most one, and what the worker does not serve is refused with a reason."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_app.agents.queries import answers, replies
from stream_app.agents.queries import answers as answers_of_worker
from stream_app.agents.queries.answers import Answers
from stream_app.agents.runtime import Runtime
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.wire import (
    MAX_SEQ,
    Guarantee,
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
        (a_query(None, similar_to=5, neighbours=True), "at most one"),
        (a_query(neighbours=True, for_="next"), "at most one"),
        (a_query(None, similar_to=5, for_="now"), "at most one"),
        (a_query(None), "pseudonym of 32 hex"),
        (a_query(None, for_="now"), "pseudonym of 32 hex"),
        (a_query(similar_to=5), "names no user"),
        (a_query(neighbours=True), "profiles"),
    ],
    ids=str,
)
def test_what_is_not_served_is_refused_with_a_reason(
    runtime: Runtime, query: Query, reason: str
) -> None:
    found = answers.outcome(runtime, query, 0.0)
    assert isinstance(found, Refused)
    assert reason in found.reason
    value = replies.encoded_refusal(runtime, "0" * 16, Status.REFUSED, found.reason)
    assert decode_message(Recommendation, value).reason == found.reason
    assert len(value) == replies.reply_bytes(runtime.catalogue)


def test_an_option_that_is_false_is_no_option(runtime: Runtime) -> None:
    assert isinstance(answers.outcome(runtime, a_query(neighbours=False), 0.0), RankedItems)


@pytest.mark.parametrize(("given", "visit"), [({}, "next"), ({"for_": "next"}, "next"),
                                              ({"for_": "now"}, "now")], ids=str)  # fmt: skip
def test_the_reply_to_a_user_says_which_visit_it_is_for(
    runtime: Runtime, given: dict[str, str], visit: str
) -> None:
    found = answers.outcome(runtime, a_query(**given), 0.0)
    assert isinstance(found, RankedItems)
    value = replies.encoded_reply(
        replies.recommendation(runtime, "0" * 16, found), runtime.catalogue
    )
    assert decode_message(Recommendation, value).for_ == visit
    assert len(value) == replies.reply_bytes(runtime.catalogue)


class Drawn:
    """Lists that are there only after other coroutines have run."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def answer(self, device: bytes, _: float) -> RankedItems | Refused:
        """Answer after a turn of the event loop; refuse the second query."""
        self.asked.append(device)
        refused = len(self.asked) > 1
        await asyncio.sleep(0)
        if refused:
            return Refused("spent 3 of 4")
        guarantee = Guarantee("one report of the asker", "1/2", "sampled-set")
        return RankedItems(
            np.array([7], np.uint64), np.array([1.0]), "sampled-set", 3, guarantee=guarantee
        )


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


def test_an_answer_that_waits_is_written_when_it_is_there() -> None:
    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        lists = runtime.neighbours = Drawn()
        producer = Written()
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        for query in (a_query(neighbours=True), a_query(neighbours=True), a_query()):
            answers.offer(query, 0.0, nothing)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(producer.replies) < 3:
                producer.wrote.clear()
                await producer.wrote.wait()
        plain, drawn, refused = producer.replies
        assert plain.guarantee is None
        assert drawn.items[:2] == (7, None)
        assert (plain.for_, drawn.for_, refused.for_) == ("next", msgspec.UNSET, msgspec.UNSET)
        assert drawn.guarantee == Guarantee("one report of the asker", "1/2", "sampled-set")
        assert (refused.status, refused.reason) == (Status.REFUSED, "spent 3 of 4")
        assert lists.asked[0] == bytes.fromhex(USER)

    asyncio.run(main())


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


class Slow:
    """Answers that wait for ever, of which it counts those that were begun."""

    def __init__(self) -> None:
        self.begun = 0

    def answer(self, *_: Any) -> Awaitable[RankedItems | Refused]:
        """Begin an answer."""
        self.begun += 1
        return self._made()

    async def _made(self) -> RankedItems | Refused:
        await asyncio.Event().wait()
        raise AssertionError


def test_no_answer_is_begun_that_nobody_will_await(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep its place among those that wait; queries that need not wait are answered."""

    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        monkeypatch.setattr(answers_of_worker, "_MOST_WAITING", 3)
        runtime.neighbours = Slow()
        producer = Written()
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        for _ in range(6):
            answers._answer_one(a_query(neighbours=True), 0.0, nothing)
        assert runtime.neighbours.begun == 3
        answers._answer_one(a_query(), 0.0, nothing)
        assert [reply.status for reply in producer.replies] == 3 * [Status.BUSY] + [Status.OK]
        for task in answers._later:
            task.cancel()

    asyncio.run(main())


def outcomes(runtime: Runtime) -> dict[str, float]:
    """Return how many queries had each outcome that occurred."""
    lines = runtime.metrics.exposition().decode().splitlines()
    found = [re.fullmatch(r'murmurec_queries_total{outcome="(.+)"} (.+)', line) for line in lines]
    return {each[1]: float(each[2]) for each in found if each and float(each[2])}


def test_an_answer_that_fails_ends_the_worker() -> None:
    class Broken:
        async def answer(self, device: bytes, arrived: float) -> Refused:
            raise ZeroDivisionError

    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        runtime.neighbours = Broken()
        answers = Answers(runtime, Written())  # type: ignore[arg-type]
        answers.offer(a_query(neighbours=True), 0.0, nothing)
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


def test_every_reason_fits_a_reply() -> None:
    constants = [value for name, value in vars(answers).items() if name.isupper()]
    reasons = [value for value in constants if isinstance(value, str) and " " in value]
    assert len(reasons) >= 5
    for reason in reasons:
        msgspec.convert({"adjacency": reason, "epsilon": "1", "method": "m"}, Guarantee)
