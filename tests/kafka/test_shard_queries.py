"""Two shards that share the topic of queries: each query is answered once, by its user's shard."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stream_app.agents.queries.answers import Answers
from stream_app.agents.queries.reader import QueryReader
from stream_app.agents.runtime import Runtime, new_runtime
from stream_app.deployment import spec_from_settings
from stream_app.kafka import broker_answers, clients
from stream_app.settings import Settings
from stream_app.wire import Query, Topics, encode_message
from stream_app.wire.ids import partition_of
from tests.conftest import Kafka
from tests.fixtures.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.kafka
PARTITIONS = 4
USERS = [f"{number:032x}" for number in range(30)]
QUERIES = [*USERS, *[None] * PARTITIONS]  # in turn on each partition


def outcomes(runtime: Runtime) -> dict[str, int]:
    """Return how many queries of a worker had each outcome, of those that had any."""
    families = text_string_to_metric_families(runtime.metrics.exposition().decode())
    (found,) = (each.samples for each in families if each.name == "murmurec_queries")
    return {each.labels["outcome"]: int(each.value) for each in found if each.value}


async def reader(kafka: Kafka, topics: str, settings: Settings, shard: int) -> QueryReader:
    """Start a reader of one of two shards; it is ready."""
    spec = replace(spec_from_settings(settings), shards=2, shard=shard)
    runtime = new_runtime(settings, spec)
    runtime.status.start_end_offsets = (0,) * PARTITIONS
    runtime.catalogue.read = True
    answers = Answers(runtime, clients.producer(kafka.connection, linger_ms=0))
    group = f"{topics}-shard-{shard}"
    made = QueryReader(runtime, kafka.connection, group, answers, 6.0)
    await made.on_start()
    await asyncio.to_thread(until, lambda: not runtime.status.queries, "the reader is a member")
    return made


def ask_and_read(kafka: Kafka, topics: str) -> Counter[bytes | str | None]:
    """Ask every query as an older client does; return how many replies each had."""
    names, found = Topics(topics), Counter[bytes | str | None]()
    consumer = clients.consumer(kafka.connection)
    consumer.assign(broker_answers.ends(consumer, names.recommendations))
    producer = clients.producer(kafka.connection, linger_ms=0)
    deadline = int((time.time() + PATIENCE_SECONDS) * 1000)
    for number, user in enumerate(QUERIES):
        query = Query(f"{number:016x}", user, 3, deadline)
        place, value = number % PARTITIONS, encode_message(query)
        producer.produce(names.queries, key=query.id, value=value, partition=place)
    assert producer.flush(PATIENCE_SECONDS) == 0

    def read() -> bool:
        found.update(message.key() for message in consumer.consume(100, 0.2))
        return len(found) == len(QUERIES)

    until(read, "a reply to every query")
    read()
    consumer.close()
    return found


def test_a_query_at_another_shard_is_answered_once_by_the_shard_of_its_user(
    kafka: Kafka, topics: str, settings: Settings
) -> None:
    async def main() -> list[dict[str, int]]:
        readers = [await reader(kafka, topics, settings, shard) for shard in (0, 1)]
        replies = await asyncio.to_thread(ask_and_read, kafka, topics)
        assert set(replies.values()) == {1}
        for each in readers:
            await each.on_stop()
        return [outcomes(each._runtime) for each in readers]

    owners = [partition_of(user.encode(), 2) for user in USERS]
    away = Counter(1 - owner for number, owner in enumerate(owners) if number % 2 != owner)
    nobody = PARTITIONS // 2  # about no user: refused where they were written
    assert asyncio.run(main()) == [
        {"answered": owners.count(shard), "forwarded": away[shard], "refused": nobody}
        for shard in (0, 1)
    ]
