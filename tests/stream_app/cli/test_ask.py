"""`murmurec ask --rated`: what the server cannot know to be rated is left out here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from stream_app.cli import run
from stream_app.wire import key

DEVICE = "0" * 32


class View(BaseHTTPRequestHandler):
    """A query view that recommends 1, 2, 3, ... and two words, and remembers what was asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        count = int(self.path.rpartition("k=")[2])
        names = ["tt01", f"key:{key('tt02'):016x}", *range(1, 99)][:count]
        rows = [{"item": name, "score": 5 - 0.01 * i} for i, name in enumerate(names)]
        page = {"user": DEVICE, "items": rows, "method": "exact", "as_of": 1, "privacy": "local"}
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def view(environment: Callable[..., None]) -> Iterator[HTTPServer]:
    View.asked = []
    with HTTPServer(("127.0.0.1", 0), View) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def ask(view: HTTPServer, *arguments: str) -> list[str]:
    url = f"http://127.0.0.1:{view.server_address[1]}"
    return ["ask", "--device", DEVICE, "--http", "--url", url, "--json", *arguments]


def test_what_was_rated_is_left_out_of_the_longest_list(
    view: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rated.txt").write_text("1\n3\ntt01\ntt02\n")
    assert run(ask(view, "-k", "4", "--rated", "rated.txt")) == 0
    assert [row["item"] for row in json.loads(capsys.readouterr().out)["items"]] == [2, 4, 5, 6]
    assert run(ask(view, "-k", "3")) == 0
    assert json.loads(capsys.readouterr().out)["items"][0]["item"] == "tt01"
    # The server learns neither what was rated nor how many are wanted.
    assert View.asked == [f"/recommendations/{DEVICE}?k=100", f"/recommendations/{DEVICE}?k=3"]


def test_a_file_without_an_item_asks_for_as_much_as_any_other(view: HTTPServer) -> None:
    for content in ("", "item,rating\n", "1\n"):
        Path("rated.txt").write_text(content)
        assert run(ask(view, "-k", "4", "--rated", "rated.txt")) == 0
    assert View.asked == [f"/recommendations/{DEVICE}?k=100"] * 3


def test_ratings_and_times_may_stand_after_the_items(
    view: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rated.csv").write_text("item,rating,time\n1,5,100\n3,2,200\ntt01,4,300\ntt02,1,400\n")
    assert run(ask(view, "-k", "4", "--rated", "rated.csv")) == 0
    assert [row["item"] for row in json.loads(capsys.readouterr().out)["items"]] == [2, 4, 5, 6]


def test_a_list_of_what_was_rated_that_cannot_be_read_is_one_sentence(
    view: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.txt").write_bytes(b"1\n" + b"x" * 200 + b"\n")
    for file, expected in {
        "nowhere": "cannot be read", ".": "cannot be read", "bad.txt": "line 2: item of 200 bytes",
    }.items():  # fmt: skip
        assert run(ask(view, "--rated", file)) == 1
        captured = capsys.readouterr()
        assert expected in captured.err
        assert captured.out == ""
    assert View.asked == []


def test_an_answer_of_which_all_was_rated_is_explained(
    view: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rated.txt").write_text("\n".join(["tt01", "tt02", *map(str, range(1, 99))]))
    asked = [part for part in ask(view, "--rated", "rated.txt") if part != "--json"]
    assert run(asked) == 0
    out = capsys.readouterr().out
    assert "all 100 items of the answer are in the file of --rated" in out
    assert "nothing to recommend yet" not in out
