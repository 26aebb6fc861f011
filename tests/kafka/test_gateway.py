"""A gateway on a real Kafka: what it answers, what it writes, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import aiohttp
import pytest

from stream_app.broker.local import free_ports
from stream_app.gateway import event_writer
from stream_app.gateway.context import Gateway
from stream_app.settings import Settings
from stream_app.wire import decode
from tests.conftest import Kafka
from tests.fixtures.gateways import (
    DEVICE,
    JSON,
    PACKED,
    Running,
    body,
    exchange,
    messages,
    process,
    running,
    written,
)
from tests.fixtures.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.kafka


def runs(
    kafka: Kafka, topics: str, check: Callable[[Running], Awaitable[None]], **settings: Any
) -> None:
    async def run() -> None:
        async with running(kafka.bootstrap, topics, **settings) as at:
            await at.ready()
            await check(at)

    asyncio.run(run())


def test_an_event_is_written_once_and_its_repetition_has_the_same_place(kafka, topics):
    async def check(at: Running) -> None:
        status, first = await at.post(body())
        assert (status, first["duplicate"]) == (202, False)
        assert await at.post(body()) == (202, first | {"duplicate": True})
        status, other = await at.post(body(reports=[2]))
        assert (status, other["reason"]) == (409, "seq_reused")
        status, second = await at.post(body(seq=2))
        assert (status, second["offset"]) == (202, first["offset"] + 1)

    runs(kafka, topics, check)
    assert [row[1:] for row in written(kafka.connection, topics)] == [
        (DEVICE.encode(), body()),
        (DEVICE.encode(), body(seq=2)),
    ]


def test_a_tag_is_written_beside_its_event_and_shown_to_who_sends_other_bytes(kafka, topics):
    tag, value = bytes(range(16)), body()

    async def check(at: Running) -> None:
        tagged = JSON["Content-Type"] + f"; charset=utf-8; tag={tag.hex()}"
        assert (await at.post(value, {"Content-Type": tagged}))[0] == 202
        for junk in ("tag=", "tag=00", f"tag={tag.hex()}1", f"stag={tag.hex()}"):
            kind = {"Content-Type": f"{JSON['Content-Type']}; {junk}"}
            assert (await at.post(body(seq=2), kind))[0] == 202
        status, other = await at.post(body(reports=[2]), {"Content-Type": tagged})
        assert (status, other["held"]) == (409, sha256(value).hexdigest()[:32] + tag.hex())
        assert "held" not in (await at.post(body(seq=2, reports=[2])))[1]

    runs(kafka, topics, check)
    found = [each.headers() for each in messages(kafka.connection, topics)]
    assert found == [[("tag", tag)], None]


def test_equal_bytes_that_are_sent_at_once_are_written_once(kafka, topics):
    async def check(at: Running) -> None:
        both = [body(), body(reports=[2])]
        replies = await asyncio.gather(*(at.post(both[i % 5 == 4]) for i in range(20)))
        assert sorted(status for status, _ in replies) == [202] * 16 + [409] * 4
        places = [reply for status, reply in replies if status == 202]
        assert len({(place["partition"], place["offset"]) for place in places}) == 1
        assert [place["duplicate"] for place in places].count(False) == 1

    runs(kafka, topics, check)
    assert len(written(kafka.connection, topics)) == 1


def test_a_client_that_leaves_loses_nothing(kafka, topics, monkeypatch):
    monkeypatch.setitem(event_writer._QUEUE, "linger_ms", 300)

    async def check(at: Running) -> None:
        head = "POST /reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        _, stream = await asyncio.open_connection("127.0.0.1", at.port)
        stream.write(f"{head}Content-Length: {len(body())}\r\n\r\n".encode() + body())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"gateway_unconfirmed 1.0" not in (await at.get("/metrics"))[1]:
                pass
            stream.transport.abort()
            while b"gateway_confirm_seconds_count 1.0" not in (await at.get("/metrics"))[1]:
                pass

    runs(kafka, topics, check)
    assert [value for _, _, value in written(kafka.connection, topics)] == [body()]


def test_what_is_known_of_earlier_events_is_bounded(kafka, topics, monkeypatch):
    monkeypatch.setattr(event_writer.EventWriter.__init__, "__defaults__", (5,))

    async def check(at: Running) -> None:
        for seq in range(1, 9):
            await at.post(body(seq=seq))
        found = [(await at.post(body(seq=seq)))[1]["duplicate"] for seq in (8, 4, 1)]
        assert found == [True, True, False]

    runs(kafka, topics, check)


# --- nothing raw ------------------------------------------------------------------------------

EVENT = json.loads(body())
SECRET = 271828  # an item that stands in no accepted event
RAW = {
    "a rating": {"user": "ann-secret", "item": SECRET, "rating": 5},
    "a rating in stars": {"device": DEVICE, "item": SECRET, "stars": 4.5},
    "a list of ratings": [{"user": "ann-secret", "item": SECRET, "rating": 5}],
    "a table": {"columns": ["user", "item", "rating"], "rows": [["ann-secret", SECRET, 5]]},
    "a rating beside the report": EVENT | {"items": [SECRET], "rating": 5},
    "a level beside the report": EVENT | {"items": [SECRET], "levels": [4]},
    "a user beside the device": EVENT | {"items": [SECRET], "user": "ann-secret"},
    "a rating in an extension": EVENT | {"items": [SECRET], "x": {"rating": 5}},
    "half a star": EVENT | {"items": [SECRET], "reports": [3.5]},
    "pairs": EVENT | {"items": [[SECRET, 5]]},
    "a rating for a report": EVENT | {"items": [SECRET], "reports": [{"rating": 5}]},
    "no mechanism": {key: EVENT[key] for key in EVENT if key != "mechanism"} | {"items": [SECRET]},
    "no noise": EVENT | {"items": [SECRET], "mechanism": "rr:5:inf"},
    "a user for a device": EVENT | {"items": [SECRET], "device": "ann-secret"},
    "text": f"ann-secret,{SECRET},5",
}


def test_a_raw_rating_is_refused_and_is_nowhere(kafka, topics):
    async def send(address: str) -> str:
        async with aiohttp.ClientSession(address) as session:
            while (await session.get("/readyz")).status != 200:
                pass
            for name, value in RAW.items():
                for kind in (JSON, PACKED):
                    sent = json.dumps(value).encode()
                    async with session.post("/reports", data=sent, headers=kind) as reply:
                        text = await reply.text()
                        assert reply.status == 400, name
                        assert "ann-secret" not in text, name
                        assert str(SECRET) not in text, name
            port = int(address.rpartition(":")[2])
            await exchange(port, f"GET / HTTP/1.1\r\nann-secret {SECRET}: 5\r\n\r\n".encode())
            async with session.post("/reports", data=body(), headers=JSON) as reply:
                assert reply.status == 202
            async with session.get("/metrics") as reply:
                return await reply.text()

    with process(kafka.bootstrap, topics) as (gateway, address):
        metrics = asyncio.run(send(address))
        gateway.send_signal(signal.SIGTERM)
        _, log = gateway.communicate(timeout=PATIENCE_SECONDS)
    assert gateway.returncode == 0, log
    assert 'answer="malformed"} ' in metrics
    ((_, key, value),) = written(kafka.connection, topics)
    assert (key, value) == (DEVICE.encode(), body())
    for text in (metrics, log):
        assert "gateway" in text
        for word in ("ann-secret", str(SECRET), DEVICE, "1193", "127.0.0.1:5"):
            assert word not in text.replace(address, "").replace(kafka.bootstrap, ""), word


def test_all_that_is_written_is_an_event(kafka, topics, rng):
    values = [body(seq=seq) for seq in range(1, 30)]
    values += [bytes(rng.permuted(list(value))) for value in values]
    values += [value[: int(rng.integers(len(value)))] for value in values[:30]]
    values += [json.dumps(value).encode() for value in RAW.values()]

    async def check(at: Running) -> None:
        for place in rng.permutation(len(values)):
            await at.post(values[place])

    runs(kafka, topics, check, gateway_rate=0)
    settings = Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=topics)
    intake = Gateway.from_settings(settings).intake
    found = written(kafka.connection, topics)
    assert sorted(value for _, _, value in found) == sorted(values[:29])
    for partition, key, value in found:
        assert decode(key, value, partition, intake).key == key


# --- the process ------------------------------------------------------------------------------


def test_the_end_of_the_process_answers_what_was_sent(kafka, topics):
    async def send(gateway: subprocess.Popen, address: str) -> list[int]:
        async with aiohttp.ClientSession(address) as session:
            while (await session.get("/readyz")).status != 200:
                pass

            async def post(seq: int) -> int:
                async with session.post("/reports", data=body(seq=seq), headers=JSON) as reply:
                    if seq == 1:
                        gateway.send_signal(signal.SIGTERM)
                    return reply.status

            found = await asyncio.gather(*map(post, range(1, 51)), return_exceptions=True)
            return [status for status in found if isinstance(status, int)]

    with process(kafka.bootstrap, topics) as (gateway, address):
        statuses = asyncio.run(send(gateway, address))
        assert gateway.wait(PATIENCE_SECONDS) == 0
    assert set(statuses) <= {202, 503}
    assert len(written(kafka.connection, topics)) >= statuses.count(202) >= 1


def test_a_port_in_use_is_a_sentence(kafka, topics):
    with process(kafka.bootstrap, topics) as (_, address):
        port = address.rpartition(":")[2]
        with process(kafka.bootstrap, topics, "--port", port) as (second, nothing):
            _, log = second.communicate(timeout=PATIENCE_SECONDS)
    assert (nothing, second.returncode) == ("", 1)
    assert "give --port another number" in log
    assert "Traceback" not in log


@pytest.mark.thorough
def test_a_thousand_connections_that_send_nothing_stop_no_client(kafka, topics):
    async def check(address: str) -> None:
        port = int(address.rpartition(":")[2])
        idle = []
        for _ in range(1000):
            idle.append(await asyncio.open_connection("127.0.0.1", port))
        async with aiohttp.ClientSession(address) as session:
            for seq in range(1, 21):
                async with session.post("/reports", data=body(seq=seq), headers=JSON) as reply:
                    assert reply.status in (202, 503)
            async with session.get("/metrics") as reply:
                text = await reply.text()
        (row,) = [line for line in text.splitlines() if line.startswith("murmurec_gateway_conn")]
        assert float(row.split()[1]) <= 600
        for _, stream in idle:
            stream.transport.abort()

    with process(kafka.bootstrap, topics, "--rate", "0") as (_, address), many_files():
        asyncio.run(check(address))


@contextmanager
def many_files() -> Iterator[None]:
    """Allow this process 1,000 sockets and more; that of the gateway has what it had."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2048 if hard == resource.RLIM_INFINITY else min(2048, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_kafka_that_is_away_from_the_start_is_named(prefix):
    async def check() -> None:
        async with running(f"127.0.0.1:{free_ports(1)[0]}", prefix) as at:
            status, text, _ = await at.get("/readyz")
            assert (status, json.loads(text)["waiting_for"]) == (503, "Kafka")
            assert (await at.get("/livez"))[0] == 200
            status, reply = await at.post(body())
            assert (status, reply["reason"]) == (503, "kafka")
            assert "the same bytes" in reply["error"]

    asyncio.run(check())


def test_a_topic_with_other_partitions_is_named(kafka, topics):
    async def check() -> None:
        async with running(kafka.bootstrap, topics, partitions=5) as at:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while "with 5 partitions" not in (await at.get("/readyz"))[1].decode():
                    pass
            assert (await at.post(body()))[0] == 503

    asyncio.run(check())
