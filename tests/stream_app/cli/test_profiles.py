"""`murmurec profiles` without a broker: errors of one sentence, and notices before a release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from producers.datasets.load import load
from research.commands.evaluate.profiles import measured, show
from stream_app.cli import run
from stream_app.cli.device.profiles.named_mechanism import check_allowed, mechanism_of
from stream_app.cli.device.profiles.profile_run import profile_notices
from stream_app.errors import UsageError, UserError
from stream_app.privacy.profiles import profile_registry as profiles


@pytest.fixture(autouse=True)
def file(environment: Callable[..., None]) -> Path:
    path = Path("mine.csv")
    path.write_text("user,item,rating\nann,1,5\nbob,1,4\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["other.csv"], "there is no such file"),
        (["mine.csv"], "no Kafka is configured"),
        (["mine.csv", "--mechanism", "rr"], "there are blip, jlt, jltpaper"),
        (["mine.csv", "--mechanism", "blip:5000:20"], "blip:length:hashes:epsilon"),
        (["mine.csv", "--mechanism", "blip:5000:4:8", "--epsilon", "2"], "leave --epsilon out"),
        (["mine.csv", "--mechanism", "jlt", "--hashes", "3"], "only blip has hashes"),
        (["mine.csv", "--delta", "1/10"], "blip has none"),
        (["mine.csv", "--items-most", "0"], "at most 0 items in a profile: 1 to 16384"),
        (["mine.csv", "--items-most", "9", "--mechanism", "blip:5000:4:8"], "leave --items-most"),
        (["mine.csv", "--items-most", "9", "--mechanism", "jltpaper"], "which has no cap"),
        (["mine.csv", "--epsilon", "-1"], "epsilon '-1': give a number"),
        (["mine.csv", "--epsilon", "65"], "epsilon 65: 0 to 64"),
        (["mine.csv", "--length", "3"], "8 to 524288 bits"),
        (["mine.csv", "--budget", "none"], "--budget none: give a number"),
        (["mine.csv", "--scope", "ids.txt"], "ids.txt: "),
        (["mine.csv", "--mechanism", "jltpaper"], "its delta 1/10 is above 1/1000"),
        (["mine.csv", "--mechanism", "jltpaper"], "or give --reproduction"),
        (["mine.csv", "--mechanism", "jltpaper", "--reproduction"], "no Kafka is configured"),
        (["mine.csv", "--mechanism", "jlt", "--delta", "0.01"], "above 1/1000"),
        (["mine.csv", "--mechanism", "jlt", "--delta", "0.001"], "no Kafka is configured"),
        (["mine.csv", "--bootstrap", "localhost:1"], "localhost:1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_published_is_one_sentence_and_makes_no_journal(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # The broker, the files and the environment are not the command line's fault.
    failed = expected in (
        "there is no such file",
        "no Kafka is configured",
        "ids.txt: ",
        "localhost:1",
    )
    code = run(["profiles", "publish", "--journal", "device.journal", *arguments])
    assert code == (1 if failed else 2)
    shown = capsys.readouterr()
    assert expected in shown.err
    assert shown.out == ""
    assert [path.name for path in Path().iterdir()] == ["mine.csv"]


def test_a_family_and_options_make_the_mechanism_that_its_id_names() -> None:
    assert mechanism_of("blip", "8", 1000, 20, None, 16_384).id == "blip:1000:20:8"
    assert mechanism_of("blip", "8", 1000, 20, None, 7).id == "blip:1000:20:8:7"
    assert mechanism_of("blip:5000:20:8").id == "blip:5000:20:8"
    assert mechanism_of("jlt", "1", 200, None, "1e-5", 16_384).id == "jlt:200:1:1/100000"


def test_a_mechanism_that_workers_reject_is_refused() -> None:
    chosen = mechanism_of("blip:5000:20:8")
    check_allowed(chosen, ())
    check_allowed(chosen, ("jlt:200:1:1/100000", "blip:5000:20:8"))
    with pytest.raises(UsageError, match=r"give --mechanism blip:5000:20:8:100, or allow blip"):
        check_allowed(chosen, ("blip:5000:20:8:100",))


def test_a_device_asks_the_settings_which_profiles_are_taken(
    environment: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    environment(MURMUREC_PROFILE_MECHANISMS="blip:5000:2:2:20,jlt:200:1:1/100000")
    Path("mine.csv").write_text("user,item,rating\nu1,1,5\n")
    assert run(["profiles", "publish", "mine.csv", "--journal", "device.journal"]) == 2
    assert "blip:5000:2:2:24 is not in profile_mechanisms" in capsys.readouterr().err
    assert not Path("device.journal").exists()


def test_without_a_cap_a_mechanism_has_the_largest_that_a_default_budget_holds() -> None:
    assert mechanism_of("blip").id == "blip:5000:2:2:24"
    assert mechanism_of("blip", "1/2").id == "blip:5000:2:1/2:338"
    assert mechanism_of("jltpaper").id == "jltpaper:1000:2:1/10"
    notices = "\n".join(profile_notices(mechanism_of("blip"), 100))
    assert "cap        24 items of a profile at most, the first in a public order" in notices
    assert "a whole profile of any size costs a person (19.8, 1e-06) at most" in notices
    assert "differs from an empty one by an epsilon of up to 24" in notices


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("blip:5000:4:2", ["e^2 = 7.39 times likelier with the item than without it (blip:"]),
        ("blip:5000:4:2", ["adjacency: cell", "every release costs 2 again", "up to 200"]),
        ("blip:5000:4:2", ["of 100 items, differs from an empty one"]),
        ("blip:100:20:2", ["up to 10"]),  # all bits together: L / K epsilons
        ("blip:5000:20:8", ["warning: epsilon 8 is above 4 per item", "40% of the bits are flip"]),
        ("jlt:100:2:1/1000000", ["except with probability 1e-06 (jlt:"]),
        ("jltpaper:100:2:1/10", ["warning: jltpaper repeats the noise of the thesis"]),
        ("blip:5000:4:inf", ["protected  nothing", "warning: nothing is protected"]),
    ],
)
def test_the_notices_state_what_is_protected_and_what_it_costs(
    id: str, expected: list[str]
) -> None:
    notices = "\n".join(profile_notices(profiles.parse(id), 100))
    for words in [*expected, "public     that a pseudonym takes part"]:
        assert words in notices


def test_a_careful_choice_is_not_warned_about() -> None:
    assert "warning" not in "\n".join(profile_notices(profiles.parse("blip:5000:2:2"), 100))


def test_the_profiles_of_a_file_can_be_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"u{user},{item},5\n" for user in range(30) for item in range(user % 3, 90, 3)]
    Path("tastes.csv").write_text("user,item,rating\n" + "".join(rows))
    result = measured(load("tastes.csv"), profiles.parse("blip:2000:2:inf"), seed=1)
    assert (result.users, result.items, result.mean_size) == (30, 90, 30)
    assert result.recall > 0.2
    assert result.precision_clear == pytest.approx(result.precision, abs=0.2)
    show(result)
    assert "neighbours, blip:2000:2:inf" in capsys.readouterr().out
    with pytest.raises(UserError, match="at least 12 are needed"):
        measured(load("mine.csv"), profiles.parse("blip:2000:2:8"), seed=1)
