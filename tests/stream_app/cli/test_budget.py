"""`murmurec budget show`: what was spent, in numbers and words, also while somebody publishes."""

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

TOPIC = "murmurec.ratings.v1"
TODAY = int(time.time()) // 86_400


@pytest.fixture
def journal(environment: Callable[..., None]) -> Iterator[Journal]:
    environment(MURMUREC_DEVICE_JOURNAL="device.journal")
    with Journal.open("device.journal") as opened:
        yield opened


def spend(journal: Journal, user: str, id: str, *items: int, epoch: int = TODAY) -> None:
    line = device.ReportSettings(TOPIC, registry.parse(id))
    who = pseudonym(journal.key, user)
    levels = np.zeros(len(items), np.uint8)
    journal.release(device.request(levels, list(items), line, device=who, epoch=epoch))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["budget", "show", *arguments]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return told.out


def test_one_user_sees_what_was_spent_and_what_is_left_while_another_process_writes(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", 1, 2, 3)
    spend(journal, "ann", "rr:5:1/3", 4)
    spend(journal, "bob", "rr:5:2", 1)
    said = shown(capsys, "--user", "ann", "--budget", "20")
    assert "user ann, budget 20 in all, as of epoch" in said
    assert "value: epsilon 6.333333334 on 4 reports\n" in said
    assert "remaining 13.666666666, for ratings and profiles together" in said
    assert "the value of a rating is told apart from another by at most e^epsilon" in said
    assert "That the ratings exist is public" in said
    assert "3 events are paid for and were not acknowledged" in said
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
    said = shown(capsys)
    assert "3 users, budget no limit" in said
    # Nobody spends an epsilon here, so the number of reports says who has the most.
    assert "nothing: on 5 reports by the user with the most (3 users in all)" in said
    assert "value: epsilon 22 on 11 reports by the user with the most (2 users in all)" in said
    assert "warning: above 20 in sum that is weak protection" in said
    assert "these ratings were sent as they are: nothing is protected" in said
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
    said = shown(capsys, "--user", "ann", "--budget", "5")
    assert "cell: epsilon 2 on 2 reports\n" in said
    assert "value: epsilon 2 on 1 reports\n" in said
    assert "what is said of one rating adds up: epsilon 4\n" in said
    assert "remaining 1, for ratings and profiles together" in said


def profile(journal: Journal, user: str, mechanism: ProfileMechanism, epoch: int = TODAY) -> None:
    raw = RawProfile(pseudonym(journal.key, user), np.arange(9, dtype=np.uint64))
    journal.release(profiles.request(raw, mechanism, topic="profiles", epoch=epoch))


def test_profiles_are_shown_by_themselves_with_what_they_claim(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "cell:5:1", 2, 3)
    for epoch in range(TODAY, TODAY + 3):
        profile(journal, "ann", Blip(64, 2, Fraction(7)), epoch)
    said = shown(capsys, "--user", "ann", "--budget", "30", "--window", "2")
    assert "profile, cell: epsilon 21 on 3 profiles (in the last 2 epochs epsilon 14 on 2" in said
    assert "one item is in the profiles is told apart by at most e^(this sum of all profiles)" in (
        said
    )
    assert "the whole set of items by up to e^(number of items x this sum)" in said
    assert "cell: epsilon 2 on 2 reports (in the last 2 epochs epsilon 0 on 0 reports)" in said
    assert "the user's whole record by e^(the sum)" in said
    assert "remaining 16, for ratings and profiles together" in said
    assert "warning: above 20 in sum" in said  # by life, although the window has less
    rows = json.loads(shown(capsys, "--json"))["spent"]
    assert [(row["scope"], row["adjacency"], row["reports"]) for row in rows] == [
        ("profile", "cell", 3), ("rating", "cell", 2),
    ]  # fmt: skip
    assert "except for the delta" not in said
    profile(journal, "bob", Jlt(64, Fraction(1), Fraction(1, 10**6)))
    assert "profile, cell: epsilon 1 delta 0.000001 on 1 profiles" in (
        said := shown(capsys, "--user", "bob")
    )
    assert "except for the delta" in said


def test_ratings_together_are_warned_about_where_no_kind_is_large(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", *range(6))
    spend(journal, "ann", "cell:5:2", *range(10, 15))
    assert "warning: above 20 in sum" in shown(capsys, "--user", "ann")


def test_a_window_shows_what_counts_in_it(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", 1, epoch=TODAY + 100)
    spend(journal, "ann", "rr:5:2", 2, epoch=TODAY + 103)
    said = shown(capsys, "--user", "ann", "--budget", "5", "--window", "3")
    assert f"budget 5 in any 3 epochs, as of epoch {TODAY + 103}" in said
    assert "value: epsilon 4 on 2 reports (in the last 3 epochs epsilon 2 on 1 reports)" in said
    assert "remaining 3, " in said


def test_what_has_left_the_window_until_today_is_free_again(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", 1, epoch=TODAY - 10)
    assert "epsilon 2" in shown(capsys, "--user", "ann", "--budget", "5")
    said = shown(capsys, "--user", "ann", "--budget", "5", "--window", "3")
    assert "epsilon 2 on 1 reports (in the last 3 epochs epsilon 0 on 0 reports)" in said
    assert "remaining 5, " in said


def test_a_stranger_has_spent_nothing(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing was spent" in shown(capsys, "--user", "eve")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "there is none; publishing a rating makes it"),
     (["--journal", "."], "is a directory"),
     (["--journal", "/dev/null"], "is not a plain file"),
     (["--journal", "empty"], "is empty and no journal"),
     (["--journal", "text"], "is not a device journal"),
     (["--journal", "sqlite"], "is a device store of an earlier murmurec"),
     (["--budget", "x"], "--budget x"), (["--window", "3"], "it goes with --budget")],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_shown_is_one_sentence(
    arguments: list[str],
    said: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment(MURMUREC_DATA_DIR="data")
    Path("text").write_text("hello")
    Path("empty").touch()
    Path("sqlite").write_bytes(b"SQLite format 3\0" + bytes(100))
    usage = bool(arguments) and arguments[0] in ("--budget", "--window")
    assert run(["budget", "show", *arguments]) == (2 if usage else 1)
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""
    assert told.err.count("\n") == 1


def test_a_user_that_is_none_is_one_sentence(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["budget", "show", "--user", ""]) == 1
    assert "an id has 1 to 1024 bytes" in capsys.readouterr().err


def test_several_reports_on_one_rating_are_told(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    line, who = (
        device.ReportSettings(TOPIC, registry.parse("rr:5:2")),
        pseudonym(journal.key, "ann"),
    )
    for item in (1, 2, 2, 2):
        level = np.zeros(1, np.uint8)
        journal.release(
            device.request(level, [item], line, device=who, epoch=TODAY, republish=item == 2)
        )
    assert "a rating reported on 3 times is told apart by e^(3 x epsilon)" in shown(capsys)
    assert "reported on" not in shown(capsys, "--user", "bob")
