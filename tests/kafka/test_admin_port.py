"""The admin port of a real worker: slow connections, foreign names, and a token."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stream_app.cli import run
from stream_app.errors import UserError
from stream_app.operations.watching.workers import ask, page
from stream_app.settings import Settings
from tests.kafka.conftest import Start

pytestmark = pytest.mark.kafka
TOKEN = "as-secret-as-a-test-can-be"
_SLOW = 900
_MOST = 3 * 128  # of `Limits`
_ACCEPTED = 2 * 128  # at once, before the oldest are closed


@pytest.mark.thorough
def test_slow_connections_take_neither_descriptors_nor_the_probes(start: Start) -> None:
    worker = start()
    address = urlsplit(worker.url)
    descriptors = Path(f"/proc/{worker.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    with ExitStack() as stack:
        for _ in range(_SLOW):
            slow = socket.create_connection((address.hostname, address.port))
            stack.callback(slow.close)
            slow.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
            assert len(list(descriptors.iterdir())) <= before + _MOST + _ACCEPTED
        assert worker.get("/livez") == b'{"alive":true}'
        worker.wait_until_ready()


def test_a_worker_with_a_token_shows_it_nowhere_and_answers_those_that_have_it(
    start: Start,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MURMUREC_ADMIN_TOKEN", TOKEN)
    worker = start()  # /readyz takes none
    assert b"admin_token" in worker.get("/metrics")
    with pytest.raises(UserError, match=r"send the header Authorization: Bearer .* admin_token"):
        ask(worker.url)
    with pytest.raises(UserError, match="admin_token"):
        ask(worker.url, TOKEN + "x")
    assert ask(worker.url, TOKEN).positions == (0, 0, 0, 0)
    assert b"murmurec_ready" in page(worker.url, "/metrics", TOKEN, 10)
    where = ["--bootstrap", settings.servers, "--prefix", settings.topic_prefix]
    assert run(["state", "verify", "--worker", worker.url, *where]) == 0
    monkeypatch.setenv("MURMUREC_ADMIN_TOKEN", TOKEN + "x")
    assert run(["state", "verify", "--worker", worker.url, *where]) == 1
    captured = capsys.readouterr()
    assert "admin_token" in captured.err
    assert TOKEN not in worker.log.read_text() + captured.out + captured.err
