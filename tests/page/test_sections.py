"""The page after ten ratings, section by section, against the device's journal and the topic."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from producers.ranking import ranker
from stream_app.ranking.compact_side import decode_side
from tests.fixtures.waiting import until
from tests.page.conftest import Visit
from tests.page.visitor import TEN, Visitor
from tests.page.world import ALLOWED, World

pytestmark = pytest.mark.kafka
Rated = tuple[Visitor, list[dict[str, Any]]]
_BELIEF = """row => {
  const bars = [...row.querySelectorAll(".bar")];
  const heights = bars.map(bar => parseFloat(bar.querySelector("i").style.height));
  const marked = bars.map(bar => bar.classList.contains("true"));
  return [marked, heights, row.querySelector(".guess").innerText];
}"""

_STATUS = """() => new Promise(resolve => {
  const source = new EventSource("/stream");
  source.addEventListener("status", ({ data }) => {
    source.close();
    resolve(JSON.parse(data));
  });
})"""


def films(demo: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(demo.gateway.get("/catalogue"))["items"]
    return found


def test_the_device_shows_what_was_clicked_and_what_was_sent(rated: Rated) -> None:
    visitor, records = rated
    assert [record["level"] for record in records] == list(TEN)
    for record in records:
        film = visitor.page.locator(f'#films [data-key="{record["key"]}"]')
        checked = film.locator("input:checked")
        assert checked.get_attribute("value") == str(record["level"])
        assert checked.is_disabled()  # it is reported once
        assert str(record["report"] + 1) in film.locator(".answer").inner_text()


def test_the_wire_shows_the_bytes_and_places_that_kafka_has(rated: Rated, demo: World) -> None:
    visitor, records = rated
    rows = visitor.page.locator("#events > li")
    shown = [rows.nth(place) for place in reversed(range(len(records)))]  # newest first
    bodies = [row.locator("code").text_content() for row in shown]
    places = [row.locator(".place").inner_text() for row in shown]
    stored = demo.stored(json.loads(records[0]["body"])["device"])
    assert bodies == [record["body"] for record in records]
    assert bodies == [value.decode() for _, _, value in stored]
    assert places == [f"partition {part}, offset {offset}" for part, offset, _ in stored]
    visitor.says("#wire", "Public whatever epsilon is")


def test_the_server_holds_a_belief_of_each_film_and_the_true_level_is_marked(rated: Rated) -> None:
    visitor, records = rated
    assert visitor.count("#beliefs > li") == len(records)
    for record in records:
        row = visitor.page.locator(f'#beliefs [data-key="{record["key"]}"]')
        marked, heights, verdict = row.evaluate(_BELIEF)  # at once: a newer side draws it again
        assert marked == [level == record["level"] for level in range(5)]
        guess = heights.index(max(heights))  # a film's prior can outweigh a report
        assert f"guesses {guess + 1}\u00a0★" in verdict
        assert verdict.endswith("right" if guess == record["level"] else "wrong")


def test_the_own_list_is_that_of_the_public_side_and_has_reasons(rated: Rated, demo: World) -> None:
    visitor, records = rated
    visitor.says("#own-note", "From your true stars")  # the side has arrived
    listed = visitor.page.locator("#own > li")
    keys = listed.evaluate_all("all => all.map(item => item.dataset.key)")
    history = {int(record["key"], 16): record["level"] + 1.0 for record in records}
    side = decode_side(demo.gateway.get("/item-links"))
    own = ranker.Rated.untimed(list(history), list(history.values()))._replace(
        days=np.array([record["epoch"] for record in records]), places=np.arange(len(records))
    )
    ranked = ranker.Ranker(side).rank(own, 10, because=True)
    # The side may have been published again since the page read it.
    again = {f"{int(row.item):016x}" for row in ranked}
    assert len(set(keys)) == 10
    assert len(set(keys) & again) >= 8
    assert not {int(key, 16) for key in keys} & set(history)
    assert visitor.count("#own .why") >= 1


def test_the_servers_list_stands_beside_it(rated: Rated, demo: World) -> None:
    visitor, records = rated
    device = json.loads(records[0]["body"])["device"]
    known = {str(record["item"]) for record in records}

    def learned() -> bool:  # a worker may be behind
        items = json.loads(demo.gateway.get(f"/recommendations/{device}?k=10"))["items"]
        return known.isdisjoint(str(row["item"]) for row in items)

    until(learned, "a list without what was rated")
    visitor.page.reload()  # it asks once more
    visitor.all_confirmed(10)
    visitor.page.locator("#asked > li").first.wait_for()
    rows = visitor.page.locator("#asked > li")
    asked = rows.evaluate_all("all => all.map(item => item.dataset.key)")
    assert len(asked) == 10
    assert not {record["key"] for record in records} & set(asked)  # it knows what was rated
    titles = {film["key"]: film["title"] for film in films(demo)}
    shown = rows.locator(".title").all_inner_texts()
    assert shown == [titles[key] for key in asked]


def test_the_meter_speaks_in_words_and_counts_what_is_left(rated: Rated) -> None:
    visitor, _ = rated
    meter = visitor.text("#meter")
    assert "7.4 times likelier" in meter
    assert "10 answers" in meter
    assert "Your budget is spent" in visitor.text("#left")  # 10 of 2 are the whole 20


def test_the_attacker_counts_right_guesses_and_says_what_presence_tells(rated: Rated) -> None:
    visitor, records = rated
    assert visitor.count("#beliefs .guess em") == len(records)

    def says_what_the_beliefs_say() -> bool:  # not at once where a newer side comes between
        right = visitor.count("#beliefs .guess em.right")
        return f"{right} of 10" in visitor.text("#guesses")

    until(says_what_the_beliefs_say, "the count of right guesses")
    visitor.says("#presence", "of your 10 recommended films are the same")
    visitor.says("#presence", "does not hide which films you rated")


def test_the_map_has_places_for_films_of_both_lists(rated: Rated) -> None:
    visitor, _ = rated
    visitor.page.locator("#map svg").wait_for()
    assert visitor.count("#map svg circle") >= 20
    assert visitor.page.locator("#map svg").get_attribute("role") == "img"


def test_the_stream_shows_numbers_and_their_baselines(rated: Rated) -> None:
    visitor, _ = rated
    visitor.open("operators")
    visitor.says("#live", "live")
    status = visitor.page.evaluate(_STATUS)
    assert status["rmse_baseline"] is not None
    visitor.says("#figures", "by each film’s average")
    if status["ndcg_popular"] is not None:
        visitor.says("#figures", "by popularity alone")

    def says_how_many() -> bool:  # not at once where the worker learns of another one
        devices = visitor.page.evaluate(_STATUS)["devices"]
        return f"from {devices} devices" in visitor.text("#figures")

    until(says_how_many, "the devices of the newest status")
    figures = visitor.text("#figures")
    assert "KL" in figures
    assert "NaN" not in figures
    assert "-0\n" not in figures
    assert "records not yet applied" in figures
    assert "deploy/alerts.yml" in visitor.text("#alerts")
    visitor.open("reports")


def test_a_spent_budget_refuses_a_rating_and_sends_nothing(rated: Rated, demo: World) -> None:
    visitor, records = rated
    film = visitor.page.locator("#films .film:not(.rated)").first
    film.locator(".stars label").first.click()
    visitor.says("#problem", "budget")
    assert visitor.records() == records
    assert len(demo.stored(json.loads(records[0]["body"])["device"])) == len(records)


# --- what a visitor does --------------------------------------------------------------------------


def test_three_films_and_the_protection_by_keyboard_alone(demo: World, visit: Visit) -> None:
    visitor = visit(demo.gateway.url)
    visitor.ready()
    keys = visitor.page.keyboard

    def focused(selector: str) -> bool:
        return bool(visitor.page.evaluate("s => document.activeElement.matches(s)", selector))

    def tab_to(selector: str) -> None:
        for _ in range(60):
            if focused(selector):
                return
            keys.press("Tab")
        raise AssertionError(f"{selector}: not reached by Tab")

    tab_to("#protection input")
    before = visitor.page.locator("#protection input:checked").get_attribute("value")
    keys.press("ArrowRight")
    after = visitor.page.locator("#protection input:checked").get_attribute("value")
    assert before != after
    assert after in ALLOWED
    assert focused("#protection input")  # drawing it again keeps the focus
    for level in (1, 3, 0):
        tab_to("#films .film:not(.rated) .stars input")
        outline = visitor.page.evaluate(
            """() => [document.activeElement, document.activeElement.closest("label"),
              document.activeElement.closest("label").querySelector(".star")].some(node =>
              getComputedStyle(node).outlineStyle !== "none"
              || getComputedStyle(node).boxShadow !== "none")"""
        )
        assert outline  # the focus is seen
        keys.press("Space") if level == 0 else None
        for _ in range(level):
            keys.press("ArrowRight")
        if level:
            keys.press("Space")
        visitor.page.wait_for_function(
            "count => document.querySelectorAll('#films .film.rated').length === count",
            arg={1: 1, 3: 2, 0: 3}[level],
        )
    visitor.all_confirmed(3)
    assert {record["mechanism"] for record in visitor.records()} == {after}
    assert visitor.page.locator("#protection input").first.is_disabled()


@pytest.mark.thorough
def test_two_tabs_are_one_device(demo: World, visit: Visit) -> None:
    visitor = visit(demo.gateway.url)
    visitor.ready()
    tab = visitor.context.new_page()
    other = Visitor(tab, visitor.context, visitor.complaints)
    tab.goto(demo.gateway.url)
    other.ready()
    first = visitor.rate(4)
    other.page.locator(f'#films .film.rated[data-key="{first}"]').wait_for()
    for place in range(6):
        (visitor, other)[place % 2].rate(place % 5)
        for each in (visitor, other):
            each.page.wait_for_function(
                "n => document.querySelectorAll('#films .film.rated').length === n", arg=place + 2
            )
    for each in (visitor, other):
        each.all_confirmed(7)
    records = visitor.records()
    assert [record["seq"] for record in records] == list(range(1, 8))
    stored = demo.stored(json.loads(records[0]["body"])["device"])
    assert [value.decode() for _, _, value in stored] == [record["body"] for record in records]


def test_a_reload_shows_the_same_and_sends_nothing_again(demo: World, visit: Visit) -> None:
    visitor = visit(demo.gateway.url)
    visitor.ready()
    keys = [visitor.rate(level) for level in (4, 2)]
    visitor.all_confirmed(2)
    visitor.says("#left", "8 more ratings")
    before = visitor.records()
    visitor.page.reload()
    visitor.all_confirmed(2)
    assert visitor.records() == before
    visitor.page.locator("#films .film.rated").nth(len(keys) - 1).wait_for()
    assert len(demo.stored(json.loads(before[0]["body"])["device"])) == 2


@pytest.mark.thorough
def test_storage_that_is_cleared_is_a_new_device(demo: World, visit: Visit) -> None:
    visitor = visit(demo.gateway.url)
    visitor.ready()
    visitor.rate(4)
    visitor.all_confirmed(1)
    before = json.loads(visitor.records()[0]["body"])["device"]
    client = visitor.context.new_cdp_session(visitor.page)
    client.send("Storage.clearDataForOrigin", {"origin": demo.gateway.url, "storageTypes": "all"})
    visitor.page.reload()
    visitor.ready()
    assert visitor.count("#films .film.rated") == 0
    visitor.rate(0)
    visitor.all_confirmed(1)
    after = json.loads(visitor.records()[0]["body"])
    assert after["device"] != before
    assert after["seq"] == 1


@pytest.mark.thorough
def test_start_again_deletes_the_ratings_and_says_that_devices_add_up(
    demo: World, visit: Visit
) -> None:
    visitor = visit(demo.gateway.url)
    visitor.ready()
    visitor.rate(4)
    visitor.all_confirmed(1)
    before = json.loads(visitor.records()[0]["body"])["device"]
    asked: list[str] = []
    visitor.page.on("dialog", lambda box: (asked.append(box.message), box.accept()))
    with visitor.page.expect_navigation():
        visitor.page.locator("#again").click()
    visitor.ready()
    assert "adds the two up" in asked[0]
    assert visitor.records() == []
    visitor.rate(3)
    visitor.all_confirmed(1)
    assert json.loads(visitor.records()[0]["body"])["device"] != before


def test_without_javascript_it_says_why_it_needs_it(demo: World, visit: Visit) -> None:
    visitor = visit(demo.gateway.url, java_script_enabled=False)
    assert "needs JavaScript" in visitor.text("noscript")


def test_an_insecure_page_says_so_and_draws_nothing(demo: World, visit: Visit) -> None:
    hidden = "Object.defineProperty(globalThis, 'isSecureContext', { value: false })"
    visitor = visit("about:blank", site=demo.gateway.url)
    visitor.context.add_init_script(hidden)
    visitor.page.goto(demo.gateway.url)
    visitor.says("#problem", "https")
    visitor.page.locator("#cards .stars label").first.click()
    assert visitor.count("#cards .rated") == 0
    assert visitor.page.locator("#take-part").is_hidden()
    visitor.open("reports")
    visitor.page.locator("#films .film").first.wait_for()
    visitor.page.locator("#films .stars label").first.click()
    assert visitor.count("#events .place") == 0
