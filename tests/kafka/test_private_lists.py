"""Private lists on a real broker: two workers, one budget, which outlives them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from consumers.recommendations import Recommendations
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_follower
from stream_app.wire import CatalogueEntry, Query, Topics, decode_message, encode_message
from stream_app.wire.messages import MILLION, ListDebit
from tests.conftest import Kafka
from tests.fixtures import forks
from tests.fixtures.attacked import log_ends
from tests.fixtures.clusters import device_of, half_of, liked
from tests.fixtures.gateway_beside import served
from tests.fixtures.given_worker import GivenWorker, given_worker
from tests.fixtures.streams import publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import SOON, Send, Start, ends_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def session_seconds() -> float:
    return SOON


ITEMS = 40


def with_lists(monkeypatch: pytest.MonkeyPatch, budget: int = 2) -> None:
    """Configure private lists over a public scope."""
    scope = Path("scope.txt").absolute()
    scope.write_text("".join(f"{item}\n" for item in range(ITEMS)))
    for name, value in {
        "LIST_BUDGET": str(budget), "CO_RATINGS": "true", "TUNING_HEAD_ITEMS": "64",
        "LIST_SCOPE": str(scope),
    }.items():  # fmt: skip
        monkeypatch.setenv(f"MURMUREC_{name}", value)


@pytest.fixture
def ask(kafka: Kafka, topics: str) -> Iterator[GivenWorker]:
    """Give what asks one worker over Kafka."""
    with given_worker(kafka.connection, topics) as asker:
        yield asker


def refusal(ask: GivenWorker, worker: WorkerProcess, user: str, k: int, epsilon: str) -> str:
    """Return the reason for which this worker refuses a private list; empty where it does not."""
    return ask.ask(worker, user, k, private=Fraction(epsilon)).reason or ""


def with_catalogue(ask: GivenWorker, worker: WorkerProcess) -> WorkerProcess:
    """Return a worker when it has read the catalogue; a refused query costs nothing."""
    until(
        lambda: f"has {ITEMS} items" in refusal(ask, worker, "0" * 32, 100, "1/2"), "the catalogue"
    )
    return worker


def test_a_budget_is_one_over_workers_and_restarts(
    start: Start,
    send: Send,
    ask: GivenWorker,
    kafka: Kafka,
    topics: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_lists(monkeypatch)
    names, user = Topics(topics), device_of(0).hex()
    producer = clients.producer(kafka.connection)
    for item in range(ITEMS):
        entry = encode_message(CatalogueEntry(item))
        producer.produce(names.items, key=str(item).encode(), value=entry)
    assert producer.flush(PATIENCE_SECONDS) == 0
    records = [publish(liked(number, half_of(number)[:6], 1)) for number in range(20)]
    send(records)
    workers = [with_catalogue(ask, start())]
    workers[0].wait_for(ends_of(records))
    with Recommendations(kafka.bootstrap, topics) as reader:
        first = reader.best(user, 5, 20, excluded={0}, private=Fraction(1, 2))
        assert first.guarantee is not None
        assert first.guarantee.epsilon == "1/2"
        assert len(first.items) + first.left_out == 5
        assert list(first.items) == sorted(first.items)
        with pytest.raises(UserError, match=r"give 0\.002 to 2"):
            reader.best(user, 5, 20, private=Fraction(3))
    workers.append(with_catalogue(ask, start()))
    # Each worker is asked by itself: both see what the other's lists have cost.
    for worker in workers:
        reply = ask.ask(worker, user, 5, private=Fraction(1, 2))
        assert reply.guarantee is not None, reply
        assert reply.guarantee.method == reply.method == "exact-k-subset"
        assert [item is None for item in reply.items] == [False] * 5 + [True] * 95
        assert set(reply.scores) == {None}
    for worker in workers:
        until(lambda w=worker: "spent" in refusal(ask, w, user, 5, "1"), "the other's debits")
        refused = refusal(ask, worker, user, 5, "1")
        assert "spent epsilon 1.5 of 2: too little is left for 1" in refused
    for worker in workers:
        worker.process.kill()
        worker.process.wait(PATIENCE_SECONDS)
    again = with_catalogue(ask, start())
    again.wait_for(ends_of(records))
    until(lambda: "spent epsilon 1.5" in refusal(ask, again, user, 5, "1"), "the log, read again")
    command = ["ask", "--device", user, "-k", "5"]
    with served(kafka.bootstrap, topics) as gateway:
        command += ["--http", "--url", gateway.url, "--private-list", "0.5"]
        made = forks.run(command)
        late = forks.run(command)
    assert "drawn by exact-k-subset with epsilon 1/2, in no order" in made.stdout
    assert "hides one report of the asker" in made.stdout
    assert late.returncode != 0
    assert "spent epsilon 2 of 2" in late.stderr
    debits = [
        decode_message(ListDebit, message.value())
        for message in topic_follower.records(kafka.connection, names.list_debits)
    ]
    # A worker that had not read the other's debit yet writes one that does not count.
    assert [debit.epsilon for debit in debits if debit.epsilon != MILLION] == [MILLION // 2] * 4
    assert {debit.user for debit in debits} == {user}


def answered(kafka: Kafka, names: Topics) -> int:
    """Return the number of replies."""
    return sum(log_ends(kafka.connection, names.recommendations))


def test_a_query_that_comes_twice_is_drawn_once(
    start: Start,
    send: Send,
    ask: GivenWorker,
    kafka: Kafka,
    topics: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_lists(monkeypatch)
    names = Topics(topics)
    producer = clients.producer(kafka.connection)
    for item in range(ITEMS):
        entry = encode_message(CatalogueEntry(item))
        producer.produce(names.items, key=str(item).encode(), value=entry)
    assert producer.flush(PATIENCE_SECONDS) == 0
    records = [publish(liked(0, half_of(0)[:6], 1))]
    send(records)
    worker = with_catalogue(ask, start())
    worker.wait_for(ends_of(records))
    query = Query("a" * 16, device_of(0).hex(), 5, 2**50, private=Fraction(1, 2))
    # At once, while the debit is under way, and after it counts: the log of debits does not grow.
    others = answered(kafka, names)
    for replies in (100, 200):
        for _ in range(100):
            producer.produce(names.queries, key=query.id.encode(), value=encode_message(query))
        assert producer.flush(PATIENCE_SECONDS) == 0
        until(lambda r=replies: answered(kafka, names) - others == r, f"{replies} replies")
    assert worker.metrics()["private_lists_total"] == 1
    with Recommendations(kafka.bootstrap, topics) as reader:
        reader.best(device_of(0).hex(), 5, 20, private=Fraction(1, 2))
    assert worker.metrics()["private_lists_total"] == 2
    assert worker.metrics()["private_list_epsilon_total"] == 1.0
    assert len(list(topic_follower.records(kafka.connection, names.list_debits))) == 2


def test_a_log_of_debits_without_its_beginning_ends_the_worker(
    start: Start, kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was spent is not known then, and a guess would be a new budget."""
    with_lists(monkeypatch)
    topic, producer = Topics(topics).list_debits, clients.producer(kafka.connection)
    producer.produce(topic, key=b"0" * 32, value=b"{}")
    assert producer.flush(PATIENCE_SECONDS) == 0
    admin = clients.admin(kafka.connection)  # kept: the request ends with its client
    for future in admin.delete_records([TopicPartition(topic, 0, 1)]).values():
        future.result(PATIENCE_SECONDS)
    worker = start(ready=False)
    assert worker.process.wait(PATIENCE_SECONDS) == 1
    assert f"{topic} begins at offset 1: its first debits are gone" in worker.log.read_text()
