"""`murmurec replay` without a broker: an error is one sentence and nothing is made."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.device.requests import ReportSettings
from producers.fleet.population import Population, populate
from producers.fleet.replay import Pace, replay
from producers.journal import Journal
from producers.journal.disk import Disk
from producers.publishing import Publisher
from stream_app.cli import run
from stream_app.cli.device.replay.rating_replay import Cost, ReplayRun, cost, data_warnings
from stream_app.cli.device.wording import (
    journal_notices,
    protection_claim,
    spending_claim,
    warnings,
)
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.ratings.item_sampling import ItemSample
from tests.producers.conftest import dataset
from tests.producers.journals import at

CELL = ["--mechanism", "cell", "--emission", "epoch"]
RR = registry.parse("rr:5:2")
FAILURES = ("no such file", "Kafka", "localhost:1", "not allowed", "MECHANISMS", "no rating lies")
SCOPE = np.arange(50, dtype=np.uint64)


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
        (
            ["mine.csv", "--speed", "0"],
            "--speed 0: give reports per second from 0.001",
        ),
        (["mine.csv", "--speed", "fast"], "--speed fast"),
        (["mine.csv", "--speed", "nan"], "--speed nan"),
        (["mine.csv", "--speed", "inf"], "--speed inf"),
        (["mine.csv", "--speed", "1e-300"], "from 0.001 to 1e9, or max"),
        (["mine.csv", "--speed", "1e308"], "from 0.001 to 1e9, or max"),
        (
            ["mine.csv", *CELL, "--rotate-every", "0"],
            "--rotate-every 0: give 1 to 2147483648 epochs",
        ),
        (["mine.csv", "--mechanism", "rr:5:2"], "give --mechanism rr and --epsilon 2"),
        (["mine.csv", "--mechanism", "cell:5:2:1/4"], "cell and --epsilon 2 and --thinning 1/4"),
        (["mine.csv", "--mechanism", "none:5:inf"], "none:5:inf: give --mechanism none\n"),
        (
            ["mine.csv", *CELL, "--rotate-every", "99999999999999999999"],
            "give 1 to 2147483648 epochs",
        ),
        (["mine.csv", "--scale", "10", "20", "1"], "no rating lies on the scale 10..20"),
        (["mine.csv", "--epsilon", "0"], "epsilon 0"),
        (["mine.csv", "--epsilon", "1"], "rr:5:1 is not allowed (rr:5:2, cell:5:2)"),
        (["mine.csv", "--mechanism", "none"], "none:5:inf is not allowed (rr:5:2, cell:5:2)"),
        (["mine.csv", "--scale", "1", "10", "1"], "MURMUREC_MECHANISMS"),
        (["mine.csv", "--mechanism", "cell"], "cell:5:2 hides whether a rating exists"),
        (["mine.csv", "--mechanism", "like"], "like:5:2 hides whether a rating exists"),
        (["mine.csv", "--mechanism", "like:5:2:4"], "like:5:2:4 hides whether a rating exists"),
        (["mine.csv", "--mechanism", "like:5:2:3"], "not the canonical id; write 'like:5:2'"),
        (
            ["mine.csv", "--mechanism", "like:5:2:4", "--epsilon", "1"],
            "leave --epsilon and --thinning out",
        ),
        (["mine.csv", "--mechanism", "like:10:2:4"], "like:10:2:4: the ratings have 5 levels"),
        (["mine.csv", "--mechanism", "like", "--thinning", "1/4"], "only cell, ternary, laplace"),
        (["mine.csv", "--mechanism", "cell"], "give --emission epoch"),
        (["mine.csv", "--emission", "sometimes"], "choose immediate or epoch"),
        (["mine.csv", "--sample", "20", "--epsilon", "2"], "leave --epsilon out"),
        (["mine.csv", "--sample", "20", "--budget", "30"], "leave --budget out"),
        (["mine.csv", "--sample", "20", "--rotate-every", "3"], "drawn once from the whole scope"),
        (["mine.csv", "--sample", "1/3"], "at most nine digits behind the point"),
        (["mine.csv", "--sample", "lots"], "--sample lots: give a number above 0"),
        (["mine.csv", "--sample", "5"], "--sample needs a mechanism that hides"),
        (["mine.csv", "--emission", "epoch", "--limit", "5"], "sent whole; leave --limit out"),
        (["mine.csv", "--scope", "mine.csv"], "hides which items were rated, not rr:5:2"),
        (["mine.csv", "--rotate-every", "3"], "and --rotate-every need a mechanism"),
        (["mine.csv", "--thinning", "1/4"], "thinning '1/4': only cell"),
        (["mine.csv", "--budget", "many"], "--budget many: give a number above 0"),
        (["mine.csv", "--bootstrap", "localhost:1"], "localhost:1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_replayed_is_one_sentence_and_makes_no_journal(
    arguments: list[str],
    expected: str,
    environment: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment(MURMUREC_MECHANISMS="rr:5:2,cell:5:2")
    # The broker, the files and the settings are not the command line's fault.
    failed = any(word in expected for word in FAILURES)
    code = run(["replay", "--journal", "device.journal", *arguments])
    assert code == (1 if failed else 2)
    shown = capsys.readouterr()
    assert expected in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert [path.name for path in Path().iterdir()] == ["mine.csv"]


def test_a_limit_below_one_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "mine.csv", "--limit", "0"]) == 2
    capsys.readouterr()


# --- what a run can spend at most -----------------------------------------------------------------


def ratings(key: bytes, count: int = 30) -> Population:
    """`count` ratings of one user, and one of another."""
    times = list(range(count + 1))
    people = dataset([1] * count + [2], [*range(count), 1], [3.0] * count + [4.0], times)
    return populate(people, key)


def priced(journal: Journal, mechanism: str = "rr:5:2", **changed: Any) -> Cost:
    given: dict[str, Any] = {"scope": None, "sample": None, "republish": False, "ended": False}
    given |= changed
    made = registry.parse(mechanism)
    return cost(ratings(journal.key), journal, made, 20_000, **given)


def test_what_is_spent_in_sum_knows_the_budget_what_was_spent_before_and_again() -> None:
    with at("j", epsilon=21) as journal:
        price = priced(journal)
        assert (price.most, price.before, price.whole) == (10, 0, 20)
        assert "10 x 2 = 20 for the user with the most" in spending_claim(
            RR, price.most, price.before
        )
        assert warnings(RR, price.most, price.whole) == []
        line = ReportSettings("ratings", RR)
        list(replay(ratings(journal.key), line, journal=journal, send=id, epoch=20_000))
        assert priced(journal) == Cost(0, Fraction(20), Fraction(20), 0, RR.epsilon)
        assert "a user before this run: 20" in spending_claim(RR, 0, Fraction(20))
    with at("j", epsilon=1000) as journal:
        assert priced(journal).whole == 60
        assert (price := priced(journal, republish=True)).whole == 80
        assert price.most == 30
        assert "above 20 in sum" in warnings(RR, 10, price.whole)[0]


def test_a_large_epsilon_does_not_hide_that_the_sum_is_large() -> None:
    warned = warnings(registry.parse("rr:5:8"), 10)
    assert ["above 4 per rating" in warned[0], "above 20 in sum" in warned[1]] == [True, True]
    assert "e^8 = 2,981 times" in protection_claim(registry.parse("rr:5:8"))


def test_a_budget_that_holds_the_scope_of_no_device_is_refused_with_a_remedy() -> None:
    with at("j", epsilon=20, plan="adaptive") as journal:
        price = priced(journal, "cell:5:2", scope=SCOPE, ended=True)
        with pytest.raises(UserError, match="give a larger --budget, or --sample 20") as refused:
            price.check(journal.terms)
        assert "50 items at 2 each" in str(refused.value)
        priced(journal, "cell:5:2", scope=SCOPE[:10], ended=True).check(journal.terms)
        few = priced(
            journal,
            "cell:5:5/2",
            scope=SCOPE,
            sample=ItemSample.from_budget(Fraction(20)),
            ended=True,
        )
        assert (few.most, few.whole, few.cells) == (8, 20, 0)


def test_rows_off_the_scale_and_a_scope_of_other_items_are_warned_about() -> None:
    data = dataset([1], [1], [3.0])
    keys = np.array([1], np.uint64)
    assert list(data_warnings(data, keys, SCOPE)) == []
    assert "no item of the scope" in next(data_warnings(data, keys, SCOPE[10:]))
    object.__setattr__(data, "refused", 3)
    assert "3 rows unreadable or off the scale" in next(data_warnings(data, keys, None))


def test_a_journal_that_is_new_or_was_torn_is_reported() -> None:
    with at("j") as journal:
        assert "is new: new pseudonyms, and no record" in "".join(journal_notices(journal))
    with Path("j").open("ab") as file:
        file.write(b"torn")
    with at("j") as journal:
        assert "its 4 bytes were removed" in "".join(journal_notices(journal))
    with at("j") as journal:
        assert list(journal_notices(journal)) == []


# --- a disk that fills ----------------------------------------------------------------------------


class Small(Disk):
    """A disk that has room for so many writes."""

    room = 4

    def append(self, handle: int, data: bytes) -> None:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= 1
        super().append(handle, data)


class Accepting:
    """A producer whose broker takes everything at once."""

    class Record:
        def partition(self) -> int:
            return 0

        def offset(self) -> int:
            return 0

    def produce(self, topic: str, *, key: bytes, value: bytes, on_delivery: Any, **_: Any) -> None:
        on_delivery(None, self.Record())

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return 0


def test_a_disk_that_fills_midway_is_refused_with_the_count_sent_and_the_rest_goes_later() -> None:
    def made(journal: Journal) -> ReplayRun:
        line = Publisher(Accepting(), "ratings")
        people = ratings(journal.key, 100)
        return ReplayRun(
            journal,
            line,
            ReportSettings("ratings", RR),
            people,
            Pace(500),
            20_000,
            republish=False,
        )

    with (
        at("j", disk=Small()) as journal,
        pytest.raises(UserError, match=r"the disk is full.* 1 event accepted before") as refused,
    ):
        made(journal).immediate(None)
    assert "none sent after; the same command continues" in str(refused.value)
    with at("j") as journal:
        rest = made(journal).immediate(None).row
    assert (rest["skipped"], rest["published"]) == (50, 51)
