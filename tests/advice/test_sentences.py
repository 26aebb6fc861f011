"""Every command, option and setting that a sentence of the product names is there; every sentence
whose advice could lose something has a test that obeys it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

import pytest
import typer

from stream_app.cli.app import app
from stream_app.settings import Settings, load, variable
from tests.advice.sentences import HOLE, ROOT, Sentence, sentences
from tests.advice.table import CONSENT, DANGEROUS, OBEYED, PLAIN

# Words after `murmurec` that are no command: the subject of a sentence.
_SUBJECT = {"snapshot", "that", "knows", "does", "reads"}
# Options of other programs, and names that look like settings and are none.
_FOREIGN = {"--compressed", "--help-all", "--data-binary"}
_VARIABLES = {
    *("MURMUREC_CONFIG", "MURMUREC_DEVICE_"),
    *("MURMUREC_EDGE_STORE", "MURMUREC_EDGE_TOKEN"),
}
_NO_SETTING = {"status", "type", "name", "level", "ref", "device", "reply", "side", "list", "page"}


@cache
def root() -> Any:
    """Return the tree of commands."""
    return typer.main.get_command(app)


def options(command: Any) -> set[str]:
    """Return the options of a command, hidden ones too."""
    found = {"--help", "--help-all"}
    for each in command.params:
        found |= {*each.opts, *each.secondary_opts}
    return found


def faults_of_command(words: list[str]) -> Iterator[str]:
    """Yield what is wrong with the words after `murmurec`."""
    plain = [word.rstrip(".:,;`") for word in words]
    if plain[0] in _SUBJECT:
        return
    command, depth = root(), 0
    while depth < len(plain) and plain[depth] in getattr(command, "commands", {}):
        command, depth = command.commands[plain[depth]], depth + 1
    if not depth:
        yield f"murmurec {plain[0]} is no command"
        return
    below = getattr(command, "commands", {})
    if below and depth < len(plain) and re.fullmatch("[a-z]+", plain[depth]):
        yield f"murmurec {' '.join(plain[: depth + 1])} is no command"
    for word in plain[depth:]:
        if word.startswith("--") and len(word) > 2 and word.split("=")[0] not in options(command):
            yield f"murmurec {' '.join(plain[:depth])} has no {word}"


def every_option(command: Any) -> Iterator[str]:
    """Yield the options of a command and of all below it."""
    yield from options(command)
    for below in getattr(command, "commands", {}).values():
        yield from every_option(below)


def faults(sentence: Sentence) -> Iterator[str]:
    """Yield everything that a sentence names and that is not there."""
    for words in sentence.commands:
        yield from faults_of_command(words)
    known = set(every_option(root())) | _FOREIGN
    of_commands = {word.rstrip(".:,;`") for words in sentence.commands for word in words}
    yield from (f"{each} is no option" for each in sentence.options - known - of_commands)
    variables = {variable(name) for name in Settings.model_fields} | _VARIABLES
    yield from (f"{each} is no setting" for each in sentence.variables - variables)
    yield from (f"{name} is no setting" for name in sentence.names - set(Settings.model_fields))
    for name, value in sentence.values:
        if name in _NO_SETTING or "await" in value:
            continue
        if name not in Settings.model_fields:
            if name not in sentence.names:
                yield f"{name} is no setting"
        elif HOLE not in value and value not in ("a", "at", "the"):
            try:
                load(**{name: value})
            except Exception as error:  # noqa: BLE001 (what is wrong with a value, whatever it is)
                yield f"{name} = {value}: {error}"


def test_every_command_option_and_setting_that_is_named_is_there() -> None:
    found = [f"{each.module}:{each.line}: {f}" for each in sentences() for f in faults(each)]
    assert found == []
    assert len(sentences()) > 200


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("run murmurec rounds close now", "murmurec rounds close is no command"),
        ("run murmurec worker --forever", "murmurec worker has no --forever"),
        ("run murmurec repair", "murmurec repair is no command"),
        ("give --no-such-option", "--no-such-option is no option"),
        ("set MURMUREC_NOTHING", "MURMUREC_NOTHING is no setting"),
        ("set no_such to 3", "no_such is no setting"),
        ("raise head_itemss to 9", "head_itemss is no setting"),
        ("set partitions to 0", "partitions = 0: partitions = 0 (--partitions): must be"),
    ],
)
def test_a_sentence_that_names_what_is_not_there_is_found(text: str, fault: str) -> None:
    assert [each[: len(fault)] for each in faults(Sentence("m", 1, text))] == [fault]


def dangerous() -> list[Sentence]:
    """Return the sentences whose advice touches what is stored."""
    return [each for each in sentences() if DANGEROUS.search(each.text)]


def test_every_sentence_that_could_lose_something_is_obeyed_by_a_test() -> None:
    without = [
        f"{each.module}:{each.line}: {each.text[:150]}"
        for each in dangerous()
        if not any(words in each.text for words in chain(*OBEYED.values()))
        and not any(re.search(words, each.text) for words in chain(*PLAIN.values()))
    ]
    assert without == []


def test_every_row_is_of_a_sentence_and_names_a_test() -> None:
    texts = [each.text for each in sentences()]
    stale = [words for words in chain(*OBEYED.values()) if not any(words in t for t in texts)]
    assert stale == []
    excused = [each.text for each in dangerous()]
    patterns = chain(*PLAIN.values())
    assert [row for row in patterns if not any(re.search(row, text) for text in excused)] == []
    assert [row for row in OBEYED if not exists(*row)] == []


def exists(path: str, name: str) -> bool:
    """Return whether a test is there."""
    tree = ast.parse((ROOT / path).read_text())
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


@pytest.mark.parametrize(
    "words",
    [
        "worker --accept-gap",
        "--rebuild --accept-gap",
        "--delete-records",
        "another path (--journal)",
    ],
)
def test_a_sentence_that_consents_to_a_loss_says_so(words: str) -> None:
    found = [s for s in sentences() if words in s.text and "give only one" not in s.text]
    assert found
    assert [each.text for each in found if not CONSENT.search(each.text)] == []
