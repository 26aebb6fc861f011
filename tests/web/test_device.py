"""The device of the browser: draws, records, sends, in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from stream_app.wire.signatures import digest_of
from tests.fixtures.waiting import until
from tests.web.small_gateway import HANGS, IDS, SmallGateway, described, small_gateway

OPEN = """async (options) => {
  const { Device } = await import("/web/device.js");
  globalThis.device = await Device.open(options ?? {}).catch((problem) => problem);
  return device.message ?? null;
}"""
RATE = "(rating) => device.rate(rating).catch((problem) => problem.message)"
PLACED = """async (count) => {
  for (const end = Date.now() + 60_000; Date.now() < end;) {
    const records = await device.records();
    if (records.filter(({ place }) => place).length === count) return records;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not ${count} records with a place within a minute`);
}"""


def rating(item: int | str, level: int = 3, **more: object) -> dict[str, object]:
    key = f"{item:016x}" if isinstance(item, int) else "8" + 15 * "0"
    return {"item": item, "key": key, "level": level, **more}


def opened(page, gateway: SmallGateway, **options: object) -> str | None:
    """Open the page with its device; return why it was refused."""
    page.goto(gateway.address)
    return page.evaluate(OPEN, options)


def placed(page, count: int) -> list[dict[str, object]]:
    """Return the records once `count` of them have a place."""
    found: list[dict[str, object]] = page.evaluate(PLACED, count)
    return found


@pytest.fixture
def gateway() -> Iterator[SmallGateway]:
    with small_gateway() as found:
        yield found


@pytest.fixture
def device(page, gateway):
    assert opened(page, gateway) is None
    return page


@pytest.fixture
def tab(device, gateway):
    """A second tab of the same browser."""
    found = device.context.new_page()
    assert opened(found, gateway) is None
    return found


def test_a_rating_is_recorded_and_sent_as_recorded(device, gateway) -> None:
    record = device.evaluate(RATE, rating(1193))
    (kept,) = placed(device, 1)
    assert gateway.posts == [kept["body"].encode()] == [record["body"].encode()]
    assert kept["place"] == {"partition": 0, "offset": 0}
    (event,) = gateway.taken
    assert (event["device"], event["seq"]) == (device.evaluate("device.pseudonym"), 1)
    assert event["reports"] == [kept["report"]]


@pytest.mark.parametrize("item", [1193, "alien"])
def test_an_item_is_reported_once(device, gateway, item) -> None:
    device.evaluate(RATE, rating(item))
    # Another key for the same item is no other item: the server counts what is on the wire.
    again = rating(item, 4) | ({"key": "9" + 15 * "1"} if item == "alien" else {})
    assert "rated already" in device.evaluate(RATE, again)
    assert len(placed(device, 1)) == 1
    assert len(gateway.taken) == 1


def test_two_tabs_that_rate_one_item_draw_one_report(device, tab, gateway) -> None:
    begin = "(rating) => { globalThis.rated = device.rate(rating).catch((p) => p.message); }"
    for page in (device, tab):
        page.evaluate(begin, rating(7))
    found = [page.evaluate("rated") for page in (device, tab)]
    assert sorted(isinstance(each, str) for each in found) == [False, True]
    placed(device, 1)
    assert len(gateway.taken) == 1


def test_two_tabs_number_their_reports_without_a_gap(device, tab, gateway) -> None:
    begin = """(ratings) => {
      globalThis.rated = Promise.all(ratings.map((rating) => device.rate(rating)));
    }"""
    device.evaluate(begin, [rating(item) for item in (1, 2, 3)])
    tab.evaluate(begin, [rating(item) for item in (4, 5, 6)])
    for page in (device, tab):
        page.evaluate("rated")
    placed(tab, 6)
    assert [event["seq"] for event in gateway.taken] == [1, 2, 3, 4, 5, 6]
    assert sorted(event["items"][0] for event in gateway.taken) == [1, 2, 3, 4, 5, 6]
    assert len(gateway.posts) == 6  # the tabs did not both send one


@pytest.mark.thorough
def test_two_tabs_that_open_at_once_are_one_device(page, gateway) -> None:
    page.goto(gateway.address)
    names = page.evaluate("""async () => {
      const { Device } = await import("/web/device.js");
      const both = await Promise.all([Device.open(), Device.open()]);
      return both.map(({ pseudonym }) => pseudonym);
    }""")
    assert names[0] == names[1]
    assert len(names[0]) == 32


@pytest.mark.parametrize("lost", [0, 429, 503, 500])
def test_after_a_crash_the_same_bytes_are_sent(device, gateway, lost) -> None:
    gateway.answers = [lost]
    record = device.evaluate(RATE, rating(1193))
    until(lambda: gateway.posts, "a post")
    assert opened(device, gateway) is None
    assert placed(device, 1)[0]["report"] == record["report"]
    assert len(gateway.posts) > 1
    assert set(gateway.posts) == {record["body"].encode()}
    assert "rated already" in device.evaluate(RATE, rating(1193))


@pytest.mark.thorough
def test_a_gateway_that_is_busy_gets_the_rest_later(device, gateway) -> None:
    gateway.answers = [429]
    for item in (1, 2, 3):
        device.evaluate(RATE, rating(item))
    assert [record["seq"] for record in placed(device, 3)] == [1, 2, 3]
    assert [event["seq"] for event in gateway.taken] == [1, 2, 3]
    assert device.evaluate("device.send()") == {"sent": 0, "waiting": 0, "problem": None}


def test_no_report_is_sent_past_one_that_did_not_arrive(device, gateway) -> None:
    device.context.set_offline(True)
    for item in (1, 2, 3):
        device.evaluate(RATE, rating(item))
    gateway.answers = [202, 503]
    device.context.set_offline(False)
    placed(device, 3)
    assert [json.loads(body)["seq"] for body in gateway.posts] == [1, 2, 2, 3]


@pytest.mark.thorough
def test_offline_ratings_are_sent_when_the_network_is_back(device, gateway) -> None:
    device.context.set_offline(True)
    for item in (1, 2):
        device.evaluate(RATE, rating(item))
    found = device.evaluate("device.send()")
    assert found == {"sent": 0, "waiting": 2, "problem": "the gateway cannot be reached"}
    assert gateway.posts == []
    device.context.set_offline(False)
    placed(device, 2)
    assert [event["seq"] for event in gateway.taken] == [1, 2]


@pytest.mark.thorough
def test_a_gateway_that_never_answers_does_not_stop_the_others(device, gateway) -> None:
    """While a tab sends, the others wait for it: so its waiting has an end."""
    device.evaluate("""() => {
      const timeout = AbortSignal.timeout.bind(AbortSignal);
      AbortSignal.timeout = () => timeout(200);
    }""")
    gateway.answers = [HANGS]
    device.evaluate(RATE, rating(1))
    until(lambda: gateway.posts, "a post")
    tab = device.context.new_page()  # not before: a tab sends what it finds when it opens
    assert opened(tab, gateway) is None
    found = tab.evaluate("""Promise.race([device.send(),
      new Promise((resolve) => setTimeout(resolve, 30_000, { waiting: "without an end" }))])""")
    assert (found["waiting"], found.get("problem")) == (0, None)
    assert len(gateway.posts) > 1
    assert len(set(gateway.posts)) == 1


@pytest.mark.thorough
def test_a_device_opens_without_its_gateway(device, gateway) -> None:
    device.evaluate(RATE, rating(1))
    placed(device, 1)
    gateway.mechanisms_status = 503
    assert opened(device, gateway) is None
    assert device.evaluate(RATE, rating(2))["seq"] == 2


@pytest.mark.thorough
def test_what_the_gateway_refuses_is_kept_marked_and_paid(device, gateway) -> None:
    gateway.answers = [400]
    for item in (1, 2):
        device.evaluate(RATE, rating(item))
    records = placed(device, 1)
    assert [record["refused"] for record in records] == ["status 400", None]
    assert device.evaluate("device.spent()")["reports"] == 2
    assert len(gateway.posts) == 2


def test_storage_that_was_put_back_draws_nothing_once_the_gateway_has_said_so(
    device, gateway
) -> None:
    device.evaluate(RATE, rating(3))
    placed(device, 1)
    device.evaluate("device.change(async (records) => { records.clear(); })")
    assert device.evaluate(RATE, rating(1))["seq"] == 1
    until(lambda: device.evaluate("device.state.problem"), "the gateway's answer")
    assert "older copy" in device.evaluate(RATE, rating(2))
    assert opened(device, gateway) is None  # also in the next session
    assert "older copy" in device.evaluate(RATE, rating(2))
    assert "older copy" in device.evaluate("device.send()")["problem"]
    assert device.evaluate("device.spent()")["reports"] == 1
    assert len(gateway.posts) == 2
    device.evaluate("device.forgetMe()")
    assert opened(device, gateway) is None
    assert device.evaluate(RATE, rating(2))["seq"] == 1
    placed(device, 1)


def test_events_that_somebody_forged_in_its_name_do_not_stop_a_device(device, gateway) -> None:
    device.evaluate(RATE, rating(1))
    placed(device, 1)
    name = bytes.fromhex(device.evaluate("device.pseudonym"))
    own = gateway.held[name, 1]
    digest = digest_of(b"forged")
    gateway.held[name, 2] = digest  # no tag
    gateway.held[name, 3] = digest + own[16:]  # that of another event
    for item in (2, 3, 4):
        device.evaluate(RATE, rating(item))
    records = placed(device, 2)
    assert [record["refused"] for record in records] == [None, "other bytes", "other bytes", None]
    assert device.evaluate("device.state.problem") is None
    assert device.evaluate("device.spent()")["reports"] == 4


def test_the_budget_ends_where_the_python_accountant_ends_it(device, gateway) -> None:
    ratings = [rating(item) for item in range(11)]
    found = [device.evaluate(RATE, each) for each in ratings]
    assert "holds 10 reports of rr:5:2: all are spent" in found[10]
    assert len(placed(device, 10)) == 10
    spent = device.evaluate("device.spent()")
    assert (spent["reports"], spent["left"]) == (10, 0)
    assert spent["epsilon"] <= 20


@pytest.mark.thorough
def test_a_device_keeps_the_mechanism_of_its_first_report(device, gateway) -> None:
    device.evaluate(RATE, rating(1, mechanism=IDS[1]))
    assert "other ones need a new device" in device.evaluate(RATE, rating(2, mechanism=IDS[0]))
    assert device.evaluate("device.spent()")["left"] == 92
    assert len(placed(device, 1)) == 1


@pytest.mark.thorough
def test_a_table_that_changes_between_two_sessions_is_refused(device, gateway) -> None:
    device.evaluate(RATE, rating(1))
    placed(device, 1)
    weaker = described(IDS[1])["counts"]  # within the claim, but with another budget
    gateway.mechanisms[0] = described(IDS[0]) | {"counts": weaker}
    assert opened(device, gateway) is None
    assert "the table it began with" in device.evaluate(RATE, rating(2))
    assert len(device.evaluate("device.records()")) == 1


def bad_tables() -> dict[str, list[list[object]]]:
    good = [[int(count) for count in row] for row in described(IDS[0])["counts"]]
    keep, change = good[0][:2]

    def table(keep: int, change: int) -> list[list[object]]:
        return [[str(keep if v == z else change) for z in range(5)] for v in range(5)]

    found: dict[str, list[list[object]]] = {
        "protects less": table(keep + 4 * 2**40, change - 2**40),
        "sum to 2^64": table(keep - 1, change),
        "above 0": table(2**64, 0),
        "as text": [[int(count) for count in row] for row in good],
        "5 rows of 5": table(keep, change)[:4],
        "not that of randomized response": [table(keep, change)[0]] * 5,
    }
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("reason", bad_tables())
def test_a_table_that_does_not_hold_what_it_says_is_refused(page, gateway, reason) -> None:
    gateway.mechanisms[0] = described(IDS[0]) | {"counts": bad_tables()[reason]}
    assert reason in opened(page, gateway)
    # Nor does the next session draw from it, when the gateway is away.
    gateway.mechanisms_status = 503
    assert opened(page, gateway) is None
    assert "does not offer" in page.evaluate(RATE, rating(1, mechanism=IDS[0]))
    assert gateway.posts == []


def test_of_a_mechanism_only_what_was_proved_is_taken_from_the_gateway(page, gateway) -> None:
    lies = {"epsilon": "1/100", "certificate": "0" * 64, "protected": "everything", "levels": 9}
    gateway.mechanisms[0] = described(IDS[0]) | lies
    assert opened(page, gateway) is None
    found = page.evaluate("({ ...device.mechanisms[0], counts: null })")
    true = {"id": IDS[0], "family": "rr", "levels": 5, "epsilon": IDS[0].split(":")[2]}
    assert found == true | {"counts": None}


@pytest.mark.thorough
@pytest.mark.parametrize("id", ["none:5", "rr:5:0", "rr:1:2", "rr:5:65", "rr:5:2/0", "cell:5:2"])
def test_a_mechanism_that_no_browser_can_check_is_refused(page, gateway, id) -> None:
    gateway.mechanisms[0] = described(IDS[0]) | {"id": id}
    assert "can check" in opened(page, gateway)


@pytest.mark.thorough
@pytest.mark.parametrize("level", [-1, 5, 1.5, None, "3"])
def test_a_level_off_the_scale_is_refused(device, gateway, level) -> None:
    assert "5 levels" in device.evaluate(RATE, rating(1, level))
    assert device.evaluate("device.records()") == []


def test_a_browser_without_storage_draws_and_sends_nothing(page, gateway) -> None:
    page.goto(gateway.address)
    page.evaluate("""() => Object.defineProperty(globalThis, "indexedDB", { value: { open() {
      throw new DOMException("denied", "SecurityError"); } } })""")
    assert "storage is not available" in page.evaluate(OPEN)
    assert gateway.posts == []


@pytest.mark.thorough
def test_a_full_disk_draws_and_sends_nothing(device, gateway) -> None:
    device.evaluate("""() => {
      const put = IDBObjectStore.prototype.add;
      IDBObjectStore.prototype.add = function (...given) {
        const request = put.apply(this, given);
        this.transaction.abort();
        return request;
      };
    }""")
    assert "nothing was drawn or sent" in device.evaluate(RATE, rating(1))
    assert device.evaluate("device.records()") == []
    assert device.evaluate("device.spent()")["reports"] == 0
    assert gateway.posts == []


@pytest.mark.thorough
def test_an_insecure_page_is_refused_in_a_sentence(page, gateway) -> None:
    page.goto(gateway.address)
    page.evaluate("() => Object.defineProperty(crypto, 'subtle', { value: undefined })")
    assert "secure context" in page.evaluate(OPEN)


@pytest.mark.thorough
def test_cleared_storage_is_a_new_device_with_a_new_budget(device, gateway) -> None:
    device.evaluate(RATE, rating(1))
    placed(device, 1)
    before = device.evaluate("device.pseudonym")
    device.evaluate("device.forgetMe()")
    assert opened(device, gateway) is None
    assert device.evaluate("device.pseudonym") != before
    assert device.evaluate("device.spent()") == {"reports": 0, "epsilon": 0, "left": 10}


@pytest.mark.thorough
def test_a_tab_of_a_forgotten_device_draws_nothing(device, tab, gateway) -> None:
    device.evaluate("device.forgetMe()")
    assert "nothing was drawn or sent" in tab.evaluate(RATE, rating(1))
    assert gateway.posts == []


@pytest.mark.thorough
def test_another_tab_learns_of_a_change(device, tab, gateway) -> None:
    tab.evaluate("() => { device.onchange = () => { globalThis.changed = true; }; }")
    device.evaluate(RATE, rating(1))
    tab.wait_for_function("globalThis.changed")


def test_nothing_but_the_report_leaves_the_browser(page, gateway) -> None:
    """Every request of the browser is taken apart: the same for two opposite histories, but for
    what the mechanism drew, the pseudonym and the day."""
    asked = []
    page.on("request", lambda request: asked.append((request.url, request.post_data)))
    seen = []
    for level in (0, 4):
        asked.clear()
        assert opened(page, gateway) is None
        for item in range(1, 6):
            page.evaluate(RATE, rating(item, level))
        placed(page, 5)
        bodies = [json.loads(body) for _, body in asked if body]
        assert all(
            set(body) == {"v", "device", "seq", "mechanism", "epoch", "items", "reports"}
            for body in bodies
        )
        urls = [url.removeprefix(gateway.address) for url, _ in asked]
        seen.append((urls, [(b["seq"], b["items"], len(b["reports"])) for b in bodies]))
        page.evaluate("device.forgetMe()")
    assert seen[0] == seen[1]


@pytest.mark.thorough
@pytest.mark.statistical
def test_reports_have_the_law_of_the_table(device, gateway) -> None:
    """Draws 20,000 reports of each level with the browser's words and compares with the table.

    False alarm: below 1e-6 (chi-square of 20 degrees of freedom above 66.6 has 6e-7). A report that
    is kept with probability .60 in place of .649 gives a statistic above 1,000: power is 1.
    """
    seen = device.evaluate("""async () => {
      const { sample } = await import("/web/device.js"), [{ counts }] = device.mechanisms;
      return counts.map((row, level) => {
        const found = row.map(() => 0), words = new BigUint64Array(4000);
        for (let block = 0; block < 5; block++)
          for (const word of crypto.getRandomValues(words)) found[sample(counts, level, word)]++;
        return found;
      });
    }""")
    expected = np.array(described(IDS[0])["counts"], float) / 2.0**64 * 20_000
    assert ((np.array(seen) - expected) ** 2 / expected).sum() < 66.6
