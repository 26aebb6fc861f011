"""`murmurec rounds plan` writes a plan that everyone follows, or nothing and one sentence."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.campaigns.planning import check_budget, check_stages
from stream_app.campaigns.sealing import seal
from stream_app.cli import run
from stream_app.cli.aggregator.campaign_outline import contribution_bytes, duration
from stream_app.privacy.randomness import SystemSource
from stream_app.wire.campaigns.contribution import encode_contribution
from stream_app.wire.campaigns.plan import Campaign, decode_plan
from tests.stream_app.aggregation.world import device_id, vectors

SCOPE = ["7", "5", "a title", "7", "9", *map(str, range(20, 80))]


@pytest.fixture
def place(environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with keys of every role and a scope, where commands run."""
    monkeypatch.chdir(tmp_path)
    for role in Role:
        keys.make(tmp_path, role)
    (tmp_path / "items.txt").write_text("\n".join(SCOPE))
    return tmp_path


COMMAND = ["rounds", "plan", "--epsilon", "1", "--scope", "items.txt"]
SPLIT = ["--keys", "a.pub", "--keys", "b.pub"]


def planned(path: Path) -> Campaign:
    return decode_plan((path / "plan.json").read_bytes())


def public(place: Path, role: str) -> str:
    return (place / f"{role}.pub").read_text().strip()


def test_a_plan_is_within_its_budget_and_everyone_follows_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--least", "50", "--most", "2000000", "--deadline", "3000"]
    assert run([*COMMAND, *SPLIT, *more, "--number", "7"]) == 0
    campaign = planned(place)
    check_stages(campaign)
    check_budget(campaign)
    assert campaign.scope == (7, 5, "a title", 9, *range(20, 80))
    assert campaign.keys == (public(place, "a"), public(place, "b"))
    assert (campaign.number, campaign.epsilon, campaign.delta) == (7, 1, Fraction(1, 10**6))
    assert {(stage.least, stage.deadline_cuts) for stage in campaign.stages} == {(50, 3000)}
    assert min(stage.most for stage in campaign.stages) >= 2_000_000
    shown = capsys.readouterr().out
    assert "spends epsilon 1.000000 at delta 1e-06 (proved); the plan allows 1" in shown
    rows = [line.split() for line in shown.splitlines()]
    for index, stage in enumerate(campaign.stages):
        (row,) = (row for row in rows if row[:2] == [str(index), stage.kind])
        assert row[2:5] == [
            f"{stage.size:,}", f"{contribution_bytes(campaign, index):,}", f"{stage.bound:,}"
        ]  # fmt: skip


@pytest.mark.parametrize("given", [SPLIT, ["--keys", "central.pub"]])
def test_the_bytes_are_those_that_a_device_sends(place: Path, rng, given: list[str]) -> None:
    assert run([*COMMAND, *given]) == 0
    campaign = planned(place)
    size = campaign.stages[0].size
    made = seal(campaign, 0, device_id(3), 0 * vectors(rng, 1, size)[0], SystemSource())
    assert contribution_bytes(campaign, 0) == len(encode_contribution(made))


def test_keys_and_items_come_from_the_settings(place: Path, environment) -> None:
    environment(
        MURMUREC_CAMPAIGN_KEYS=public(place, "central"), MURMUREC_CAMPAIGN_SCOPE="items.txt"
    )
    assert run(["rounds", "plan", "--epsilon", "1/2", "-o", "plan.json"]) == 0
    assert planned(place).keys == (public(place, "central"),)
    assert planned(place).epsilon == Fraction(1, 2)


WRONG = [
    (["--epsilon", "0"], "--epsilon 0: give a number above 0"),
    (["--epsilon", "nan"], "--epsilon nan: give a number above 0"),
    (["--epsilon", "-1"], "--epsilon -1: give a number above 0"),
    (["--epsilon", "65"], "epsilon 65 and delta 1e-06: epsilon is above 0, at most 64"),
    (["--epsilon", "0.000000001"], "take a coarser grid or a larger share"),
    (["--delta", "0"], "--delta 0: give a number from 1e-15 to below 1"),
    (["--delta", "1"], "--delta 1: give a number from 1e-15 to below 1"),
    (["--delta", "1e-99"], "--delta 1e-99: give a number from 1e-15"),
    (["--together-items", "1"], "1 items for together: give 2 at least"),
    (["--least", "1"], "least 1 and most"),
    (["--least", "9", "--most", "8"], "the least not above the most"),
    (["--most", "5000000"], "from 2 to 4194304"),
    (["--deadline", "0"], "a deadline of 0 cuts: give 1 to 2147483648"),
    (["--number", "0"], "--number 0: give 1 to 4611686018427387904"),
    (["--keys", "central.pub"], "3 keys; a campaign has one party (central) or two"),
    (["--scope", "one.txt"], "a scope of 1 item: a campaign is over 2 at least"),
    (["--scope", "empty.txt"], "holds no item"),
    (["--scope", "long.txt"], "65,537 items, and a campaign is over 65,536 at most"),
    (["--scope", "wide.txt"], "name a smaller scope; nothing was written"),
    (["--scope", "none.txt"], "cannot be read"),
    (["-o", "."], "cannot be written"),
]


@pytest.mark.parametrize(("more", "sentence"), WRONG, ids=lambda each: str(each)[:40])
def test_terms_that_give_no_plan_are_one_sentence_and_nothing_is_written(
    place: Path, capsys: pytest.CaptureFixture[str], more: list[str], sentence: str
) -> None:
    (place / "one.txt").write_text("1")
    (place / "empty.txt").write_text("\n\n")
    (place / "long.txt").write_text("\n".join(map(str, range(65_537))))
    (place / "wide.txt").write_text("\n".join("x" * 100 + str(n) for n in range(2000)))
    before = sorted(place.iterdir())
    assert run([*COMMAND, *SPLIT, *more]) in (1, 2)
    found = capsys.readouterr()
    assert sentence in " ".join(found.err.split())
    assert len(found.err.strip().splitlines()) == 1
    assert found.out == ""
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["a.pub", "a.pub"], "each party has a key of its own"),
        (["b.pub", "a.pub"], "give central.pub for one party, or a.pub, then b.pub"),
        (["a.pub"], "give central.pub for one party, or a.pub, then b.pub"),
        (["a.key", "b.key"], "a.key: is not the public half of a party's keys"),
        (["items.txt"], "items.txt: is not the public half of a party's keys"),
        (["none.pub"], "none.pub: cannot be read"),
        ([], "no keys of the parties"),
    ],
)
def test_keys_of_no_parties_are_one_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], given: list[str], sentence: str
) -> None:
    options = [part for name in given for part in ("--keys", name)]
    assert run([*COMMAND, *options]) in (1, 2)
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert not (place / "plan.json").exists()


def test_another_number_of_parties_than_the_deployment_has_is_refused(
    place: Path, environment, capsys: pytest.CaptureFixture[str]
) -> None:
    environment(MURMUREC_PRIVACY_MODE="split")
    assert run([*COMMAND, "--keys", "central.pub"]) == 2
    assert "1 key, and privacy_mode split has 2" in " ".join(capsys.readouterr().err.split())
    assert run([*COMMAND, *SPLIT]) == 0


def test_a_plan_of_other_keys_than_those_that_are_pinned_does_not_begin(
    place: Path, environment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMAND, *SPLIT]) == 0
    environment(MURMUREC_CAMPAIGN_KEYS=public(place, "central"))
    assert run(["rounds", "begin", "plan.json", "--bootstrap", "127.0.0.1:1"]) == 1
    assert "workers and devices would not follow it; nothing was written" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(20, "20 s"), (90.2, "90.2 s"), (150, "2.5 min"), (3600, "60 min"), (9000, "2.5 h"),
     (2**31 / 5, "4,971 days")],
)  # fmt: skip
def test_how_long_a_stage_is_open_is_in_a_unit_that_fits(seconds: float, words: str) -> None:
    assert duration(seconds) == words
