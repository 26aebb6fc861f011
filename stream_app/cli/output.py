"""Output of every command: data literally, sentences whole, tables plain in a pipe.

    stdout   results: sentences, tables or JSON       stderr   notices, progress, errors

Sentences are wrapped between words on a terminal and are one line each elsewhere. Rich's markup and
emoji codes are off, since data looks like both: `rr:100:2` is a mechanism and `:100:` an emoji.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from murmurec.common import progress_lines
from stream_app.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console


class Advance(Protocol):
    """Move a bar; `part` is what is in work, where that changes."""

    def __call__(self, done: float, total: int, part: str = "", /) -> None:
        """Show how much of the total is done."""


VISITS = {"next": ", for the next visit", "now": ", for this visit"}
_LABEL = re.compile(r"\s*\S+\s{2,}|\s*")


def say(sentence: str) -> None:
    """Print a sentence of the result on stdout."""
    print(wrapped(sentence, sys.stdout))


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON on stdout."""
    print(json.dumps(value, indent=indent))


def show(row: Any, sentences: Iterable[str], *, as_json: bool) -> None:
    """Print a result: its row as JSON, or its sentences."""
    if as_json:
        print_json(row)
        return
    for sentence in sentences:
        say(sentence)


def notice(sentence: str) -> None:
    """Print a sentence on stderr, beside the result, where a pipe does not carry it.

    A closed stderr, or one in a file on a full disk, stops no program.
    """
    if sys.stderr is not None:
        with suppress(OSError):
            print(wrapped(sentence, sys.stderr), file=sys.stderr)


def wrapped(sentence: str, stream: TextIO) -> str:
    """Return a sentence wrapped between words for a terminal, unchanged for any other stream.

    A label followed by two spaces keeps a column of its own.
    """
    if not stream.isatty():
        return sentence
    width, lines = shutil.get_terminal_size().columns, []
    for line in sentence.split("\n"):
        label = _LABEL.match(line)
        indent = " " * (len(label[0]) if label and len(label[0]) < width // 2 else 0)
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


class refusing:  # noqa: N801 (it reads as a statement)
    """A block whose ValueErrors are refusals of this kind, with the same sentence in this form."""

    def __init__(self, kind: type[UserError], form: Callable[[str], str] = str) -> None:
        self._kind, self._form = kind, form

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: object, __: object) -> None:
        if isinstance(error, ValueError):
            raise self._kind(self._form(str(error))) from None


def printable(text: str) -> str:
    """Return a text with `?` for every control character of a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def described(title: str, genres: Sequence[str], year: int | None) -> str:
    """Return `A Film (1995) [Drama, War]`: the year unless it is in the title."""
    words = [title] if title else []
    if year is not None and f"({year})" not in title:
        words.append(f"({year})")
    return " ".join([*words, f"[{', '.join(genres)}]"] if genres else words)


def plural(count: int, noun: str) -> str:
    """Return `1 partition`, `4 partitions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints data without interpreting markup."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None
) -> None:
    """Print rows of text: a drawn table on a terminal that is wide enough for every word, else
    aligned columns of whole cells."""
    rows = list(rows)
    shown = console()
    if shown.is_terminal and _fits(columns, rows, shown.width):
        from rich import box
        from rich.table import Column, Table

        # A column of ids keeps its width; a column of sentences is wrapped between words.
        heads = [
            Column(name, overflow="fold", no_wrap=not any(" " in cell for cell in cells))
            for name, cells in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        header = any(columns)
        drawn = Table(*heads, title=title, title_justify="left", show_header=header, box=box.SIMPLE)
        for row in rows:
            drawn.add_row(*row)
        shown.print(drawn)
        return
    cells = [list(columns)] if any(columns) else []
    cells += map(list, rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if title:
        print(title)
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


def _fits(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether a table can be drawn without breaking a word; never without any row."""
    words = (
        max(len(word) for cell in (name, *cells) for word in (cell.split() or [""]))
        for name, cells in zip(columns, zip(*rows, strict=True), strict=False)
    )
    return bool(rows) and sum(longest + 2 for longest in words) + 2 <= width


@contextmanager
def progress(what: str, now: Callable[[], float] = time.monotonic) -> Iterator[Advance]:
    """Give a function that takes (done, total) and moves a bar on stderr; in a pipe it prints a
    line where 10 s have passed since the beginning or the last line."""
    shown = console(stderr=True)
    if not shown.is_terminal:
        yield progress_lines(what, now)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=shown, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total, part="": bar.update(
            task, completed=done, total=total, description=part or what
        )


@contextmanager
def status(sentence: str) -> Iterator[None]:
    """Show the sentence with a spinner on a terminal while the block runs."""
    shown = console(stderr=True)
    if not shown.is_terminal:
        yield
        return
    with shown.status(sentence):
        yield
