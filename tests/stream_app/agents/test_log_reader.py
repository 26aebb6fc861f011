"""The reader of the log waits for a broker that does not answer, except at the start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stream_app.agents.log_reader import LogReader
from stream_app.errors import Unanswered, UserError
from stream_app.wire.state_records import StateOrigin

AWAY = Unanswered("the broker did not answer within 30 s")


class Status:
    """What the reader asks and notes of a worker."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.step = ""
        self.last_answer_time = 0.0
        self.quiet = True

    def fail_from_thread(self, reason: BaseException) -> None:
        self.failures.append(reason)


class Runtime:
    """The part of a worker that the reader knows, with nothing to replace."""

    def __init__(self) -> None:
        self.status = Status()
        self.replacement = self.replica = self
        self.spec = None
        self.reload = None


class Log:
    """A follower that raises or yields what it is given, poll by poll."""

    def __init__(self, *polls: BaseException | list[str]) -> None:
        self._polls = iter(polls)
        self.rounds = self
        self.truncated = False
        self.closed = False

    def poll(self, *_: object) -> Iterator[str]:
        found = next(self._polls)
        if isinstance(found, BaseException):
            raise found
        yield from found

    def log_end_offsets(self) -> None:
        [*self.poll()]

    def close(self) -> None:
        self.closed = True


class Reader(LogReader):
    """A reader whose starts are given, and which ends when all were used; `taken` is what it hands
    to the learner, `beats` how often it looked after the clock."""

    def __init__(self, *starts: BaseException | Log, follow: Callable[..., Any] = Log) -> None:
        nothing: Any = None
        runtime: Any = Runtime()
        super().__init__(runtime, nothing, nothing, follow, self, nothing, nothing)  # type: ignore[arg-type]
        self.status: Status = runtime.status
        self._starts = list(starts)
        self.taken: list[Any] = []
        self.beats = 0
        self.waits = False

    def _begin(self) -> Any:
        found = self._starts.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    def _hand_over(self, pieces: Any) -> None:
        self.taken.extend(pieces)

    def _beat(self, follower: Any) -> None:
        self.beats += 1


class Over(Exception):
    """The end of a test's log."""


def test_a_broker_that_is_away_at_the_start_ends_the_worker_in_its_sentence() -> None:
    reader = Reader(AWAY)
    reader.thread.run()
    assert reader.status.failures == [AWAY]


def test_a_running_worker_waits_for_the_broker_and_hands_over_every_piece() -> None:
    log = Log(["a"], AWAY, ["b", "c"], AWAY, AWAY, ["d"], Over())
    reader = Reader(log)
    reader.thread.run()
    assert reader.taken == ["a", "b", "c", "d"]
    assert reader.beats == 6, "the clock and the probe of the broker go on meanwhile"
    assert [type(each) for each in reader.status.failures] == [Over]
    assert log.closed


def test_a_state_that_is_to_be_replaced_is_read_again_until_the_broker_is_back() -> None:
    first, second = Log(["a"]), Log(["b"], Over())
    reader = Reader(first, AWAY, AWAY, second)
    first.truncated = True
    replaced = []
    reader.loop = Loop(replaced)  # type: ignore[assignment]
    reader._runtime.replacement.begin_again = lambda: None  # type: ignore[method-assign]
    reader.thread.run()
    assert replaced, "another state is asked for"
    assert reader.taken == ["b"]
    assert [type(each) for each in reader.status.failures] == [Over]


class Loop:
    """An event loop that only notes what it is asked to call."""

    def __init__(self, calls: list[object]) -> None:
        self._calls = calls

    def call_soon_threadsafe(self, call: object, *_: object) -> None:
        self._calls.append(call)


def test_a_broker_that_is_away_is_not_a_log_that_does_not_reach_back() -> None:
    """The other answer would take the checkpoint of the replica that may be wrong."""
    origin = StateOrigin(0, (0, 0, 0, 0))
    gone, reached = Log(UserError("the records between were deleted")), Log([])
    away = Log(AWAY)
    for log, expected in ((gone, False), (reached, True)):
        assert Reader(follow=lambda *_, log=log: log)._reaches_back(origin) is expected
    with pytest.raises(Unanswered):
        Reader(follow=lambda *_: away)._reaches_back(origin)
    assert gone.closed
    assert reached.closed
    assert away.closed


def test_progress_without_records_is_no_answer_of_the_broker() -> None:
    """`topic_follower.TopicReader` reports it while it waits, too."""
    reader = Reader()
    reader._progress(5, 10)
    answered = reader.status.last_answer_time
    assert answered > 0
    reader._progress(5, 10)
    assert reader.status.last_answer_time == answered
    reader._progress(6, 10)
    assert answered <= reader.status.last_answer_time <= time.monotonic()
