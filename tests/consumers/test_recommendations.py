"""Answers at the client: the first k items that are not excluded."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.msgpack import encode as encode_packed
from msgspec.structs import replace

from consumers import recommendations
from consumers.recommendations import Recommendations, _best
from stream_app.errors import UserError
from stream_app.wire import (
    Listed,
    Query,
    Recommendation,
    Status,
    Topics,
    Unlisted,
    decode_message,
    encode_message,
    key,
    key_of,
)
from stream_app.wire.authenticity.sealed_replies import SealedQuery, reply_record
from stream_app.wire.ids import partition_of
from tests.fixtures.clear_answers import answer_in

NAMES: tuple[Listed, ...] = (5, 7, "tt01", Unlisted(f"{key('tt02'):016x}"), 9)


def answer(items: tuple[Listed, ...], status: Status = Status.OK) -> Recommendation:
    rest = 100 - len(items)
    scores = tuple(5.0 - 0.1 * i for i in range(len(items)))
    return Recommendation(
        "0" * 16, status, items + (None,) * rest, scores + (None,) * rest, "exact", 3, "local"
    )


def test_an_answer_is_cut_to_k_items() -> None:
    best = _best(answer(NAMES), 2, 0.1, ())
    assert best.items == NAMES[:2]
    assert best.scores == (5.0, 4.9)


def test_excluded_items_are_removed_before_the_answer_is_cut() -> None:
    rated = {7, key("tt01"), key("tt02")}
    assert _best(answer(NAMES), 2, 0.1, rated).items == (5, 9)
    assert _best(answer(NAMES), 10, 0.1, rated).items == (5, 9)
    assert _best(answer(NAMES), 10, 0.1, {5, 9}).items == NAMES[1:4]


class Bus:
    """A producer and a consumer of one: every query is answered with the longest list, after the
    records that are `forged` from it."""

    def __init__(self, *forged: Callable[[Query], bytes]) -> None:
        self.asked: list[Query] = []
        self.places: list[int] = []
        self.id = ""
        self.forged = iter(forged)

    def produce(
        self, topic: str, *, key: bytes, value: bytes, partition: int, on_delivery: Any
    ) -> None:
        self.places.append(partition)
        self.asked.append(decode_message(Query, value))
        self.id = key.decode()

    def poll(self, timeout: float) -> Any:
        return self if timeout else None

    def error(self) -> None:
        return None

    def key(self) -> bytes:
        return self.id.encode()

    def value(self) -> bytes:
        made = next(self.forged, lambda query: sealed(query, *range(100)))
        return made(self.asked[-1])


def damaged(value: bytes) -> bytes:
    return value[:200] + bytes([value[200] ^ 1]) + value[201:]


def sealed(query: Query, *items: int) -> bytes:
    return reply_record(query, encode_message(replace(answer(items), id=query.id)))


def test_the_longest_list_is_requested_where_items_are_excluded() -> None:
    bus = Bus()
    ask = asking(bus)
    assert ask.best("0" * 32, 3, 5.0).items == (0, 1, 2)
    assert ask.best("0" * 32, 3, 5.0, excluded={0, 1, 5}).items == (2, 3, 4)
    assert ask.best("0" * 32, 3, 5.0, excluded=set()).items == (0, 1, 2)  # nothing was rated yet
    assert [query.k for query in bus.asked] == [3, 100, 100]


def asking(bus: Bus) -> Recommendations:
    ask = Recommendations.__new__(Recommendations)
    ask._topics, ask._producer, ask._consumer = Topics(), bus, bus  # type: ignore[assignment]
    ask._partitions = 12
    return ask


def test_a_query_about_a_user_goes_where_the_ratings_of_the_user_lie() -> None:
    bus = Bus()
    ask, users = asking(bus), [f"{number:032x}" for number in range(40)]
    for user in users:
        ask.best(user, 3, 5.0)
    for shards in (1, 2, 3, 4):
        ratings = [partition_of(user.encode(), 24) % shards for user in users]
        assert [place % shards for place in bus.places] == ratings
    ask.similar(1, 3, 5.0)
    ask._partitions = 0  # not seen
    ask.best(users[0], 3, 5.0)
    assert bus.places[40:] == [-1, -1]


FORGED: dict[str, Callable[[Query], bytes]] = {
    "in the clear": lambda q: encode_message(replace(answer((666,)), id=q.id)),
    "sealed to another key": lambda q: sealed(SealedQuery(q).query, 666),
    "for another query": lambda q: sealed(replace(q, id="1" * 16), 666),
    "for another user": lambda q: sealed(replace(q, user="1" * 32), 666),
    "for another query inside": lambda q: reply_record(q, encode_message(answer((666,)))),
    "damaged": lambda q: damaged(sealed(q, 666)),
    "empty": lambda q: reply_record(q, b""),
    "short": lambda _: encode_packed({"v": 1, "id": "0" * 16, "box": bytes(47)}),
    "no message": lambda _: b"\x83",
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_record_that_is_no_answer_sealed_to_the_query_does_not_end_the_wait(forged: str) -> None:
    """A sealed box shows no sender, so whoever writes the topic may write any of these first."""
    assert asking(Bus(*[FORGED[forged]] * 3)).best("0" * 32, 3, 20.0).items == (0, 1, 2)


def test_a_client_that_only_forged_replies_reach_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks), time=time.time)
    monkeypatch.setattr(recommendations, "time", clock)
    bus = Bus()
    bus.forged = itertools.repeat(FORGED["in the clear"])
    with pytest.raises(UserError, match=r"no answer within .* replies were refused, not sealed"):
        asking(bus).best("0" * 32, 3, 3.0)


def test_each_query_has_a_key_of_its_own() -> None:
    bus = Bus()
    for _ in range(3):
        asking(bus).best("0" * 32, 3, 20.0)
    assert len({query.reply_key for query in bus.asked}) == 3


def test_the_next_visit_is_asked_for_in_the_bytes_of_earlier_releases() -> None:
    bus = Bus()
    ask = asking(bus)
    for visit in ("next", "now"):
        ask.best("0" * 32, 3, 5.0, for_=visit)  # type: ignore[arg-type]
    assert [query.options for query in bus.asked] == [(), ("for",)]
    with pytest.raises(ValueError, match="for_ 'later': give next or now"):
        ask.best("0" * 32, 3, 5.0, for_="later")  # type: ignore[arg-type]
    assert len(bus.asked) == 2


def test_an_answer_says_the_visit_that_it_is_for_unless_it_is_for_none() -> None:
    assert _best(answer(NAMES), 2, 0.1, ()).for_ is None
    assert _best(replace(answer(NAMES), for_="now"), 2, 0.1, ()).for_ == "now"


def test_the_key_of_an_item_does_not_depend_on_its_form_in_an_answer() -> None:
    assert [key_of(name) for name in NAMES] == [5, 7, key("tt01"), key("tt02"), 9]
    assert key_of("key:0123456789abcdef") == key("key:0123456789abcdef") != 0x0123456789ABCDEF


def test_a_rejected_query_raises_one_sentence() -> None:
    for status in (Status.BUSY, Status.REFUSED):
        with pytest.raises(UserError):
            _best(answer((), status), 3, 0.1, ())


def test_an_answer_counts_the_excluded_items() -> None:
    assert _best(answer(NAMES), 2, 0.1, {5, 9}).left_out == 2
    assert _best(answer(NAMES), 2, 0.1, {key_of(name) for name in NAMES[:3]}).items[-1] == 9
    assert _best(answer(NAMES), 2, 0.1, ()).left_out == 0


class Record:
    """A record of the topic of answers."""

    def __init__(self, key: bytes, value: bytes | None, failed: bool = False) -> None:
        self._key, self._value, self._failed = key, value, failed

    def error(self) -> bool | None:
        return self._failed or None

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value


WHOLE = answer(NAMES)
ID = "0" * 16


def read(value: bytes | None, key: bytes = ID.encode(), failed: bool = False) -> object:
    return answer_in(Record(key, value, failed), ID)  # type: ignore[arg-type]


def test_a_record_is_an_answer_only_as_a_whole_and_under_its_id() -> None:
    """A writer of the topic may write anything; none of it may end the reader."""
    assert read(encode_message(WHOLE)) == WHOLE
    assert read(encode_message(WHOLE), key=b"1" * 16) is None
    assert read(encode_message(WHOLE), failed=True) is None
    assert answer_in(None, ID) is None
    hostile = [
        replace(WHOLE, id="1" * 16),
        replace(WHOLE, scores=WHOLE.scores[1:]),
        replace(WHOLE, because=(5,) * 3, items=(5,), scores=(1.0,)),
        replace(WHOLE, items=(-1, *WHOLE.items[1:])),
        replace(WHOLE, items=(2**63, *WHOLE.items[1:])),
        replace(WHOLE, items=("x" * 129, *WHOLE.items[1:])),
        replace(WHOLE, because=("",)),
    ]
    for reply in hostile:
        assert read(encode_message(reply)) is None, reply
    for value in (None, b"", b"{}", b"\xff", b"[" * 50_000, b" " * 200_000):
        assert read(value) is None
