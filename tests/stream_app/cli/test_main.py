"""The command line as a whole: quick, quiet, and never a traceback for a user's mistake."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from stream_app import __version__
from stream_app.cli import run
from stream_app.cli.app import app
from tests.fixtures.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
HEAVY = ("confluent_kafka", "faust", "numba", "numpy")
COMMANDS = [command.name for command in app.registered_commands]
GROUPS = [group.name for group in app.registered_groups]


def murmurec(*arguments, before="", **environment):
    """Run the command line in a process of its own; `before` is run first."""
    program = f"import sys; {before}\nfrom stream_app.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"NO_COLOR": "1"} | environment,
    )


def test_the_help_has_every_command_under_its_task_and_eight_to_start_with():
    registered = (*app.registered_commands, *app.registered_groups)
    panels = [each.rich_help_panel for each in registered]
    assert set(panels) == {"Start", "Serve", "Device", "Campaigns", "Operate", "Check"}
    assert panels.count("Start") == 8


def test_no_help_imports_kafka_numpy_numba_or_faust():
    """All in one process: the first command that imports one of them is named."""
    program = f"""
import io, sys
from contextlib import redirect_stdout
from stream_app.cli import run
for command in sys.argv[1:]:
    with redirect_stdout(io.StringIO()) as shown:
        assert run([*command.split(), "--help"]) == 0, command
    assert "Usage: murmurec" in shown.getvalue(), command
    print(command, [name for name in {HEAVY} if name in sys.modules])
"""
    commands = ["", *COMMANDS, *GROUPS]
    done = subprocess.run(
        [sys.executable, "-c", program, *commands], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{command} []" for command in commands]


def paths(command, words=()):
    """Yield the words of every command and group."""
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from paths(below, (*words, name))


@pytest.mark.parametrize("words", list(paths(typer.main.get_command(app))), ids=" ".join)
def test_every_help_fits_a_screen_and_gives_one_example(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert run([*words, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100
    examples = [line for line in lines if "Example: murmurec" in line]
    assert len(examples) == 1
    # The example is of this command.
    assert " ".join(("murmurec", *words)) in examples[0]


@pytest.mark.parametrize("words", list(paths(typer.main.get_command(app))), ids=" ".join)
def test_an_unknown_option_of_any_command_is_wrong_usage(words, capsys):
    assert run([*words, "--nonsense"]) == 2
    assert "--nonsense" in capsys.readouterr().err


def test_the_script_that_is_installed_is_this_one():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"murmurec": "stream_app.cli:main"}


def test_the_version_is_printed(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"murmurec {__version__}\n"


def test_without_a_command_the_help_is_shown_as_wrong_usage(capsys):
    assert run([]) == 2
    assert "Usage: murmurec" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["config", "show", "--nonsense"], ["broker", "start", "--port", "x"]],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_no_traceback(arguments, capsys):
    assert run(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_refusal_is_one_line_on_stderr_and_1(environment, capsys):
    environment(MURMUREC_TUNING_FACTORS="0")
    assert run(["config", "show"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("murmurec: factors = 0 (MURMUREC_TUNING_FACTORS): must be")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["device", "status", "--journal", "~no-such-user/journal"],
        ["evaluate", "~no-such-user/ratings.csv"],
        ["config", "show"],
    ],
    ids=" ".join,
)
def test_an_unknown_home_folder_is_one_sentence(arguments, environment, capsys):
    if arguments == ["config", "show"]:
        environment(MURMUREC_CAMPAIGN_SCOPE="~no-such-user/items.txt")
    assert run(arguments) == 1
    assert capsys.readouterr().err == (
        "murmurec: ~: that user has no home directory; set HOME, or give paths without ~\n"
    )


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [("gateway", "cryptography", "gateway"), ("worker", "numba", "server")],
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(command, package, extra):
    done = murmurec(command, before=f"sys.modules[{package!r}] = None")
    assert done.returncode == 1
    assert done.stderr == f"murmurec: this needs {package}: pip install 'murmurec[{extra}]'\n"


ABSENT = """
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "research":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent())
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("reproduce", "--papers"),
        ("reproduce", "S003", "--quick"),
        ("evaluate", "ratings.csv", "--model", "tree"),
        ("evaluate", "ratings.csv", "--model", "privsr", "--trust", "trust.csv"),
        ("audit", "campaign"),
    ],
    ids=" ".join,
)
def test_without_the_research_package_its_commands_ask_for_a_checkout(arguments):
    done = murmurec(*arguments, before=ABSENT)
    assert done.returncode == 1
    assert done.stderr == (
        "murmurec: this needs a checkout of murmurec: no install has research/, the systems of the "
        "papers\n"
    )


def test_without_the_research_package_the_help_still_lists_every_command():
    done = murmurec("--help", before=ABSENT)
    assert done.returncode == 0, done.stderr
    assert all(f" {name} " in done.stdout for name in COMMANDS)


def test_a_missing_module_of_our_own_is_a_defect_and_not_hidden():
    done = murmurec("config", "show", before="sys.modules['stream_app.settings'] = None")
    assert "Traceback" in done.stderr


# A shell without job control starts a background job, such as a test run, with SIGINT ignored.
HEEDING_INTERRUPTS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from stream_app.cli import main
main()
"""


def test_an_interrupt_ends_at_once_with_130_and_no_traceback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_SECONDS)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, "-c", HEEDING_INTERRUPTS, "topics", "apply", "--bootstrap", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            # Once it has called, it waits for an answer that never comes.
            connection, _ = server.accept()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=PATIENCE_SECONDS)
            connection.close()
    assert process.returncode == 130, err
    assert b"Traceback" not in err


def test_an_interrupt_while_the_commands_are_loaded_is_no_traceback_either():
    interrupting = (
        "import importlib.abc\n"
        "class Interrupting(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())"
    )
    done = murmurec("config", "show", before=interrupting)
    assert (done.returncode, done.stderr) == (130, "")


# A command that leaves what it prints in the buffer, as one that uses print() does.
PRINTING = """
import sys
from stream_app.cli import main
from stream_app.cli.app import app

@app.command()
def printing():
    print("a line")

sys.argv[1:] = ["printing"]
main()
"""


@pytest.mark.parametrize(
    "program", [("-m", "stream_app.cli", "config", "show"), ("-c", PRINTING)], ids=["echo", "print"]
)
def test_a_reader_that_leaves_early_is_no_error_on_the_screen(program):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, *program],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        timeout=300,
    )
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 1


def test_the_shell_completes_a_command():
    done = murmurec(COMP_WORDS="murmurec topi", COMP_CWORD="1", _MURMUREC_COMPLETE="complete_bash")
    assert done.stdout.split() == ["topics"]


def test_what_is_shown_as_json_can_be_read_by_a_program(environment, capsys):
    environment(MURMUREC_KAFKA="sasl.password=hunter2")
    assert run(["config", "show", "--json", "-X", "linger.ms=5", "--prefix", "mine"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["broker"]["kafka"] == {"linger.ms": "5", "sasl.password": "********"}
    assert (shown["topics"]["prefix"], shown["tuning"]["clip"]) == ("mine", "inf")


def test_what_is_shown_as_a_table_masks_secrets_too(environment, capsys):
    environment(MURMUREC_KAFKA="sasl.password=hunter2")
    assert run(["config", "show"]) == 0
    out = capsys.readouterr().out
    assert "hunter2" not in out
    assert "[topics] partitions" in out
    assert "fixed for life" in out


def test_a_property_without_a_value_is_refused_without_repeating_it_whole(environment, capsys):
    assert run(["config", "show", "-X", "sasl.password" + "hunter2" * 9]) == 2
    assert "hunter2" * 9 not in capsys.readouterr().err


def test_an_error_carries_no_commands_to_the_terminal(environment, capsys):
    assert run(["device", "enrol", "--user", "a", "--budget", "\x1b[31m"])
    assert capsys.readouterr().err.startswith("murmurec: --budget ?[31m: give a number above 0")


@pytest.mark.parametrize("command", ["evaluate", "replay", "experiment"])
def test_a_path_that_is_too_long_is_one_sentence(command, environment, capsys):
    assert run([*command.split(), "a" * 300]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"murmurec: {'a' * 200}: File name too long")


def test_a_file_that_the_disk_cannot_read_is_one_sentence(environment, capsys):
    where = ["--bootstrap", "127.0.0.1:1", "--snapshot", "/proc/self/mem"]
    assert run(["state", "digest", *where]) == 1
    assert "Input/output error" in capsys.readouterr().err
