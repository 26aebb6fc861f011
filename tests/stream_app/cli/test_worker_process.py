"""A wait for a worker that ends without it says what the worker said last."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from stream_app.cli.demo import demo_processes as demo
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.errors import UserError

Pages = dict[str, list[object]]
OPEN = {"error": "a round has stayed open"}
WAITS = {"ready": False, "waiting_for": "replaying the log: 3 of 9 records applied"}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[Pages], WorkerProcess]]:
    """Give a function that makes a worker with these pages: each answer once, the last always."""
    with ExitStack() as stack:

        def made(pages: Pages) -> WorkerProcess:
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    answers = pages[self.path]
                    body = json.dumps(answers.pop(0) if len(answers) > 1 else answers[0]).encode()
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_: object) -> None:
                    return

            server = stack.enter_context(HTTPServer(("127.0.0.1", 0), Handler))
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdin is not None
            stack.callback(process.stdin.close)
            log = tmp_path / "worker.log"
            log.write_text("a\nb\nthe last line\n")
            return WorkerProcess(process, f"http://127.0.0.1:{server.server_port}", log)

        yield made


def test_a_worker_that_is_not_ready_says_what_it_waits_for(
    worker: Callable[[Pages], WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_READY_SECONDS", 0.1)
    with pytest.raises(UserError, match=r"replaying the log: 3 of 9.*log .* ends: .*the last line"):
        worker({"/readyz": [WAITS]}).wait_until_ready()


def test_a_worker_that_does_not_apply_all_says_how_far_it_came(
    worker: Callable[[Pages], WorkerProcess],
) -> None:
    behind = {"cut": 4, "positions": [3, 0]}
    with pytest.raises(
        UserError, match=r"read up to \[3, 0\] of \[5, 4\]; it waits for replaying.*the last line"
    ):
        worker({"/state": [behind], "/readyz": [WAITS]}).wait_for([5, 4], 0.1)


def test_a_worker_whose_round_stays_open_says_so(
    worker: Callable[[Pages], WorkerProcess],
) -> None:
    with pytest.raises(UserError, match="a round has stayed open"):
        worker({"/state": [OPEN], "/readyz": [WAITS]}).wait_for([5], 0.1)
    with pytest.raises(OSError, match="a round has stayed open"):
        worker({"/state": [OPEN]}).state(patience_seconds=0.0)


def test_a_state_is_asked_for_until_the_round_is_closed(
    worker: Callable[[Pages], WorkerProcess],
) -> None:
    whole = {"cut": 5, "positions": [5]}
    assert worker({"/state": [OPEN, whole]}).state() == whole
    assert worker({"/state": [OPEN, whole]}).wait_for([5]) == whole
