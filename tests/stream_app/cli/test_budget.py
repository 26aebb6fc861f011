"""`murmurec budget show`: the spent epsilon in numbers and words, also during a replay."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from producers.device import requests as device
from producers.fleet import profile_release as profiles
from producers.fleet.profile_release import RawProfile
from producers.journal import Journal
from producers.pseudonyms import pseudonym
from stream_app.cli import run
from stream_app.privacy import registry
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.profiles.mechanism import ProfileMechanism
from tests.producers.journals import at

TOPIC = "murmurec.ratings.v1"
TODAY = int(time.time()) // 86_400


@pytest.fixture
def journal(environment: Callable[..., None]) -> Iterator[Journal]:
    environment(MURMUREC_DEVICE_JOURNAL="device.journal")
    with at("device.journal") as opened:
        yield opened


def spend(journal: Journal, user: str, id: str, *items: int, epoch: int = TODAY) -> None:
    line = device.ReportSettings(TOPIC, registry.parse(id))
    owner = pseudonym(journal.key, user)
    levels = np.zeros(len(items), np.uint8)
    journal.release(device.request(levels, list(items), line, device=owner, epoch=epoch))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["budget", "show", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_one_user_sees_what_was_spent_and_what_is_left_while_another_process_writes(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", 1, 2, 3)
    spend(journal, "ann", "rr:5:1/3", 4)
    spend(journal, "bob", "rr:5:2", 1)
    printed = shown(capsys, "--user", "ann", "--budget", "20")
    assert "user ann, budget 20 in all, as of epoch" in printed
    assert "value: epsilon 6.333333334 on 4 reports\n" in printed
    assert "remaining 13.666666666, for ratings and profiles together" in printed
    assert "times likelier under one value of the rating than under another" in printed
    assert "That the ratings exist is public" in printed
    assert "3 events paid for and not acknowledged" in printed
    row = json.loads(shown(capsys, "--user", "ann", "--budget", "20", "--json"))
    assert row == {
        "user": "ann", "device": pseudonym(journal.key, "ann").hex(), "epoch": row["epoch"],
        "pending_events": 3,
        "epsilon_in_sum": "6.333333334", "remaining": "13.666666666", "reports_on_one_item": 1,
        "spent": [{"scope": "rating", "adjacency": "value", "epsilon": "6.333333334", "delta": "0",
                   "reports": 4}],
    }  # fmt: skip


def test_all_users_show_the_one_with_the_most_and_no_sum_over_people(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", *range(11))
    spend(journal, "bob", "rr:5:2", 1)
    spend(journal, "bob", "none:5:inf", 2, 3)
    spend(journal, "ann", "none:5:inf", 50)
    spend(journal, "cid", "none:5:inf", *range(5))
    printed = shown(capsys)
    assert "3 users, budget no limit" in printed
    # Every epsilon of this kind is 0, so the number of reports decides.
    assert "nothing: on 5 reports by the user with the most (3 users in all)" in printed
    assert "value: epsilon 22 on 11 reports by the user with the most (2 users in all)" in printed
    assert "warning: a sum above 20 is weak protection" in printed
    assert "these ratings were sent without noise: nothing is protected" in printed
    rows = json.loads(shown(capsys, "--json"))["spent"]
    assert [(row["adjacency"], row["users"], row["reports_of_all"]) for row in rows] == [
        ("nothing", 3, 8), ("value", 2, 12),
    ]  # fmt: skip
    assert rows[0]["epsilon"] is None


def test_kinds_of_protection_are_shown_apart(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", 1)
    spend(journal, "ann", "cell:5:1", 2, 3)
    printed = shown(capsys, "--user", "ann", "--budget", "5")
    assert "cell: epsilon 2 on 2 reports\n" in printed
    assert "value: epsilon 2 on 1 report\n" in printed
    assert "their epsilons on one rating add up: epsilon 4\n" in printed
    assert "remaining 1, for ratings and profiles together" in printed


def profile(journal: Journal, user: str, mechanism: ProfileMechanism, epoch: int = TODAY) -> None:
    raw = RawProfile(pseudonym(journal.key, user), np.arange(9, dtype=np.uint64))
    journal.release(profiles.request(raw, mechanism, topic="profiles", epoch=epoch))


def test_profiles_are_shown_by_themselves_with_what_they_claim(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "cell:5:1", 2, 3)
    for epoch in range(TODAY, TODAY + 3):
        profile(journal, "ann", Blip(64, 2, Fraction(7)), epoch)
    printed = shown(capsys, "--user", "ann", "--budget", "30", "--window", "2")
    assert (
        "profile, cell: epsilon 21 on 3 profiles (in the last 2 epochs epsilon 14 on 2" in printed
    )
    assert "at most e^(this sum) times likelier with one item than without it" in printed
    assert (
        "for the whole set of items the factor is up to e^(number of items x this sum)" in printed
    )
    assert "cell: epsilon 2 on 2 reports (in the last 2 epochs epsilon 0 on 0 reports)" in printed
    assert "for the user's whole record the factor is e^(the sum)" in printed
    assert "remaining 16, for ratings and profiles together" in printed
    assert "warning: a sum above 20" in printed  # by life, although the window has less
    rows = json.loads(shown(capsys, "--json"))["spent"]
    assert [(row["scope"], row["adjacency"], row["reports"]) for row in rows] == [
        ("profile", "cell", 3), ("rating", "cell", 2),
    ]  # fmt: skip
    assert "up to an additive delta" not in printed
    profile(journal, "bob", Jlt(64, Fraction(1), Fraction(1, 10**6)))
    assert "profile, cell: epsilon 1 delta 0.000001 on 1 profile" in (
        printed := shown(capsys, "--user", "bob")
    )
    assert "up to an additive delta" in printed


def test_ratings_together_are_warned_about_where_no_kind_is_large(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", *range(6))
    spend(journal, "ann", "cell:5:2", *range(10, 15))
    assert "warning: a sum above 20" in shown(capsys, "--user", "ann")


def test_a_window_shows_what_counts_in_it(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", 1, epoch=TODAY + 100)
    spend(journal, "ann", "rr:5:2", 2, epoch=TODAY + 103)
    printed = shown(capsys, "--user", "ann", "--budget", "5", "--window", "3")
    assert f"budget 5 in any 3 epochs, as of epoch {TODAY + 103}" in printed
    assert "value: epsilon 4 on 2 reports (in the last 3 epochs epsilon 2 on 1 report)" in printed
    assert "remaining 3, " in printed


def test_what_has_left_the_window_until_today_is_free_again(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", 1, epoch=TODAY - 10)
    assert "epsilon 2" in shown(capsys, "--user", "ann", "--budget", "5")
    printed = shown(capsys, "--user", "ann", "--budget", "5", "--window", "3")
    assert "epsilon 2 on 1 report (in the last 3 epochs epsilon 0 on 0 reports)" in printed
    assert "remaining 5, " in printed


def test_a_stranger_has_spent_nothing(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing was spent" in shown(capsys, "--user", "eve")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [([], "there is none; publishing a rating creates it"),
     (["--journal", "."], "is a directory"),
     (["--journal", "/dev/null"], "not a plain file"),
     (["--journal", "empty"], "is empty and no journal"),
     (["--journal", "text"], "is not a device journal"),
     (["--journal", "sqlite"], "is a device store of an earlier murmurec"),
     (["--budget", "x"], "--budget x"), (["--window", "3"], "needs --budget")],
    ids=" ".join,
)  # fmt: skip
def test_an_unreadable_journal_is_refused_in_one_sentence(
    arguments: list[str],
    sentence: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment(MURMUREC_DATA_DIR="data")
    Path("text").write_text("hello")
    Path("empty").touch()
    Path("sqlite").write_bytes(b"SQLite format 3\0" + bytes(100))
    usage = bool(arguments) and arguments[0] in ("--budget", "--window")
    assert run(["budget", "show", *arguments]) == (2 if usage else 1)
    output = capsys.readouterr()
    assert sentence in output.err
    assert output.out == ""
    assert output.err.count("\n") == 1


def test_an_empty_user_id_is_refused_in_one_sentence(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["budget", "show", "--user", ""]) == 1
    assert "an id has 1 to 1024 bytes" in capsys.readouterr().err


def test_several_reports_on_one_rating_are_counted(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    line, owner = (
        device.ReportSettings(TOPIC, registry.parse("rr:5:2")),
        pseudonym(journal.key, "ann"),
    )
    for item in (1, 2, 2, 2):
        level = np.zeros(1, np.uint8)
        journal.release(
            device.request(level, [item], line, device=owner, epoch=TODAY, republish=item == 2)
        )
    assert "a rating has 3 reports: their joint factor is e^(3 x epsilon)" in shown(capsys)
    assert "a rating has" not in shown(capsys, "--user", "bob")
