"""The browser reports `like` by epochs: the same messages rated or not, in a real Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from producers.daemon.cells import Cells
from producers.fleet.epoch_emission import emission_time
from producers.fleet.epoch_requests import _sample_key
from stream_app.privacy.accounting.budget_plans import largest_count
from stream_app.privacy.accounting.odometer import odometer
from stream_app.privacy.gaussian import naming
from stream_app.privacy.ratings.item_sampling import ItemSample
from stream_app.settings import Settings
from stream_app.wire.ids import Item, key
from tests.fixtures.waiting import until
from tests.web.campaign_inputs import TEXTS
from tests.web.small_gateway import IDS, LIKE, WEB, SmallGateway, described, small_gateway
from tests.web.test_campaigning import moment_name
from tests.web.test_device import OPEN, RATE, rating

DAY, START, ROOM = 86_400, 20_000, 20
SCOPE: dict[int, Item] = {key(item): item for item in (*TEXTS, 2**53 + 1, *range(100, 155))}
BUDGET = Fraction(20), Fraction(1, 10**6)
REPORT = """async () => {
  const { EpochReports } = await import("/web/epoch_reports.js");
  globalThis.reports = await EpochReports.open(device).catch((problem) => problem);
  reports?.close?.();
  return reports && (reports.message ?? null);
}"""
LOOK = """async (day) => {
  await reports.look(day * 86_400_000);
  return reports.state.problem;
}"""


def late(day: int) -> float:
    """Return a time of a day, in days, that is after every moment."""
    return day + 1 - 1e-6


def pin(gateway: SmallGateway, scope: dict[int, Item], rotate_every: int = 3) -> None:
    """Let the page's host pin a scope."""
    items = [{"item": item if isinstance(item, str) else 0, "key": f"{number:016x}"}
             for number, item in scope.items()]  # fmt: skip
    pinned = {"rotate_every": rotate_every, "items": items}
    gateway.pages["/web/scope.json"] = json.dumps(pinned).encode()


@pytest.fixture
def gateway() -> Iterator[SmallGateway]:
    with small_gateway() as found:
        found.mechanisms = [described(LIKE)]
        pin(found, SCOPE)
        yield found


def opened(page: Any, gateway: SmallGateway, **options: object) -> str | None:
    """Open the page on day `START` with its device and its reports; return why it was refused."""
    page.clock.set_fixed_time(START * DAY + 1)
    page.goto(gateway.address)
    assert page.evaluate(OPEN, options) is None
    refused: str | None = page.evaluate(REPORT)
    return refused


def sent(page: Any) -> list[dict[str, Any]]:
    """Return the records, all of which the gateway has taken."""
    found: list[dict[str, Any]] = page.evaluate("device.send().then(() => device.records())")
    assert all(record["place"] for record in found)
    return found


def device_of(page: Any) -> tuple[bytes, bytes]:
    """Return the key and the pseudonym of the device."""
    secret, name = page.evaluate(
        "device.all().then(({ device: { key, pseudonym } }) => [Array.from(key), pseudonym])"
    )
    return bytes(secret), bytes.fromhex(name)


def test_messages_are_the_same_rated_or_not_and_their_cells_those_of_python(page, gateway) -> None:
    assert opened(page, gateway, database="without") is None
    secret, name = device_of(page)
    seen = []
    for database in ("without", "rated"):
        assert opened(page, gateway, database=database) is None
        page.evaluate(
            """async ([key, pseudonym]) => {
              await device.change(async (_, about) =>
                about.put({ key: Uint8Array.from(key), pseudonym }, "device"));
              device.pseudonym = pseudonym;
            }""",
            [list(secret), name.hex()],
        )
        for number in SCOPE if database == "rated" else ():
            page.evaluate("(each) => reports.keep(each)", {"key": f"{number:016x}", "level": 4})
        gateway.posts.clear()
        gateway.held.clear()
        shown = []
        for day in range(START, START + 5):
            moment = day + emission_time(moment_name(page), day)
            for at in (moment - 1e-6, moment + 1e-6, late(day)):
                assert page.evaluate(LOOK, at) is None
                shown.append(len(gateway.posts))
        bodies = [json.loads(body) for body in gateway.posts]
        seen.append((shown, [*map(len, gateway.posts)],
                     [(b["seq"], b["epoch"], {*b["items"]}) for b in bodies]))  # fmt: skip
        assert {record["mechanism"] for record in sent(page)} == {LIKE}
        drawn = [report for body in bodies for report in body["reports"]]
        assert len(drawn) == ROOM
    assert seen[0] == seen[1]
    assert seen[0][0] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]
    keys = np.array(sorted(SCOPE), np.uint64)
    cells = Cells(keys, 3, Settings().hash_seed, ROOM)
    picked = ItemSample(Fraction(1), ROOM).items(keys, _sample_key(secret, name))
    before: set[int] = set()
    for seq, (number, epoch, items) in enumerate(seen[0][2], 1):
        due = cells.left(START, epoch, lambda each: np.zeros(len(each), np.int64))
        fresh = {*picked[np.isin(picked, due)].tolist()} - before
        assert (number, items) == (seq, {SCOPE[each] for each in fresh})
        before |= fresh


def test_a_missed_day_is_made_up_for_and_a_spent_budget_reports_nothing(page, gateway) -> None:
    assert opened(page, gateway) is None
    assert page.evaluate(LOOK, late(START + 10)) is None
    assert page.evaluate(LOOK, late(START + 11)) is None
    (record,) = sent(page)
    assert (len(record["keys"]), record["epoch"]) == (ROOM, START + 10)
    spent = page.evaluate("device.spent()")
    assert (spent["reports"], spent["left"]) == (ROOM, 0)
    assert spent["epsilon"] == pytest.approx(odometer({LIKE: ROOM}, BUDGET[1]), rel=1e-9)


@pytest.mark.parametrize("lost", [0, pytest.param(503, marks=pytest.mark.thorough)])
def test_after_a_reload_the_same_bytes_are_sent(page, gateway, lost) -> None:
    assert opened(page, gateway) is None
    gateway.answers = [lost]
    page.evaluate(LOOK, late(START + 3))
    (body,) = set(gateway.posts)
    assert opened(page, gateway) is None
    sent(page)
    count = len(gateway.posts)  # a browser repeats some requests by itself
    page.evaluate(LOOK, late(START + 4))
    assert gateway.posts == [body] * count
    assert count > 1


@pytest.mark.thorough
def test_two_tabs_report_once(page, gateway) -> None:
    assert opened(page, gateway) is None
    tab = page.context.new_page()
    assert opened(tab, gateway) is None
    for each in (page, tab):
        each.evaluate(
            "(day) => { globalThis.looked = reports.look(day * 864e5); }", late(START + 3)
        )
    for each in (page, tab):
        each.evaluate("looked")
    assert len(sent(page)) == len(gateway.posts) == 1


@pytest.mark.thorough
def test_cleared_storage_is_a_new_pseudonym(page, gateway) -> None:
    for _ in range(2):
        assert opened(page, gateway) is None
        page.evaluate(LOOK, late(START + 3))
        page.evaluate("device.forgetMe()")
    assert len({event["device"] for event in map(json.loads, gateway.posts)}) == 2


def test_a_scope_that_the_host_has_changed_is_refused(page, gateway) -> None:
    assert opened(page, gateway) is None
    pin(gateway, dict(reversed(SCOPE.items())))
    assert opened(page, gateway) is None
    for scope, rotate_every in ((SCOPE, 4), (dict([*SCOPE.items()][:-1]), 3)):
        pin(gateway, scope, rotate_every)
        assert "not the scope that this device began with" in (opened(page, gateway) or "")
    pin(gateway, {key("other"): "alien"})
    assert "with the keys of GET /catalogue" in (opened(page, gateway) or "")
    del gateway.pages["/web/scope.json"]
    assert opened(page, gateway) is None
    assert page.evaluate("reports") is None


def test_single_ratings_and_epochs_exclude_each_other(page, gateway) -> None:
    # A table of two levels has the same counts, and another meaning.
    two = described("rr:2:1") | {"levels": 2}
    gateway.mechanisms = [described(LIKE), described(IDS[0]), two]
    assert opened(page, gateway) is None
    for id in (IDS[0], "rr:2:1"):
        assert f"keeps {LIKE}" in page.evaluate(RATE, rating(1, 1, mechanism=id))
    assert f"keeps {LIKE}" in page.evaluate(RATE, rating(1))
    assert "for single ratings" in page.evaluate(RATE, rating(1, mechanism=LIKE))
    assert opened(page, gateway, database="other") is None
    page.evaluate("device.change(async (_, about) => { about.delete('plan'); })")
    assert page.evaluate(RATE, rating(1, mechanism=IDS[0]))["seq"] == 1
    assert f"keeps {IDS[0]}" in (page.evaluate(REPORT) or "")
    gateway.mechanisms = [described(IDS[0])]
    assert "reports by epochs" in (opened(page, gateway, database="third") or "")


@pytest.mark.thorough
def test_a_clock_set_back_reports_nothing_and_a_refused_record_stays(page, gateway) -> None:
    assert opened(page, gateway) is None
    assert "the clock says day" in page.evaluate(LOOK, late(START - 1))
    gateway.answers = [400]
    assert page.evaluate(LOOK, late(START + 400)) is None
    (record,) = page.evaluate("device.records()")
    assert (record["epoch"], record["refused"]) == (START + 400, "status 400")
    assert "was it ahead?" in page.evaluate(LOOK, late(START + 4))
    assert len(page.evaluate("device.records()")) == len(gateway.posts) == 1


@pytest.mark.thorough
def test_a_level_off_the_scale_is_refused_and_one_is_taken_back(page, gateway) -> None:
    assert opened(page, gateway) is None
    keep = "(each) => reports.keep(each).then(() => device.all(), ({ message }) => message)"
    assert "5 levels" in page.evaluate(keep, {"key": "0" * 16, "level": 5})
    for level in (4, 1):
        (kept,) = page.evaluate(keep, {"key": "0" * 16, "level": level})["rated"]
        assert kept["level"] == level
    assert page.evaluate(keep, {"key": "0" * 16, "level": None})["rated"] == []


@pytest.mark.thorough
def test_it_looks_by_itself_once_the_moment_has_come(page, gateway) -> None:
    page.clock.install(time=START * DAY)
    page.goto(gateway.address)
    assert page.evaluate(OPEN, {}) is None
    assert page.evaluate(REPORT.replace("reports?.close?.();", "")) is None
    moment = DAY * (1 + emission_time(moment_name(page), START + 1))
    page.clock.fast_forward(int(1000 * moment) - 150_000)
    page.evaluate("device.all()")
    assert gateway.posts == []
    page.clock.fast_forward(240_000)
    until(lambda: gateway.posts, "the device has reported")


@pytest.mark.thorough
def test_room_and_cost_are_those_of_python(page, gateway) -> None:
    page.goto(gateway.address)
    campaign = naming.within(Fraction(2), BUDGET[1])
    cost = {"square": float(campaign.square), "size": campaign.size}
    for id in ("like:5:2", "like:5:1/2:4", "like:10:1"):
        held, *found = page.evaluate(
            """async ([mechanism, cost]) => {
              const { room, wholePerson } = await import("/web/privacy.js");
              const { certifiedLike } = await import("/web/epochs.js");
              const bit = certifiedLike(mechanism).counts.at(-1), table = [bit.toReversed(), bit];
              return [room(table, { epsilon: 20, delta: 1e-6 }), wholePerson(table, 1, 1e-6),
                wholePerson(table, 9, 1e-6), wholePerson(table, 9, 1e-6, [cost])];
            }""",
            [described(id), cost],
        )
        assert held == largest_count(id, *BUDGET)
        counted = ({id: 1}, {id: 9}, {id: 9, naming.name(campaign): 1})
        expected = [odometer(each, BUDGET[1]) for each in counted]
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.thorough
def test_the_example_of_the_readme_runs(page, gateway) -> None:
    (example,) = re.findall(r"```js\n(.*?)```", (WEB / "README.md").read_text(), re.DOTALL)
    page.goto(gateway.address)
    assert page.evaluate(OPEN, {}) is None
    film, local = f"const film = {{ key: '{key('alien'):016x}' }};", example.replace("./", "/web/")
    page.evaluate(f"async () => {{ {film} {local} reports.close(); }}")
    assert page.evaluate("device.all()")["rated"] == [{"key": f"{key('alien'):016x}", "level": 3}]
