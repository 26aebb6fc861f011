"""The broker in the background: found again, not confused with other processes, its log kept."""

from __future__ import annotations

import json
import os
import select

import pytest
from confluent_kafka import TopicPartition

from stream_app.broker.detached import log_file, start_detached, started_at, status, stop
from stream_app.broker.local import free_ports
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import create
from stream_app.wire import Topics
from tests.conftest import cache_dir


@pytest.fixture
def home(tmp_path):
    """Give a data folder whose broker, if there is one, is stopped afterwards."""
    yield tmp_path
    stop(tmp_path)


def write_state(home, **fields):
    (home / "broker").mkdir(exist_ok=True)
    (home / "broker" / "state.json").write_text(json.dumps(fields))


def test_where_none_was_started_none_runs(tmp_path):
    assert status(tmp_path) is None
    assert stop(tmp_path) is False
    with pytest.raises(UserError, match="murmurec broker start"):
        log_file(tmp_path)


def test_a_process_that_got_the_broker_s_old_number_is_neither_shown_nor_stopped(tmp_path):
    write_state(tmp_path, pid=os.getpid(), started="1", bootstrap="127.0.0.1:1", log="x")
    assert status(tmp_path) is None
    assert stop(tmp_path) is False
    write_state(
        tmp_path, pid=os.getpid(), started=started_at(os.getpid()), bootstrap="a:1", log="x"
    )
    assert status(tmp_path).pid == os.getpid()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1}'])
def test_a_state_file_that_is_not_one_counts_as_none(tmp_path, text):
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "state.json").write_text(text)
    assert status(tmp_path) is None


def test_a_data_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written .*MURMUREC_DATA_DIR"):
        start_detached(tmp_path / "file", cache_dir())


@pytest.mark.thorough
@pytest.mark.kafka
@pytest.mark.nightly
def test_what_was_published_survives_a_stop_and_a_start(home, prefix):
    (port,) = free_ports(1)
    first = start_detached(home, cache_dir(), port)
    assert start_detached(home, cache_dir()) == first == status(home)
    with pytest.raises(UserError, match=rf"already runs at 127\.0\.0\.1:{port}, not on port 1:"):
        start_detached(home, cache_dir(), 1)
    cuts = Topics(prefix).cuts
    create(clients.admin(first.connection), Topics(prefix).table()[1:2])
    producer = clients.producer(first.connection)
    producer.produce(cuts, b"kept", partition=0)
    assert producer.flush(10) == 0
    pidfd = os.pidfd_open(first.pid)
    assert stop(home) is True
    assert select.select([pidfd], [], [], 0)[0]
    os.close(pidfd)
    assert status(home) is None

    second = start_detached(home, cache_dir())
    assert second.bootstrap == first.bootstrap
    consumer = clients.consumer(second.connection)
    consumer.assign([TopicPartition(cuts, 0, 0)])
    assert consumer.poll(15).value() == b"kept"
    consumer.close()
    assert log_file(home).read_text(errors="replace")
