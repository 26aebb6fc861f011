"""`murmurec top`: one frame into a pipe, and a view on a terminal until the user ends it."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys

import pytest
from rich.console import Console

from stream_app.broker.local import free_ports
from stream_app.cli import run
from stream_app.cli.reader.top import drawn
from stream_app.monitoring.live_frame import Frame, WorkerRow
from tests.fixtures.waiting import PATIENCE_SECONDS

FRAME = Frame(
    "12 records; 0 wait for a cut",
    (WorkerRow("http://[::1]:1", "not ready: replaying [bold]", cut=7, clock=True),),
    {"malformed": 1_200}, 0.91, None, 0.16, 0.06, {"error": 0.5}, ("MurmurecWorkerNotReady",),
)  # fmt: skip


@pytest.fixture(autouse=True)
def without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MURMUREC_BOOTSTRAP_SERVERS", raising=False)


def test_a_worker_that_is_away_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    assert run(["top", "--json", "--worker", nowhere]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["workers"][0]["state"] == "no answer"
    assert found["broker"] == "no Kafka is configured"
    assert found["alerts"] == ["MurmurecWorkerDown"]


def test_a_wrong_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--worker", "localhost:8470"]) == 2
    assert "http://127.0.0.1:8470" in capsys.readouterr().err


def test_a_frame_is_drawn_with_everything_in_it_and_no_markup() -> None:
    shown = Console(markup=False, highlight=False, width=160, file=io.StringIO())
    with shown.capture() as captured:
        shown.print(drawn(FRAME))
    text = captured.get()
    for word in ("http://[::1]:1 (clock)", "[bold]", "1,200 malformed", ".910", "error 0.50"):
        assert word in text
    assert "alerts    MurmurecWorkerNotReady" in text


@pytest.mark.thorough
def test_a_terminal_shows_frames_until_it_is_interrupted() -> None:
    leader, follower = pty.openpty()
    nowhere = f"http://127.0.0.1:{free_ports(1)[0]}"
    program = "from stream_app.cli import main; main()"
    with subprocess.Popen(
        # The signal may be ignored where the tests run in the background.
        ["env", "--default-signal=INT", sys.executable, "-c", program, "top", "--worker", nowhere],
        stdin=follower, stdout=follower, stderr=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "150"},
    ) as process:  # fmt: skip
        try:
            shown = b""
            while b"MurmurecWorkerDown" not in shown:
                shown += os.read(leader, 4096)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    os.close(leader)
    os.close(follower)
    assert (process.returncode, errors) == (0, b"")
