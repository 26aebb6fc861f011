"""Options of a query: at most one, and what the worker does not serve is refused with a reason."""

from __future__ import annotations

import asyncio
import re
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_app.agents.queries import answers, replies
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
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.stream_app.agents.lines import a_runtime, runtime_alone

USER = "1" * 32


def a_query(user: str | None = USER, **options: Any) -> Query:
    return Query("0" * 16, user, 10, MAX_SEQ, **options)


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return runtime_alone()


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (a_query(None, similar_to=5, private=Fraction(1)), "at most one"),
        (a_query(private=Fraction(1), neighbours=True), "at most one"),
        (a_query(private=Fraction(1), for_="now"), "at most one"),
        (a_query(neighbours=True, for_="next"), "at most one"),
        (a_query(None, similar_to=5, for_="now"), "at most one"),
        (a_query(None), "pseudonym of 32 hex"),
        (a_query(None, for_="now"), "pseudonym of 32 hex"),
        (a_query(None, private=Fraction(1)), "pseudonym of 32 hex"),
        (a_query(similar_to=5), "names no user"),
        (a_query(private=Fraction(1)), "list_budget"),
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
    reply = replies.refusal(runtime, "0" * 16, Status.REFUSED, found.reason)
    value = replies.encoded_reply(reply, runtime.catalogue)
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
        self.asked: list[tuple[bytes, Fraction, int, str]] = []

    async def answer(
        self, device: bytes, epsilon: Fraction, count: int, query: str
    ) -> RankedItems | Refused:
        """Answer after a turn of the event loop; refuse an epsilon above 1."""
        self.asked.append((device, epsilon, count, query))
        await asyncio.sleep(0)
        if epsilon > 1:
            return Refused("spent 3 of 4")
        guarantee = Guarantee("one report of the asker", str(epsilon), "sampled-set")
        return RankedItems(
            np.array([7], np.uint64), np.array([1.0]), "sampled-set", 3, guarantee=guarantee
        )


class Written:
    """A producer that keeps what is written."""

    def __init__(self) -> None:
        self.replies: list[Recommendation] = []
        self.wrote = asyncio.Event()
        self.unsent = 0
        self.polled = 0

    def __len__(self) -> int:
        """Return how many replies the broker has not acknowledged."""
        return self.unsent

    def poll(self, seconds: float) -> int:
        """Let the broker acknowledge some."""
        self.polled += 1
        self.unsent = max(0, self.unsent - 1000)
        return 0

    def flush(self, seconds: float) -> int:
        """Let the broker acknowledge all."""
        self.unsent = 0
        return 0

    def produce(self, topic: str, *, value: bytes, **_: Any) -> None:
        """Keep a reply."""
        self.replies.append(decode_message(Recommendation, value))
        self.wrote.set()


def test_an_answer_that_waits_is_written_when_it_is_there() -> None:
    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        lists = runtime.private_lists = Drawn()
        producer = Written()
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        answers.offer(a_query(private=Fraction(1, 2)), 0.0)
        answers.offer(a_query(private=Fraction(2)), 0.0)
        answers.offer(a_query(), 0.0)
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
        assert lists.asked[0] == (bytes.fromhex(USER), Fraction(1, 2), 10, "0" * 16)

    asyncio.run(main())


def test_while_no_reply_can_be_written_queries_wait_and_each_has_one_outcome() -> None:
    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        producer = Written()
        producer.unsent = 10_000
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        assert answers.offer(a_query(), 0.0)
        await asyncio.sleep(0)
        assert not producer.replies
        turned = a_query()
        await asyncio.to_thread(answers.turn_away, turned, lambda: False)
        assert producer.polled > 1
        await answers.finish(PATIENCE_SECONDS)
        assert sorted(reply.status for reply in producer.replies) == [Status.BUSY, Status.OK]
        producer.unsent, expired = 10_000_000, msgspec.structs.replace(a_query(), deadline=1)
        answers.turn_away(expired, lambda: False)
        assert len(producer.replies) == 2
        assert outcomes(runtime) == {"answered": 1, "busy": 1, "expired": 1}

    asyncio.run(main())


def test_a_worker_that_ends_answers_what_it_has_read() -> None:
    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        producer = Written()
        answers = Answers(runtime, producer)  # type: ignore[arg-type]
        for _ in range(100):
            answers.offer(a_query(), 0.0)
        await answers.finish(PATIENCE_SECONDS)
        assert len(producer.replies) == 100

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
        answers.offer(a_query(neighbours=True), 0.0)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while runtime.status.failure is None:
                await asyncio.sleep(0)
        assert isinstance(runtime.status.failure, ZeroDivisionError)

    asyncio.run(main())


def test_every_reason_fits_a_reply() -> None:
    constants = [value for name, value in vars(answers).items() if name.isupper()]
    reasons = [value for value in constants if isinstance(value, str) and " " in value]
    assert len(reasons) >= 5
    for reason in reasons:
        msgspec.convert({"adjacency": reason, "epsilon": "1", "method": "m"}, Guarantee)
