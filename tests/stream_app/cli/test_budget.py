"""`murmurec device status`: the spent epsilon, also during a replay; and raising a budget."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from producers.device import requests as device
from producers.journal import Journal, PersonBudget, Request
from producers.pseudonyms import pseudonym
from stream_app.cli import run
from stream_app.cli.device.budget.spending_sentences import reports_left
from stream_app.privacy import registry
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_loss import CampaignCost
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import admitted
from tests.producers.journals import Enrolling, at

TOPIC = "murmurec.ratings.v1"
TODAY = int(time.time()) // 86_400


@pytest.fixture
def journal(environment: Callable[..., None]) -> Iterator[Enrolling]:
    environment(MURMUREC_DEVICE_JOURNAL="device.journal")
    with at("device.journal") as opened:
        yield opened


def spend(journal: Journal, user: str, id: str, *items: int, epoch: int = TODAY) -> None:
    line = device.ReportSettings(TOPIC, registry.parse(id))
    owner = pseudonym(journal.key, user)
    levels = np.zeros(len(items), np.uint8)
    journal.release(device.request(levels, list(items), line, device=owner, epoch=epoch))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["device", "status", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_one_user_sees_what_was_spent_and_what_is_left_while_another_process_writes(
    journal: Enrolling, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.terms = PersonBudget(Fraction(20), Fraction(0), None, "adaptive")
    spend(journal, "ann", "rr:5:2", 1, 2, 3)
    spend(journal, "ann", "rr:5:1/3", 4)
    spend(journal, "bob", "rr:5:2", 1)
    printed = shown(capsys, "--user", "ann")
    assert "user ann, as of epoch" in printed
    assert "(20, 0) for you as a person in all; 6 reports left at 2 (rr:5:2) or 41 " in printed
    assert "value: epsilon 6.333333334 on 4 reports\n" in printed
    assert "each single rating: epsilon 2 at most\n" in printed
    assert "times likelier under one value of the rating than under another" in printed
    assert "That the ratings exist is public" in printed
    assert "3 events paid for and not acknowledged" in printed
    row = json.loads(shown(capsys, "--user", "ann", "--json"))
    assert row == {
        "user": "ann", "device": pseudonym(journal.key, "ann").hex(), "epoch": row["epoch"],
        "pending_events": 3,
        "epsilon_in_sum": "6.333333334", "epsilon_on_one_rating": "2", "reports_on_one_item": 1,
        "person": {"budget": "(20, 0) in all", "epsilon": "20", "delta": "0", "window": None,
                   "plan": "adaptive", "pace": "3/4:1/12", "simulated": False, "withdrawn": None,
                   "spent": "6.333333334", "spent_against_another": "6.333333334",
                   "purposes": {"reports": {"spent": "6.333333334",
                                            "spent_against_another": "6.333333334"}},
                   "left": {"rr:5:2": 6, "rr:5:1/3": 41}},
        "spent": [{"scope": "rating", "adjacency": "value", "epsilon": "6.333333334", "delta": "0",
                   "reports": 4, "reports_again": 0}],
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
    assert "3 users, 3 enrolled, 0 withdrawn, 3 simulated, as of epoch" in printed
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
    printed = shown(capsys, "--user", "ann")
    assert "cell: epsilon 2 on 2 reports\n" in printed
    assert "value: epsilon 2 on 1 report\n" in printed
    assert "no limit for the whole person: a simulated account" in printed


def test_ratings_together_are_warned_about_where_no_kind_is_large(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(journal, "ann", "rr:5:2", *range(6))
    spend(journal, "ann", "cell:5:2", *range(10, 15))
    assert "warning: a sum above 20" in shown(capsys, "--user", "ann")


def test_what_has_left_the_window_is_free_again(
    journal: Enrolling, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.terms = PersonBudget(Fraction(5), Fraction(0), 3)
    spend(journal, "ann", "rr:5:2", 1, epoch=TODAY + 100)
    spend(journal, "ann", "rr:5:2", 2, epoch=TODAY + 103)
    printed = shown(capsys, "--user", "ann")
    assert f"as of epoch {TODAY + 103}" in printed
    assert "(5, 0) for you as a person in any 3 days; 1 report left at 2 (rr:5:2)" in printed
    assert "spent 2 so far, 2 against another record; the plan is rr:5:2" in printed
    assert "value: epsilon 4 on 2 reports\n" in printed


def test_before_the_first_report_examples_are_shown(
    journal: Enrolling, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.enrol([pseudonym(journal.key, "ann")], PersonBudget(delta=Fraction(0)), TODAY)
    printed = shown(capsys, "--user", "ann")
    assert "(20, 0) for you as a person in any 365 days; 40 reports left at 1/2 (rr" in printed
    assert "the plan is not decided yet" in printed
    journal.withdraw([pseudonym(journal.key, "ann")], TODAY)
    assert f"withdrawn in epoch {TODAY}: nothing is released" in shown(capsys, "--user", "ann")


def test_an_enrolled_person_changes_the_plan_from_now_on(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment(MURMUREC_DEVICE_JOURNAL="device.journal")
    enrol = ["device", "enrol", "--user", "ann"]
    assert run([*enrol, "--budget", "10"]) == 0
    with Journal.open("device.journal") as journal:
        spend(journal, "ann", "rr:5:1/2", 1)
    capsys.readouterr()
    typed = ["device", "enrol", "--user", " ann\u200b", "--budget", "10"]
    assert run(typed) == 0
    assert "ann was already enrolled" in capsys.readouterr().out
    assert run([*enrol, "--plan", "adaptive"]) == 0  # the budget is what it was
    printed = capsys.readouterr().out
    assert "ann was already enrolled" in printed
    assert "(10, 1e-06) in any 365 days" in printed
    assert "adaptive, from now on: what was released counts" in printed
    assert run([*enrol, "--plan", "rr:5:2"]) == 1
    assert "keep adaptive, which takes every mechanism" in capsys.readouterr().err


def test_raising_a_budget_says_what_it_means(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment(MURMUREC_DEVICE_JOURNAL="device.journal")
    raised = ["device", "enrol", "--user", "ann"]
    assert run([*raised, "--raise", "30"]) == 1
    assert "there is none; murmurec device enrol creates it" in capsys.readouterr().err
    assert run(["device", "enrol", "--user", "ann"]) == 0
    assert "(20, 1e-06) in any 365 days for ann as a person" in capsys.readouterr().out
    assert run([*raised, "--raise", "30"]) == 0
    out = capsys.readouterr().out
    assert "the budget of ann was (20, 1e-06) in any 365 days and is (30, 1e-06) in any" in out
    assert "e^30 = 1.07e+13 times likelier" in out
    assert "never lowered" in out
    assert "weakly protected" in out
    assert "(30, 1e-06) for you as a person" in shown(capsys, "--user", "ann")
    for less in ("30", "20"):
        assert run([*raised, "--raise", less]) == 1
        assert "it can only be raised" in capsys.readouterr().err
    assert run(["device", "enrol", "--user", "bob", "--raise", "30"]) == 1
    assert "bob is not enrolled: run murmurec device enrol --user bob" in capsys.readouterr().err


def test_a_stranger_has_spent_nothing(journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    printed = shown(capsys, "--user", "eve")
    assert "nothing was spent" in printed
    assert "not enrolled: nothing is released for eve" in printed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [([], "there is none; murmurec device enrol creates it"),
     (["--journal", "."], "is a directory"),
     (["--journal", "/dev/null"], "not a plain file"),
     (["--journal", "empty"], "is empty and no journal"),
     (["--journal", "text"], "is not a device journal"),
     (["--journal", "sqlite"], "is a device store of an earlier murmurec")],
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
    assert run(["device", "status", *arguments]) == 1
    output = capsys.readouterr()
    assert sentence in output.err
    assert output.out == ""
    assert output.err.count("\n") == 1


def test_an_empty_user_id_is_refused_in_one_sentence(
    journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["device", "status", "--user", ""]) == 1
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


def test_campaigns_that_a_budget_holds_are_counted_as_campaigns():
    assert reports_left("gaussian:2048:74859570:5050", 185) == (
        "185 campaigns of the same stages left"
    )
    assert reports_left("rr:5:2", 9) == "9 reports left at 2 (rr:5:2)"


ID = naming.name(naming.within(Fraction(1), Fraction(1, 10**6)))


class Contributing(CampaignCost):
    """A campaign that a device takes part in, and sends nothing to."""

    def certify(self) -> tuple[()]:
        """Return no proof: nothing is drawn."""
        return ()

    def release(self, _: object, source: RandomSource) -> None:
        """Use the ticket up."""
        admitted(source, self, 1)


def test_purposes_are_shown_apart_and_equal_in_python(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    from murmurec import Device

    environment(MURMUREC_DEVICE_JOURNAL="device.journal")
    with Device("ann", "device.journal", epsilon="1/2") as device:
        device.enrol(plan="adaptive")
        for item in range(20):
            device.rate(item, 4)
        owner = bytes.fromhex(device.pseudonym)
        device._journal.release(
            Request(
                *(owner, "murmurec.contributions.v1", np.array([7], np.uint64), Contributing(ID)),
                *(None, 1, lambda *_: b"", TODAY, "campaign"),
            )
        )
        found = device.spending
    printed = shown(capsys, "--user", "ann")
    assert "against another record; the plan is adaptive" in printed
    assert re.search(
        r"  reports: (8\.38\d?) so far, \1 against another record\n  campaigns: ", printed
    )
    person = json.loads(shown(capsys, "--user", "ann", "--json"))["person"]
    rows = {"all": person, **person["purposes"]}
    assert set(rows) == {"all", "reports", "campaigns"}
    for name, spending in found.items():
        assert float(rows[name]["spent"]) == spending.zeros
        assert float(rows[name]["spent_against_another"]) == spending.replaced
    assert found["campaigns"].replaced > 1.5 * found["campaigns"].zeros
    assert max(each.zeros for each in found.values()) == found["all"].zeros


def test_the_pace_of_campaigns_is_changed_by_a_command(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment(MURMUREC_DEVICE_JOURNAL="device.journal")
    enrol = ["device", "enrol", "--user", "ann"]
    assert run([*enrol, "--budget", "10"]) == 0
    assert "campaigns  may spend 3/4 of it, and 1/12 of that in any 30" in capsys.readouterr().out
    assert run([*enrol, "--pace", "1/2:1"]) == 0
    assert "(10, 1e-06)" in capsys.readouterr().out
    assert "campaigns may spend 1/2 of it, and 1 of that in any 30" in shown(
        capsys, "--user", "ann"
    )
    assert run([*enrol, "--pace", "0:1"]) == 1
    assert "give two exact numbers above 0 and at most 1" in capsys.readouterr().err
    assert run([*enrol, "--pace", "1:1", "--raise", "30"]) == 2
