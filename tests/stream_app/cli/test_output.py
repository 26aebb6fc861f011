"""How commands print: data as it is, sentences between words, plain text in a pipe."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

from stream_app.cli import output
from stream_app.wire import Topics

EMOJI_ID = "rr:100:2"
SENTENCE = "protected  " + "the value of each rating is hidden " * 5

PRINTING = """
from stream_app.cli import output
output.console().print("rr:100:2 [bold]data[/bold]")
output.table(("id", ""), [("rr:100:2", "[red]text")], title="rr:100:2 by [i]id[/i]")
"""


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(program: str, **environment: str) -> str:
    """Return what a program prints on a terminal of 100 columns."""
    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        check=True,
        timeout=300,
        env={k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        | {"COLUMNS": "100", "TERM": "xterm"}
        | environment,
    )
    os.close(follower)
    assert done.returncode == 0
    shown = b""
    try:
        while piece := os.read(leader, 65536):
            shown += piece
    except OSError:  # the end of a terminal without a writer
        pass
    os.close(leader)
    return shown.decode()


def test_data_is_neither_markup_nor_an_emoji_on_a_terminal() -> None:
    shown = on_a_terminal(PRINTING)
    assert shown.count(EMOJI_ID) == 3
    assert "[bold]data[/bold]" in shown
    assert "[red]text" in shown
    assert "by [i]id[/i]" in shown


def test_without_colour_no_colour_is_printed() -> None:
    colour = "\x1b[31m"
    program = f"{PRINTING}\noutput.console().print('red', style='red')"
    assert colour in on_a_terminal(program)
    assert colour not in on_a_terminal(program, NO_COLOR="1")


def test_a_table_in_a_pipe_is_plain_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("id", "words"), [(EMOJI_ID, "x" * 200), ("b", "y")])
    assert capsys.readouterr().out.splitlines() == [
        "id        words",
        f"{EMOJI_ID}  {'x' * 200}",
        "b         y",
    ]


def test_a_sentence_breaks_between_words_on_a_terminal_and_not_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert output.wrapped(SENTENCE, io.StringIO()) == SENTENCE
    lines = output.wrapped(SENTENCE, Terminal()).splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == " ".join(SENTENCE.split())
    assert all(line.startswith(" " * 11) for line in lines[1:])


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 events"), (1, "1 event"), (1234, "1,234 events")]
)
def test_a_number_agrees_with_its_noun(count: int, words: str) -> None:
    assert output.plural(count, "event") == words


PLAN = """
from stream_app.cli import output
from stream_app.wire import Topics
rows = [
    ("create", t.name, str(t.partitions), t.key, t.config.get("cleanup.policy", "delete"),
     "without limit", "")
    for t in Topics().table()
]
output.table(("action", "topic", "partitions", "key", "cleanup", "retention", "difference"), rows)
"""


@pytest.mark.parametrize("columns", ["200", "100", "60"])
def test_a_table_never_breaks_a_name(columns: str) -> None:
    shown = on_a_terminal(PLAN, COLUMNS=columns)
    for topic in Topics().table():
        assert topic.name in shown


def test_progress_in_a_pipe_is_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter([100.0, 100.5, 109.9, 110.0, 119.9, 120.1, 150.0])
    with output.progress("learning", now=lambda: next(seconds)) as advance:
        for done in range(1, 7):
            advance(done * 1000, 6000)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "learning: 3,000 of 6,000",
        "learning: 5,000 of 6,000",
        "learning: 6,000 of 6,000",
    ]


def test_progress_of_named_parts_says_what_is_in_work_and_how_long_it_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seconds = iter([0.0, 10.0, 60.0])
    with output.progress("experiment", now=lambda: next(seconds)) as advance:
        advance(0.5, 4, "dense rr:5:2")
        advance(2.5, 4, "dense rr:5:4")
    assert capsys.readouterr().err.splitlines() == [
        "experiment: 0 of 4, dense rr:5:2",
        "experiment: 2 of 4, dense rr:5:4, 1 min left",
    ]
    program = """
from stream_app.cli import output
with output.progress("experiment") as advance:
    advance(2.5, 4, "dense rr:5:4")
"""
    shown = on_a_terminal(program)
    assert "dense rr:5:4" in shown
    assert "2/4" in shown


def test_progress_on_a_terminal_is_a_bar_and_no_line() -> None:
    program = """
from itertools import count
from stream_app.cli import output
with output.progress("learning", now=count(0, 60).__next__) as advance:
    advance(1000, 6000)
"""
    shown = on_a_terminal(program)
    assert "1000/6000" in shown
    assert "1,000 of" not in shown


class Full(io.StringIO):
    """A stream into a file on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [Full(), None], ids=["full disk", "closed"])
def test_a_notice_that_cannot_be_printed_stops_nothing(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)  # None: what Python has for a closed descriptor 2
    output.notice("the broker is back")
