"""`murmurec ask`: what the server cannot know to be rated is left out here, options, reasons."""

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
    """A gateway that recommends 1, 2, 3, ... and two words, and remembers what was asked."""

    asked: list[str]
    tokens: list[str | None]
    fields: dict[str, Any]
    refusal: tuple[int, str] | None

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.tokens.append(self.headers["Authorization"])
        if self.refusal is not None:
            self._refuse(*self.refusal)
            return
        count = int(self.path.rpartition("k=")[2])
        names = ["tt01", {"key": f"{key('tt02'):016x}"}, *range(1, 99)][:count]
        rows = [{"item": name, "score": 5 - 0.01 * i} for i, name in enumerate(names)]
        user = None if self.path.startswith("/similar") else DEVICE
        page = {"user": user, "items": rows, "method": "exact", "as_of": 1, "privacy": "local"}
        for row, cause, title in zip(rows, (7, "tt09"), ("Seven (1995)", ""), strict=False):
            row |= {"because": cause, "because_title": title}
        self._send(200, page | self.fields)

    def _refuse(self, code: int, sentence: str) -> None:
        self._send(code, {"error": sentence})

    def _send(self, code: int, page: dict[str, Any]) -> None:
        body = json.dumps(page).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def view(environment: Callable[..., None]) -> Iterator[HTTPServer]:
    View.asked, View.tokens, View.fields, View.refusal = [], [], {}, None
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


def similar(view: HTTPServer, item: str, *arguments: str) -> list[str]:
    url = f"http://127.0.0.1:{view.server_address[1]}"
    return ["ask", "--similar-to", item, "--http", "--url", url, *arguments]


def test_items_near_to_one_are_asked_for_without_a_user(
    view: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(similar(view, "1193", "-k", "3")) == 0
    out = capsys.readouterr().out
    assert "1  5.00  tt01" in out
    assert "predicted ratings of the average user" in out
    assert "nDCG" not in out
    assert run(similar(view, "a b/ä&k=1", "-k", "3", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["user"] is None
    assert View.asked == ["/similar?item=1193&k=3", "/similar?item=a%20b%2F%C3%A4%26k%3D1&k=3"]


def test_an_entry_names_the_rated_item_behind_it(
    view: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [part for part in ask(view, "-k", "3") if part != "--json"]
    assert run(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].strip() == "because you rated Seven (1995)"
    assert lines[3].strip() == "because you rated tt09"
    assert "because" not in lines[4] + lines[5]


def test_a_list_for_this_visit_is_asked_for_and_named(
    view: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for visit, words in (("next", "the next visit"), ("now", "this visit")):
        View.fields = {"for": visit}
        asked = [part for part in ask(view, "-k", "3", "--for", visit) if part != "--json"]
        assert run(asked) == 0
        assert f"by exact, for {words}, nDCG@10 not measured yet" in capsys.readouterr().out
    assert View.asked == [f"/recommendations/{DEVICE}?{given}k=3" for given in ("", "for=now&")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--for", "later"], "'later' is not one of 'next', 'now'"),
        (["--for", "now", "--similar-to", "5"], "give at most one of --similar-to and --for"),
    ],
)
def test_a_visit_that_makes_no_sense_is_one_sentence(
    view: HTTPServer,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    assert run(ask(view, *arguments)) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.out == ""
    assert View.asked == []


def test_a_refusal_is_the_workers_sentence(
    view: HTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for code in (400, 409, 503):
        View.refusal = (code, "similar_to: the item is withdrawn")
        assert run(similar(view, "5")) == 1
        assert "similar_to: the item is withdrawn" in capsys.readouterr().err


def test_the_gateway_of_the_settings_is_asked_and_sent_no_token(
    view: HTTPServer, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(view.server_address[1])
    environment(MURMUREC_GATEWAY_PORT=port, MURMUREC_ADMIN_TOKEN="as-secret-as-can-be-here")
    assert run(["ask", "--device", DEVICE, "--http", "-k", "3"]) == 0
    assert View.asked == [f"/recommendations/{DEVICE}?k=3"]
    assert View.tokens == [None]
    view.shutdown()
    view.server_close()
    assert run(["ask", "--device", DEVICE, "--http"]) == 1
    sentence = " ".join(capsys.readouterr().err.split())
    assert f"no gateway answered at http://127.0.0.1:{port}: start one" in sentence
    assert "murmurec gateway" in sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--similar-to", "5", "--for", "now"], "at most one of"),
        (["--similar-to", "5", "--device", DEVICE], "asks for no user"),
        (["--similar-to", "x" * 129], "--similar-to: item of 129 bytes"),
        (["--similar-to", ""], "1 to 128 bytes"),
        ([], "--user ID or --device HEX"),
        (["--device", "G" * 32], "32 hex"),
    ],
    ids=str,
)
def test_a_bad_query_is_refused_in_one_sentence(
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    assert run(["ask", *arguments]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err.replace("\n", " ")
    assert captured.out == ""
