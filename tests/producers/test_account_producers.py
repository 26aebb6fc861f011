"""Each account has a client of its own, a bounded number are open, and no record is lost for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st

from producers.publishing import AccountProducers, Publisher
from stream_app.cli.device import publishers
from stream_app.errors import UserError
from stream_app.settings import Settings
from tests.producers.test_publishing import Queue


def pool(most: int, made: list[Queue], room: int = 10) -> AccountProducers:
    """Return a pool of queues, each of which is added to `made`."""

    def make() -> Queue:
        made.append(Queue(room=room))
        return made[-1]

    return AccountProducers(make, most)


@trials(deadline=None)
@given(
    keys=st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), max_size=60),
    most=st.integers(1, 4),
    room=st.integers(1, 3),
)
def test_every_record_lands_once_in_order_through_a_client_of_its_account(
    keys: list[bytes], most: int, room: int
) -> None:
    made: list[Queue] = []
    clients = pool(most, made, room)
    with Publisher(clients, "t") as line:
        for number, key in enumerate(keys):
            line.send(key, b"%d" % number)
            assert len(clients) <= most
    assert (line.accepted, line.failed) == (len(keys), 0)
    for client in made:
        assert len({key for key, _ in client.landed}) == 1, "accounts share no client"
    for account in set(keys):
        sent = [int(value) for client in made for key, value in client.landed if key == account]
        assert sent == [number for number, key in enumerate(keys) if key == account]


def test_an_account_keeps_its_client_while_there_is_room() -> None:
    made: list[Queue] = []
    with Publisher(pool(2, made), "t") as line:
        for key in (b"a", b"b", b"a", b"b", b"a"):
            line.send(key, b"v")
    assert [len(client.landed) for client in made] == [3, 2]


def test_a_client_with_open_records_is_not_closed() -> None:
    made: list[Queue] = []
    clients = pool(1, made)
    clients.produce("t", key=b"a", value=b"1", on_delivery=lambda *_: None)
    made[0].answers = False
    with pytest.raises(BufferError, match="not confirmed"):
        clients.produce("t", key=b"b", value=b"2", on_delivery=lambda *_: None)
    made[0].answers = True
    clients.produce("t", key=b"b", value=b"2", on_delivery=lambda *_: None)
    assert made[0].landed == [(b"a", b"1")]


def test_a_broker_that_confirms_nothing_is_one_sentence() -> None:
    made: list[Queue] = []
    times = iter(range(100))
    line = Publisher(pool(1, made), "t", patience_seconds=5, clock=lambda: float(next(times)))
    line.send(b"a", b"1")
    made[0].answers = False
    with pytest.raises(UserError, match="confirmed nothing for 5 seconds"):
        line.send(b"b", b"2")


def test_at_least_one_client() -> None:
    with pytest.raises(ValueError, match="most 0: at least 1"):
        pool(0, [])


def test_the_option_decides_whether_accounts_share_a_producer() -> None:
    """No broker is asked: clients connect when they send."""
    settings = Settings(bootstrap_servers="127.0.0.1:1")
    shared = publishers._publisher(settings, "t").producer
    assert not isinstance(shared, AccountProducers)
    own = publishers._publisher(settings, "t", per_account=True).producer
    assert isinstance(own, AccountProducers)
    assert own.make() is not own.make()
