"""What several sub-commands ask for: a path that can be written, and properties without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from producers.ranking import CleanHistory
from producers.scale import Scale
from stream_app.cli import run
from stream_app.cli.app import app
from stream_app.cli.commands import Commands
from stream_app.cli.options import Cluster, WorkerSettings, settings_from, writable
from stream_app.errors import UserError


def test_a_path_that_can_be_written_is_returned_and_not_made(tmp_path: Path) -> None:
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("{}")
    assert writable(new) == new
    assert writable(old) == old
    assert not new.exists()
    assert old.read_text() == "{}"


def test_a_path_that_cannot_be_written_is_refused_by_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, expected in {
        tmp_path / "nowhere" / "out.json": "does not exist; create it",
        tmp_path / "file" / "out.json": "does not exist; create it",
        tmp_path: "is a directory",
        tmp_path / ("x" * 300): "cannot be written .File name too long.",
        tmp_path / ("x" * 300) / "out.json": "cannot be written .File name too long.",
    }.items():
        with pytest.raises(UserError, match=expected) as caught:
            writable(path)
        assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_path_in_a_directory_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="cannot be written"):
        writable(tmp_path / "out.json")


@pytest.mark.parametrize(
    "name", ["sasl.password", "SSL.KEY.PASSWORD", "sasl.oauthbearer.client.secret"]
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(
    name: str, environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "show", "-X", "linger.ms=5", "-X", f"{name}=hunter2"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"murmurec: -X {name}: ")
    assert "MURMUREC_KAFKA" in captured.err
    assert "hunter2" not in captured.err + captured.out


def test_other_properties_are_taken(environment: Callable[..., None]) -> None:
    environment(MURMUREC_KAFKA="sasl.password=hunter2")
    settings = settings_from(kafka=["sasl.username=ann", "linger.ms = 5"])
    assert settings.kafka == {
        "sasl.password": "hunter2", "sasl.username": "ann", "linger.ms": "5",
    }  # fmt: skip


def test_a_group_of_options_is_one_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    app, taken = Commands(), []

    @app.command()
    def one(cluster: WorkerSettings, size: Annotated[int, typer.Option()] = 3) -> None:
        taken.append((cluster, size))

    command = typer.main.get_command(app)
    command(["--prefix", "mine", "-X", "a=b", "--model", "dense"], standalone_mode=False)
    command([], standalone_mode=False)
    assert taken == [
        (WorkerSettings(prefix="mine", kafka=["a=b"], model="dense"), 3),
        (WorkerSettings(), 3),
    ]


def test_a_group_gives_its_settings(environment: Callable[..., None]) -> None:
    environment(MURMUREC_MODEL="sketch")
    settings = WorkerSettings(allow=["rr:5:3"]).settings(group="g")
    assert (settings.mechanisms, settings.group) == (("rr:5:3",), "g")
    assert settings.model == "sketch"
    assert WorkerSettings(model="dense").settings().model == "dense"
    assert Cluster(prefix="mine").settings().topic_prefix == "mine"


def test_help_names_shared_options_in_one_line_and_shows_them_on_demand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["topics", "apply", "--help"]) == 0
    brief = capsys.readouterr().out
    assert "Shared options: --config, --bootstrap, --prefix, -X, --json (see --help-all)" in brief
    assert "HOST:PORT" not in brief
    assert run(["topics", "apply", "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert "HOST:PORT" in whole
    assert "see --help-all" not in whole


# --- what is wrong is said in one sentence, before a broker is asked ------------------------------


def numbers(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every option that takes a number, with the words of its command."""
    for name, below in getattr(command, "commands", {}).items():
        yield from numbers(below, (*words, name))
    for each in command.params:
        hint = getattr(getattr(each, "type_descriptor", None), "annotation", None)
        if hint in (int, float) and not each.is_flag:
            yield words, each


NUMBERS = list(numbers(typer.main.get_command(app)))


def test_a_number_that_is_none_or_out_of_range_is_one_sentence_with_its_limits(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(NUMBERS) > 50
    for words, each in NUMBERS:
        beyond = [each.min - 1] if each.min is not None else []
        beyond += [each.max + 1] if each.max is not None else []
        for value in ("x", *map(str, beyond)):
            assert run([*words, each.opts[-1], value]) == 2, words
            (line,) = capsys.readouterr().err.splitlines()
            assert re.match(rf"murmurec: {each.opts[-1]} {value}: give a (whole )?number", line)
            limits = [str(limit) for limit in (each.min, each.max) if limit is not None]
            assert re.findall(r"at (?:least|most) (\d+)", line) == limits


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("broker start --port 99999", "--port 99999: give a whole number, at least 1, at most 655"),
        ("edge --port 70000", "--port 70000: give a whole number, at least 0, at most 65535"),
        ("gateway --port 70000", "gateway_port = 70000 (--port): must be a whole number, at least"),
        ("gateway --rate -1", "gateway_rate = -1.0 (--rate): must be a number, at least 0"),
        ("gateway --origin x", "(--origin): 'x' is not an origin"),
        ("worker --admin-port -1", "admin_port = -1 (--admin-port): must be a whole number, at"),
        ("ask --user ann --for never", "--for never: 'never' is not one of 'next', 'now'"),
        ("publish --user ann --item 1 --rating 4", "--history perhaps: give true or false"),
        ("publish --user {} --item 1 --rating 4", "user of 0 bytes: an id has 1 to 1024 bytes"),
        ("ask --user {}", "user of 0 bytes: an id has 1 to 1024 bytes"),
        ("recommend --local --user {}", "user of 0 bytes: an id has 1 to 1024 bytes"),
        ("publish --user ann --item 1 --rating 4 --journal .", "is a directory; give another"),
        ("publish --user ann --item 1 --rating 4 --journal mine.csv", "is not a device journal"),
        ("replay mine.csv --journal .", "is a directory; give another path (--journal)"),
        ("replay mine.csv --journal mine.csv", "is not a device journal; give another path"),
        ("recommend --local --user ann --journal .", "is a directory; give another path"),
        ("device forget --user ann --journal nofile", "nofile: there is none"),
        ("device forget --all --journal nofile", "nofile: there is none"),
        ("device status --journal nofile", "nofile: there is none; murmurec device enrol creates"),
        ("device withdraw --user ann --journal nofile", "nofile: there is none"),
        ("device contribute --user ann --journal nofile", "nofile: there is none"),
        ("ask --user ann --journal nofile", "nofile: does not exist; publish a rating first"),
    ],
)
def test_wrong_arguments_are_one_sentence_before_a_broker_is_asked(
    command: str,
    sentence: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "--history perhaps" in sentence:
        environment(MURMUREC_DEVICE_HISTORY="perhaps")
    Path("mine.csv").write_text("user,item,rating\nann,1,5\nbob,1,4\n")
    assert run([word.replace("{}", "") for word in command.split()]) in (1, 2)
    out, err = capsys.readouterr()
    assert (sentence in err, err.count("\n"), out) == (True, 1, ""), err
    assert [each.name for each in Path().iterdir()] == ["mine.csv"]


def test_what_is_kept_in_clear_is_forgotten_without_a_journal(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    CleanHistory("lost").append(bytes(16), 3, 5, Scale(), 0)
    assert run(["device", "forget", "--all", "--journal", "lost"]) == 0
    assert "forgot 1 rating" in capsys.readouterr().out
