"""The local broker: it starts, it minds a taken port, and it never outlives its owner."""

from __future__ import annotations

import base64
import os
import select
import signal
import socket
import subprocess
import sys

import pytest

from stream_app.broker import local
from stream_app.errors import UserError
from stream_app.kafka import clients
from tests.conftest import cache_dir
from tests.fixtures.waiting import PATIENCE_SECONDS


def ends(pidfd, seconds=PATIENCE_SECONDS):
    """Return whether the process behind a pidfd ends within so many seconds."""
    return bool(select.select([pidfd], [], [], seconds)[0])


def test_a_single_node_has_no_static_voters_and_creates_no_topics(tmp_path):
    lines = local.properties(1, 2, tmp_path, {"log.retention.ms": "5"})
    assert "controller.quorum.voters" not in lines
    assert lines["auto.create.topics.enable"] == "false"
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert lines["log.retention.ms"] == "5"


def test_a_cluster_id_is_a_uuid_in_22_characters_and_never_looks_like_an_option():
    # One UUID in 64 would begin with a dash; 2,000 without one have probability 2e-14.
    made = {local.cluster_id() for _ in range(2000)}
    assert len(made) == 2000
    assert all(len(base64.urlsafe_b64decode(each + "==")) == 16 for each in made)
    assert not any(each.startswith("-") for each in made)


def test_free_ports_are_all_different_and_can_be_listened_on():
    ports = local.free_ports(8)
    assert len(set(ports)) == 8
    assert all(local.is_free(port) for port in ports)


def test_a_port_in_use_is_refused_before_anything_starts(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not local.is_free(port)
        with (
            pytest.raises(UserError, match=f"port {port} is in use: choose another with --port"),
            local.run(tmp_path / "home", cache_dir(), port),
        ):
            pass


@pytest.mark.kafka
def test_the_broker_answers_in_the_block_and_is_gone_with_its_files_after_it():
    with local.run(None, cache_dir()) as broker:
        assert clients.describe_cluster(broker.connection).brokers
        pidfd, home = os.pidfd_open(broker.pid), broker.log.parent
        assert home.is_dir()
    assert ends(pidfd, 0)
    assert not home.exists()
    os.close(pidfd)


@pytest.mark.thorough
@pytest.mark.kafka
@pytest.mark.nightly
def test_another_port_is_tried_when_one_was_taken_in_between(tmp_path, monkeypatch):
    real, asked = local.free_ports, []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def first_a_taken_one(count):
            asked.append(count)
            return [server.getsockname()[1], *real(1)] if len(asked) == 1 else real(count)

        monkeypatch.setattr(local, "free_ports", first_a_taken_one)
        with local.run(tmp_path, cache_dir()) as broker:
            assert clients.describe_cluster(broker.connection).brokers
    assert len(asked) == 2


@pytest.mark.kafka
def test_a_broker_that_ends_while_starting_is_one_sentence_with_its_reason(tmp_path):
    with (
        pytest.raises(UserError, match=r"num\.io\.threads") as refused,
        local.run(tmp_path, cache_dir(), overrides={"num.io.threads": "0"}),
    ):
        pass
    assert "\n" not in str(refused.value)


@pytest.mark.thorough
@pytest.mark.kafka
def test_a_broker_does_not_outlive_an_owner_that_is_killed(tmp_path):
    own = (
        "import pathlib, sys; from stream_app.broker import local\n"
        "with local.run(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])) as broker:\n"
        "    print(broker.pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", own, str(tmp_path), str(cache_dir())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        pidfd = os.pidfd_open(int(owner.stdout.readline()))
        assert not ends(pidfd, 0)
        owner.send_signal(signal.SIGKILL)
        assert ends(pidfd)
        os.close(pidfd)
