"""`murmurec device run` and `status`: what is refused before a draw, and what is shown."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from producers.identities import Identities
from producers.journal import Journal, Limits, PersonBudget, read_journal
from stream_app.cli import run
from stream_app.cli.device.running.budgets import (
    check_budgets,
    check_plans,
    planned_mechanism,
    rounds_claims,
)
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.wire import EPOCH_SECONDS
from tests.producers.journals import ask

CELL = ["--mechanism", "cell", "--epsilon", "1/2"]
ROUNDS = [*CELL, "--scope", "s", "--rounds", "3"]


@pytest.fixture(autouse=True)
def settings(environment: Callable[..., None]) -> None:
    environment(
        MURMUREC_DEVICE_JOURNAL="device.journal", MURMUREC_MECHANISMS="rr:5:2,cell:5:1/2",
        MURMUREC_BOOTSTRAP_SERVERS="127.0.0.1:1",
    )  # fmt: skip


RELAY = ["--relay", f"http://a#09{'0' * 62}"]


def enrol() -> None:
    assert run(["device", "enrol", "--user", "ann"]) == 0


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 1, "no account takes part"),
        (["--user", "ann"], 1, "ann is not enrolled: run murmurec device enrol --user ann"),
        (CELL, 2, "give it with --scope FILE, or take the server's with --trust-catalogue"),
        ([*CELL, "--scope", "s", "--trust-catalogue"], 2, "reports on a public list of items"),
        (["--scope", "s"], 2, "need a mechanism that hides which items were rated"),
        ([*CELL, "--scope", "s", "--rotate-every", "0"], 2, "--rotate-every 0: give 1 to"),
        ([*ROUNDS, "--rounds-share", "1"], 2, "--rounds-share 1: give a part of the budget below"),
        ([*ROUNDS, "--rounds-share", "0"], 2, "--rounds-share 0: give a number above 0"),
        ([*ROUNDS, "--rounds-share", "-1/2"], 2, "--rounds-share -1/2: give a number above 0"),
        ([*ROUNDS, "--rounds-share", "nan"], 2, "--rounds-share nan: give a number above 0"),
        ([*CELL, "--scope", "s", "--rounds-share", "1/2"], 2, "is of later rounds; give --round"),
        (["--mechanism", "cell", "--epsilon", "3", "--scope", "s"], 1, "is not allowed"),
        ([*CELL, "--trust-catalogue", *RELAY], 2, "--relay: a catalogue and the item table"),
        ([*RELAY[:1], "http://a"], 2, "give the address of the relay, #, and the gateway's"),
    ],
)
def test_what_cannot_run_is_one_sentence(
    options: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s").write_text("1\n")
    assert run(["device", "run", *options]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("plans", "options", "code", "message"),
    [
        ([], [], 1, "no account takes part, so there is no plan"),
        ([""], [], 1, "the plans of the accounts are none, and --plan needs one mechanism"),
        (["adaptive"], [], 1, "the plans of the accounts are adaptive, and --plan needs one"),
        (["rr:5:2", "rr:5:1"], [], 1, "are rr:5:1, rr:5:2, and --plan needs one mechanism"),
        (["rr:5:2*3,rr:5:1*2"], [], 1, "and --plan needs one mechanism"),
        (["rr:5:2*4"], ["--epsilon", "2"], 2, "leave --epsilon out"),
        (["rr:5:2*4"], ["--thinning", "1/4"], 2, "leave --thinning out"),
        (["cell:5:1/2*60"], ["--mechanism", "rr"], 2, "leave --mechanism out"),
        ([], ["--mechanism", "rr", "--epsilon", "2"], 2, "leave --mechanism and --epsilon out"),
        (["partition:5:5/2*8"], [], 1, "partition:5:5/2 is not allowed (rr:5:2, cell:5:1/2)"),
        (["cell:5:1/2*60"], [], 2, "give it with --scope FILE"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_one_sentence(
    plans: list[str],
    options: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number, plan in enumerate(plans):
        assert run(["device", "enrol", "--user", f"user{number}", "--plan", plan]) == 0
    capsys.readouterr()
    assert run(["device", "run", "--plan", *options]) == code
    refused = capsys.readouterr().err
    assert message in refused
    assert len(refused.strip().splitlines()) == 1


@pytest.mark.parametrize("options", [["--watch", "r.csv"], [*CELL, "--scope", "s"]])
def test_a_mechanism_that_no_plan_has_is_refused_with_the_plan(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s").write_text("1\n")
    assert run(["device", "enrol", "--user", "ann", "--plan", "rr:5:1"]) == 0
    capsys.readouterr()
    assert run(["device", "run", "--user", "ann", *options]) == 1
    message = capsys.readouterr().err
    assert "the budget of 1 account is for rr:5:1, and holds no report under" in message
    assert "give --plan, or the --mechanism and --epsilon of the plan" in message
    with Journal.open("device.journal") as journal:
        assert not journal.scope  # a scope that nothing reports on is not stored


def test_accounts_with_another_plan_are_named_and_the_scope_is_checked_for_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mechanism, items = registry.parse("cell:5:1/2"), np.arange(20, dtype=np.uint64)
    with Journal.open("device.journal") as journal:
        devices = [bytes([n]) * 16 for n in range(2)]
        journal.enrol(devices, PersonBudget(), 1)
        journal.set_plan(devices[:1], "rr:5:2")
        check_plans(journal, mechanism)
        assert "warning: 1 account will not report" in capsys.readouterr().err
        check_budgets(journal, mechanism, items, 1)
        assert capsys.readouterr().err == ""


def test_the_mechanism_of_the_plan_is_that_of_the_program() -> None:
    assert run(["device", "enrol", "--user", "ann", "--plan", "partition:5:5/2*8"]) == 0
    with Journal.open("device.journal") as journal:
        assert planned_mechanism(journal).id == "partition:5:5/2"


def test_a_scope_beyond_the_budget_is_refused_with_what_the_budget_holds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    enrol()
    Path("scope.txt").write_text("\n".join(map(str, range(500))))
    assert run(["device", "run", *CELL, "--scope", "scope.txt"]) == 1
    refused = capsys.readouterr().err
    assert "the scope needs 500 reports of each account, and the budget of (20, 1e-06)" in refused
    assert "give a shorter --scope" in refused


@pytest.mark.parametrize(
    ("items", "share", "message"),
    [
        (56, "1/2", "the first round of the scope needs 56 reports of each account, and 55 "),
        (50, "2/5", "a later round of the scope needs 50 reports of each account, and --rou"),
        (37, None, "the scope needs 111 reports of each account"),
    ],
)
def test_rounds_beyond_a_part_of_the_budget_are_refused_with_what_it_holds(
    items: int, share: str | None, message: str
) -> None:
    enrol()
    limits = Limits(reports=3, share=None if share is None else Fraction(share))
    cell, today = registry.parse("cell:5:1/2"), int(time.time()) // EPOCH_SECONDS
    with Journal.open("device.journal", limits=limits) as journal:
        with pytest.raises(UserError, match=message):
            check_budgets(journal, cell, np.arange(items, dtype=np.uint64), today)
        check_budgets(journal, cell, np.arange(36, dtype=np.uint64), today)


def test_the_share_of_the_command_line_is_that_of_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    enrol()
    Path("s").write_text("\n".join(map(str, range(50))))
    assert run(["device", "run", *ROUNDS, "--rounds-share", "0.4"]) == 1
    assert "--rounds-share 2/5 of the budget of (20, 1e-06)" in capsys.readouterr().err
    assert not read_journal("device.journal").book.scope


def test_a_share_admits_a_scope_whose_rounds_do_not_all_fit_and_a_device_says_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    enrol()
    items = np.arange(50, dtype=np.uint64)
    limits = Limits(reports=3, share=Fraction(1, 2))
    with Journal.open("device.journal", limits=limits) as journal:
        cell = registry.parse("cell:5:1/2")
        check_budgets(journal, cell, items, int(time.time()) // EPOCH_SECONDS)
        (sentence,) = rounds_claims(journal, cell)
    assert "of the 109 reports that the budget of (20, 1e-06) in any 365 days holds" in sentence
    assert sentence.endswith("54 are for items reported before")
    with Journal.open("device.journal") as journal:
        ann = Identities(journal.key).pseudonym("ann")
        journal.release(ask(ann, 1, 2, mechanism=cell))
        journal.release(ask(ann, 1, mechanism=cell, republish=True))
    capsys.readouterr()
    assert run(["device", "status", "--user", "ann"]) == 0
    assert "on 3 reports (1 of items that were reported before)" in capsys.readouterr().out


def test_the_scope_of_the_enrolment_is_that_of_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("scope.txt").write_text("1\n2\n")
    assert run(["device", "enrol", "--user", "ann", "--scope", "scope.txt"]) == 0
    pinned = hashlib.sha256(b"1\n2\n").hexdigest()
    assert read_journal("device.journal").book.scope.hex() == pinned
    Path("scope.txt").write_text("666\n")
    assert run(["device", "run", *CELL, "--scope", "scope.txt"]) == 1
    assert "who changes the scope chooses on what the budget is spent" in capsys.readouterr().err


def test_the_status_shows_accounts_and_what_waits_also_while_a_program_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    today = int(time.time()) // EPOCH_SECONDS
    with Journal.open("device.journal") as journal:
        named = Identities(journal.key)
        ann, bob = (named.pseudonym(user) for user in ("ann", "bob"))
        journal.enrol([ann, bob], PersonBudget(), today)
        journal.withdraw([bob], today)
        assert run(["device", "status", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert run(["device", "status"]) == 0
        assert "in use by a program" in capsys.readouterr().out
    assert shown["running"] is True
    assert (shown["pending_events"], shown["scope"]) == (0, None)
    first, second = shown["accounts"]
    assert (first["device"], first["withdrawn"], first["ratings_kept"]) == (ann.hex(), None, 0)
    assert first["next"] > time.strftime("%Y-%m-%d", time.gmtime((today + 1) * EPOCH_SECONDS - 1))
    assert (second["withdrawn"], second["next"]) == (today, None)
    assert run(["device", "status"]) == 0
    output = capsys.readouterr().out
    assert "no program runs on it" in output
    assert "2 users, 1 enrolled, 1 withdrawn" in output


def test_a_person_leaves_and_comes_back_after_a_silence_of_years(
    capsys: pytest.CaptureFixture[str],
) -> None:
    enrol()
    with Journal.open("device.journal") as journal:
        ann = Identities(journal.key).pseudonym("ann")
        journal.release(ask(ann, 1, epoch=10_000))
    assert run(["device", "withdraw", "--user", "ann"]) == 0
    again = ["device", "enrol", "--user", "ann"]
    assert run(again) == 1
    assert "days after the last release" in capsys.readouterr().err
    assert run([*again, "--trust-clock"]) == 0
    assert read_journal("device.journal").book.enrolments()[0].withdrawn == 0


def test_a_scope_that_the_budget_refuses_is_not_stored_so_a_shorter_one_is_no_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    enrol()
    scope = Path("s")
    scope.write_text("\n".join(map(str, range(4000))))
    assert run(["device", "run", *CELL, "--scope", "s"]) == 1
    assert "give a shorter --scope" in capsys.readouterr().err
    assert not read_journal(Path("device.journal")).book.scope


def test_a_closed_input_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    enrol()
    monkeypatch.setattr(sys, "stdin", None)  # what Python has for a closed descriptor 0
    assert run(["device", "run", "--stdin"]) == 1
    assert "--stdin: the input is closed" in capsys.readouterr().err


def test_a_folder_is_no_file_to_watch(capsys: pytest.CaptureFixture[str]) -> None:
    enrol()
    Path("folder").mkdir()
    assert run(["device", "run", "--watch", "folder"]) == 1
    assert "--watch folder: is no file; give a file of lines" in capsys.readouterr().err


def test_a_long_scope_is_pinned_at_enrolment_where_its_length_is_allowed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("s").write_text("\n".join(map(str, range(5000))))
    options = ["device", "enrol", "--user", "ann", "--scope", "s"]
    assert run(options) == 1
    assert "allow it (--most-cells 5000)" in capsys.readouterr().err
    assert run([*options, "--most-cells", "5000"]) == 0


def test_a_program_that_trusts_the_catalogue_starts_without_a_broker() -> None:
    enrol()
    with subprocess.Popen(
        [sys.executable, "-m", "stream_app.cli", "device", "run", *CELL, "--trust-catalogue"],
        stderr=subprocess.PIPE, text=True,
    ) as started:  # fmt: skip
        assert started.stderr is not None
        notices = []
        for line in started.stderr:  # ends where the program ends
            notices.append(line)
            if "messages are kept in the journal" in line:
                started.send_signal(signal.SIGTERM)
    assert started.returncode == 0, notices
    assert "public     the server's catalogue, which is read once the broker answers" in "".join(
        notices
    )


def test_a_digest_that_is_none_is_refused_before_the_broker_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    enrol()
    assert run(["device", "run", *CELL, "--trust-catalogue", "--accept-scope", "all"]) == 1
    assert "--accept-scope all: give the 64 hex digits" in capsys.readouterr().err
