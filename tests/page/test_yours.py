"""The first tab over a gateway in memory: ratings stay here, the list follows, and a part is
contributed once, whatever happens on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from stream_app import wire
from stream_app.campaigns.verified import field
from stream_app.wire.campaigns.plan import Campaign
from tests.fixtures.waiting import until
from tests.page.conftest import Visit
from tests.page.stand import QUALITY, stand
from tests.page.test_looks import SCHEMES, WIDTHS, fits, violations
from tests.page.visitor import Visitor
from tests.web import campaign_inputs
from tests.web.small_gateway import SmallGateway
from tests.web.test_campaigning import KEYS, vector

pytestmark = pytest.mark.thorough
Enter = Callable[..., Visitor]
HOSTILE = ('<img src=x onerror="fail()">', "</text></svg><script>fail()</script>", 'a "b" & c <b>')
_PASTE = """text => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text", text);
  const pasting = new ClipboardEvent("paste", { clipboardData, cancelable: true });
  document.querySelector("#pasted").dispatchEvent(pasting);
}"""
_KEPT = """() => new Promise((resolve, reject) => {
  const opening = indexedDB.open("murmurec");
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = () => {
    const about = opening.result.transaction("about").objectStore("about");
    const reading = about.get("kept");
    reading.onsuccess = () => { opening.result.close(); resolve(reading.result ?? []); };
  };
})"""

_READ_AGAIN = """() => import("/web/view.js").then(({ view }) => {
  view.catalogue = view.catalogue.map((film) => ({ ...film })); // as the page does
  view.films = new Map(view.catalogue.map((film) => [film.key, film]));
})"""
_FINGER = """() => import("/web/pressing.js").then(({ unlessPressed }) => {
  const drawn = [];
  const draw = unlessPressed(() => drawn.push(drawn.length));
  const send = (name, buttons) => dispatchEvent(new PointerEvent(name, { buttons }));
  const drawnAfter = (name, buttons) => (send(name, buttons), draw(), drawn.length);
  const found = [drawnAfter("pointerdown", 1), drawnAfter("pointerup", 0), drawnAfter("click", 0)];
  globalThis.drawn = drawn;
  return [...found, drawnAfter("pointerdown", 1), drawnAfter("pointercancel", 0)];
})"""

_RATES_LATER = """() => import("/web/view.js").then(({ view: { device } }) => {
  const rate = device.rate.bind(device), waits = new Promise((go) => { globalThis.go = go; });
  device.rate = (...given) => waits.then(() => rate(...given));
})"""


@pytest.fixture(scope="module")
def campaign(request: pytest.FixtureRequest) -> Campaign:
    found = campaign_inputs.campaign(40, KEYS)
    return msgspec.structs.replace(found, number=getattr(request, "param", found.number))


@pytest.fixture
def gateway(campaign: Campaign) -> Iterator[SmallGateway]:
    with stand(campaign) as found:
        yield found


@pytest.fixture
def local() -> Iterator[SmallGateway]:
    with stand() as found:
        yield found


@pytest.fixture
def enter(visit: Visit) -> Enter:
    """Open the page of a gateway as a new visitor, and return when films can be rated."""

    def entered(gateway: SmallGateway, path: str = "", **options: Any) -> Visitor:
        visitor = visit(gateway.address + path, unanswered=True, **options)
        ready(visitor)
        return visitor

    return entered


def ready(visitor: Visitor) -> None:
    visitor.page.locator("#cards .card").first.wait_for()
    known = "#take-part:enabled:not([hidden]), #part-body code, #stop-part:not([hidden])"
    visitor.page.locator(known).first.wait_for()
    knows(visitor, "view.ready")


def keep(visitor: Visitor, levels: tuple[int, ...]) -> list[str]:
    """Rate the first cards, which keep their places from the first click; return their keys once
    all are kept."""
    cards, rated = visitor.page.locator("#cards .card"), visitor.page.locator("#cards .card.rated")
    for place, level in enumerate(levels):
        cards.nth(place).locator(".stars label").nth(level).click()
        rated.nth(place).wait_for()
    return shown(visitor)[: len(levels)]


def kept(visitor: Visitor) -> dict[str, int]:
    return {each["key"]: each["level"] for each in visitor.page.evaluate(_KEPT)}


def shares_of(visitor: Visitor) -> Any:
    """Return the shares that the journal keeps for the page to show."""
    return visitor.page.evaluate("""() => import("/web/view.js").then(async ({ view }) =>
      (await view.device.all()).campaigns?.shares ?? null)""")


def listed(visitor: Visitor) -> list[str]:
    found: list[str] = visitor.page.locator("#listed > li").evaluate_all(
        "all => all.map(item => item.dataset.key)"
    )
    return found


def shown(visitor: Visitor, row: str = "#cards .card") -> list[str]:
    """Return the keys of the cards, in their order."""
    keys: list[str] = visitor.page.locator(row).evaluate_all(
        "all => all.map(card => card.dataset.key)"
    )
    return keys


def press(visitor: Visitor, row: str, place: int) -> None:
    """Press the button on a star, and keep it down."""
    visitor.page.locator(row).nth(place).locator(".stars label").nth(3).hover()
    visitor.page.mouse.down()


def mark(visitor: Visitor) -> None:
    visitor.page.evaluate(
        """() => import("/web/view.js").then(({ view }) => { globalThis.marked = view.spent })"""
    )


def knows(visitor: Visitor, expression: str) -> None:
    """Return when the page knows something, whether or not it has drawn it."""
    asked = f"""() => import("/web/view.js").then(({{ view }}) => Boolean({expression}))"""
    until(lambda: visitor.page.evaluate(asked), expression)


def read_since(visitor: Visitor, expression: str) -> None:
    """Return when the page knows something and has read its journal since `mark`: what it has to
    draw of that is drawn or due."""
    knows(visitor, f"view.spent !== marked && {expression}")


def beside(visitor: Visitor, gateway: SmallGateway) -> Visitor:
    """Open a second page of the same browser."""
    page = visitor.context.new_page()
    page.goto(gateway.address)
    found = Visitor(page, visitor.context, visitor.complaints)
    ready(found)
    return found


def done(visitor: Visitor, stage: str) -> None:
    visitor.page.locator(f'#part-stages [data-stage="{stage}"].done').wait_for()


# --- ratings stay here ----------------------------------------------------------------------------


def test_before_a_rating_the_list_is_the_popular_films(enter: Enter, local: SmallGateway) -> None:
    visitor = enter(local)
    visitor.says("#list-note", "The popular films, until you rate one.")
    assert len(listed(visitor)) == 10


def test_a_rating_is_kept_and_changes_the_list_and_nothing_is_sent(
    enter: Enter, local: SmallGateway
) -> None:
    visitor = enter(local)
    keys = keep(visitor, (4, 0, 3))
    assert kept(visitor) == dict(zip(keys, (4, 0, 3), strict=True))
    visitor.says("#list-note", "Ranked here")
    assert not set(keys) & set(listed(visitor))
    visitor.says("#listed .why", "goes with")
    visitor.page.locator(f'#cards [data-key="{keys[1]}"] .stars label').nth(2).click()  # changed
    visitor.page.locator(f'#cards [data-key="{keys[0]}"] .forget').click()
    until(lambda: kept(visitor) == {keys[1]: 2, keys[2]: 3}, "one is changed, one forgotten")
    visitor.page.reload()
    visitor.says("#kept", "2 ratings kept here and not sent")
    assert visitor.records() == []
    assert local.posts == local.contributions == []
    visitor.says("#part-public", "nothing but that this address opened the page")
    visitor.says("#part-body", "takes no campaigns")


def test_a_kept_rating_is_not_reported_and_a_reported_one_counts_for_the_list(
    enter: Enter, local: SmallGateway
) -> None:
    visitor = enter(local)
    (first,) = keep(visitor, (4,))
    visitor.page.locator("#tab-reports").click()
    assert visitor.count("#events .place") == 5  # of the example
    row = visitor.page.locator("#films .film:not(.rated)").nth(2)
    reported = row.get_attribute("data-key")
    row.locator(".stars label").nth(3).click()
    visitor.page.locator("#films .film.rated").wait_for()
    until(lambda: len(local.posts) == 1, "the report arrived")
    (record,) = visitor.records()
    assert record["key"] == reported
    assert visitor.count("#events .place") == 1
    visitor.page.locator("#tab-yours").click()
    assert not {first, reported} & set(listed(visitor))
    card = visitor.page.locator(f'#cards [data-key="{reported}"]')
    assert card.locator("input:checked").get_attribute("value") == "3"
    assert card.locator("input").first.is_disabled()  # what was reported stays
    assert kept(visitor) == {first: 4}
    assert json.loads(local.posts[0])["items"] == [int(reported, 16)]
    visitor.says("#part-public", "1 answer with noise")


@pytest.mark.parametrize(("tab", "row"), [("yours", "#cards .card"), ("reports", "#films .film")])
def test_a_click_counts_though_the_order_of_the_films_arrives_while_the_button_is_down(
    visit: Visit, local: SmallGateway, tab: str, row: str
) -> None:
    first, again = [], []  # the page reads the catalogue until it is the same twice

    def asked(route: Any) -> None:
        (again if first else first).append(route)
        if not again:
            route.continue_()

    visitor = visit(local.address + "/web/dom.js", unanswered=True)
    visitor.page.route("**/catalogue", asked)
    visitor.page.goto(local.address)
    knows(visitor, "view.ready")
    visitor.open(tab)
    before = shown(visitor, row)
    press(visitor, row, 3)
    until(lambda: visitor.page.evaluate("1") and again, "the catalogue is asked for again")
    known = json.loads(local.pages["/catalogue"])
    again[0].fulfill(json=known | {"items": known["items"][::-1]})
    knows(visitor, f"view.catalogue.at(-1)?.key === '{known['items'][0]['key']}'")
    visitor.page.mouse.up()
    visitor.page.locator(f'{row}.rated[data-key="{before[3]}"]').wait_for()
    assert shown(visitor, row) == before


def test_a_click_counts_though_another_film_is_reported_while_the_button_is_down(
    enter: Enter, local: SmallGateway
) -> None:
    visitor = enter(local)
    other = beside(visitor, local)
    for each in (visitor, other):
        each.open("reports")
    press(visitor, "#films .film", 1)
    mark(visitor)
    other.rate(4)
    read_since(visitor, "view.history.length")
    visitor.page.mouse.up()
    visitor.page.locator("#films .film.rated").nth(1).wait_for()


def test_a_click_counts_though_a_problem_is_to_be_said_above_it(
    enter: Enter, gateway: SmallGateway
) -> None:
    visitor = enter(gateway)
    key = shown(visitor)[1]
    press(visitor, "#cards .card", 1)
    gateway.pages["/campaign"] = b"of a proxy in between"  # the page of a demo asks again
    knows(visitor, "view.problems.has('part')")
    mark(visitor)
    read_since(visitor, "true")
    visitor.page.mouse.up()
    visitor.page.locator(f'#cards .card.rated[data-key="{key}"]').wait_for()
    visitor.page.locator("#problem").wait_for()


def test_no_words_of_a_rating_cover_the_next_film_while_a_finger_is_on_it(
    enter: Enter, local: SmallGateway
) -> None:
    visitor = enter(local, viewport={"width": 390, "height": 844})
    visitor.open("reports")
    visitor.page.evaluate(_RATES_LATER)
    visitor.page.locator("#films .film").first.locator(".stars label").nth(4).click()
    press(visitor, "#films .film", 1)
    visitor.page.evaluate("go()")
    knows(visitor, "view.records.length")
    for _ in range(3):  # that of the change, that of the rating, and one after them
        mark(visitor)
        visitor.page.evaluate("import('/web/view.js').then(({ view }) => view.device.changed())")
        read_since(visitor, "true")
    assert visitor.text("#last") == ""
    visitor.page.mouse.up()
    visitor.page.locator("#films .film.rated").nth(1).wait_for()
    visitor.says("#last", "you clicked")


def test_nothing_is_drawn_between_the_release_of_a_finger_and_its_click(
    enter: Enter, local: SmallGateway
) -> None:
    visitor = enter(local)
    assert visitor.page.evaluate(_FINGER) == [0, 0, 1, 1, 1]
    until(lambda: visitor.page.evaluate("drawn.length") == 2, "what was due without a click")


def test_a_choice_by_keyboard_and_the_focus_survive_a_report_of_another_film(
    enter: Enter, local: SmallGateway
) -> None:
    visitor = enter(local)
    visitor.ready()
    visitor.page.locator("#films .film").nth(1).locator("input").first.focus()
    visitor.page.keyboard.press("ArrowRight")
    other = beside(visitor, local)
    other.ready()
    other.rate(4)
    visitor.page.locator("#films .film.rated").wait_for()
    visitor.page.keyboard.press("Enter")
    visitor.page.locator("#films .film.rated").nth(1).wait_for()
    assert [record["level"] for record in visitor.records()] == [4, 1]


def test_the_operators_have_a_link_to_grafana_where_it_is_known(
    visit: Visit, local: SmallGateway
) -> None:
    visitor = visit(local.address + "/#operators", unanswered=True)
    link, address = visitor.page.locator("#boards a"), "https://grafana.example.org/boards"
    for given in (None, "javascript:alert(1)", address):
        local.grafana = given
        visitor.page.reload()
        knows(visitor, "view.ready")
        visitor.open("yours")
        visitor.open("operators")  # draws what is known
        assert link.is_visible() is (given == address)
    assert link.get_attribute("href") == address
    assert "noopener" in str(link.get_attribute("rel"))
    visitor.page.route(f"{address}*", lambda route: route.fulfill(body="boards"))
    with visitor.page.expect_navigation(url=address):
        link.click()
    visitor.complaints.clear()  # the other host that was asked for


def test_stars_and_tabs_by_keyboard_alone(enter: Enter, local: SmallGateway) -> None:
    visitor = enter(local)
    visitor.page.locator("#cards .stars input").first.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        visitor.page.keyboard.press(key)
    visitor.says("#kept", "1 rating kept")
    assert list(kept(visitor).values()) == [2]
    assert visitor.page.evaluate("document.activeElement.closest('.card') !== null")
    visitor.page.locator("#tab-yours").focus()
    for key, name in (("ArrowRight", "reports"), ("End", "operators"), ("ArrowRight", "yours"),
                      ("ArrowLeft", "operators"), ("Home", "yours")):  # fmt: skip
        visitor.page.keyboard.press(key)
        assert visitor.page.evaluate("document.activeElement.id") == f"tab-{name}"
        assert visitor.page.locator(f"#panel-{name}").is_visible()
        assert visitor.count("[role=tab][tabindex='-1']") == 2


def test_the_address_names_the_tab_over_a_reload_and_the_back_button(
    enter: Enter, local: SmallGateway
) -> None:
    visitor = enter(local)
    page = visitor.page
    for name in ("reports", "operators"):
        page.locator(f"#tab-{name}").click()
        page.wait_for_url(f"{local.address}/#{name}")
    page.reload()
    page.locator("#panel-operators").wait_for()
    page.go_back()
    page.locator("#panel-reports").wait_for()
    page.go_back()
    page.locator("#panel-yours").wait_for()
    page.go_forward()
    page.locator("#panel-reports").wait_for()
    page.evaluate("location.hash = 'no-such-part'")
    assert page.locator("#panel-reports").is_visible()
    page.locator("#protection a").click()
    page.locator("#panel-yours").wait_for()


def test_the_first_screen_has_the_three_facts_in_few_words(
    enter: Enter, local: SmallGateway, gateway: SmallGateway
) -> None:
    for found in (local, gateway):
        visitor = enter(found, viewport={"width": 1280, "height": 800})
        visitor.says("#fact-worth", f"{QUALITY['here']:.3f}")
        words = " ".join(visitor.text(part) for part in ("header", "#lead", "[role=tablist]"))
        assert len(words.split()) <= 120
        visitor.says("#fact-costs", "times likelier")
        if found is gateway:
            visitor.says("#fact-costs", "but for a chance of one in")
        visitor.says("#quality", "Popular films")
        bottom = visitor.page.locator("#cards .card .stars").first.bounding_box()
        assert bottom is not None
        assert bottom["y"] + bottom["height"] <= 800  # and the first films


def says_what_leaves(visitor: Visitor, tab: str, headline: str, leaves: str, costs: str) -> None:
    visitor.open(tab)
    assert visitor.text("h1") == headline
    assert leaves in visitor.text("#fact-leaves")
    assert costs in visitor.text("#fact-costs")


CLICK = "Rate films. Each click sends the film and an answer with noise."
HERE = "Rate films. What you rate here stays with you."
UNTIL = "What you rate here stays here until you take part."
SUM = "What you rate here leaves only in your part of a sum."
STREAM = "What everybody sends. Nothing of yours leaves from this tab."
ANSWER = "the film, the day, and an answer with noise in place of your stars, under this pseudonym"


@pytest.mark.parametrize("parties", [0, 1, 2])
def test_each_tab_says_what_leaves_from_it_in_each_mode(enter: Enter, parties: int) -> None:
    campaign = campaign_inputs.campaign(40, KEYS[:parties]) if parties else None
    with stand(campaign) as gateway:
        visitor = enter(gateway)
        vectors = ["Nothing from this tab. From the next one", "can read it", "Two random vectors"]
        reads = vectors[parties]
        costs = "Epsilon" if parties else "Nothing in this tab."
        says_what_leaves(visitor, "yours", UNTIL if parties else HERE, reads, costs)
        says_what_leaves(visitor, "reports", CLICK, ANSWER, "That you rated a film is public.")
        says_what_leaves(visitor, "operators", STREAM, "Nothing from this tab.", "Nothing in")
        sent = len(gateway.posts)
        visitor.ready()
        visitor.rate(4)
        visitor.all_confirmed(1)
        (body,) = map(json.loads, gateway.posts[sent:])
        assert set(body) == {"v", "device", "seq", "mechanism", "epoch", "items", "reports"}
        if parties:
            visitor.open("yours")
            visitor.page.locator("#take-part").click()
            done(visitor, "stored")
            says_what_leaves(visitor, "yours", SUM, reads, costs)
            says_what_leaves(visitor, "operators", STREAM, "your part in the sum, too", "Nothing")
        assert len(gateway.posts) == sent + 1
        assert len(gateway.contributions) == (1 if parties else 0)


def test_where_no_single_rating_is_reported_the_tab_says_that_nothing_is_sent(
    enter: Enter, local: SmallGateway
) -> None:
    local.mechanisms = [each | {"in_browser": False} for each in local.mechanisms]
    visitor = enter(local)
    says_what_leaves(
        visitor, "reports", "Single reports. Nothing is sent from this tab.", "Nothing", "Nothing"
    )


@pytest.mark.parametrize("campaign", [2], indirect=True)  # counted as those of a demo
def test_a_phone_sees_two_screens(enter: Enter, gateway: SmallGateway, campaign: Campaign) -> None:
    visitor = enter(gateway, viewport={"width": 390, "height": 844})

    def screens() -> float:
        fits(visitor.page)
        found: float = visitor.page.evaluate("document.documentElement.scrollHeight / innerHeight")
        return found

    def tall(button: str) -> bool:
        found = visitor.page.locator(button).bounding_box()
        return found is not None and found["height"] >= 44

    visitor.says("#quality", "Popular films")
    visitor.says("#part-body", "a campaign, for you as a whole")
    assert screens() <= 1.95
    keep(visitor, (4, 3))
    assert screens() <= 1.95
    assert tall("#take-part")
    visitor.page.locator("#take-part").click()
    done(visitor, "stored")
    assert tall("#stop-part")
    for part in ("#fact-leaves", "#fact-worth", "#fact-costs", "#part-shares .strip >> nth=2"):
        assert visitor.page.locator(part).is_visible()
    assert screens() <= 2
    visitor.page.locator("#stop-part").click()
    visitor.page.locator("#take-part").wait_for()
    assert screens() <= 2
    visitor.page.locator("#take-part").click()
    gateway.pin(msgspec.structs.replace(campaign, number=campaign.number + 1))
    visitor.says("#part-words", "Your part counted in campaign 2")
    assert screens() <= 2


@pytest.mark.parametrize("width", WIDTHS)
def test_with_campaigns_all_fits_and_axe_finds_nothing(
    enter: Enter, gateway: SmallGateway, width: int
) -> None:
    visitor = enter(gateway, viewport={"width": width, "height": 844})

    def looks() -> None:
        for scheme in SCHEMES:
            visitor.page.emulate_media(color_scheme=scheme)
            fits(visitor.page)
            assert violations(visitor.page) == []

    visitor.says("#quality", "Popular films")
    looks()
    keep(visitor, (4, 3))
    visitor.page.locator("#take-part").click()
    done(visitor, "stored")
    looks()


# --- the part in a campaign -----------------------------------------------------------------------


def test_one_click_contributes_what_was_kept_and_shows_the_shares_that_were_sealed(
    enter: Enter, gateway: SmallGateway, campaign: Campaign
) -> None:
    visitor = enter(gateway)
    visitor.says("#part-shares .example", "nobody’s")
    keys = keep(visitor, (4, 4, 0))
    scope = {f"{wire.key(item):016x}" for item in campaign.scope} - set(keys)
    until(lambda: scope.issuperset(listed(visitor)), "a list by the side of the campaign")
    visitor.says("#listed .why", "goes with")
    visitor.page.locator("#take-part").click()
    done(visitor, "stored")
    (body,) = gateway.contributions
    _, found = vector(campaign, body)
    places = {f"{item:016x}": n for n, item in enumerate(campaign.scope) if isinstance(item, int)}
    liked = sorted(places[key] for key in keys[:2] if places[key] < 20)
    assert sorted(found[:20].nonzero()[0]) == liked
    shares = shares_of(visitor)
    assert shares["vector"] == found[:160].tolist()
    for a, b, whole in zip(shares["a"], shares["b"], shares["vector"], strict=True):
        total = (round(a * field.P) + round(b * field.P) - whole) % field.P
        assert min(total, field.P - total) <= 2  # a double holds the share of p
    assert visitor.count("#part-shares .strip") == 3
    of_all, of_some = visitor.page.evaluate("""() => import("/web/campaign/sealing.js").then(
      ({ sharesOf }) => {
        const vector = new Int32Array(400).fill(5, 300), device = "00".repeat(16);
        const plan = { parties: 2, digest: "00".repeat(32) }, secret = new Uint8Array(32);
        const told = { plan, stage: 0, device, vector, secret };
        return [sharesOf(told, 400), sharesOf(told)];
      })""")
    assert {name: of_all[name][240:] for name in of_all} == of_some  # from the first rating on
    assert visitor.page.locator("#part-shares .example").count() == 0
    visitor.says("#part-public", "nothing but that you took part")
    assert visitor.records() == []
    assert gateway.posts == []
    visitor.page.locator("#stop-part").click()
    visitor.page.locator("#take-part").wait_for()
    visitor.page.reload()
    ready(visitor)
    visitor.says("#part-public", "nothing but that you took part")
    visitor.says("#kept", "3 ratings kept here; they leave only as your part in the sum")


def test_a_double_click_takes_part_and_does_not_stop_at_once(
    enter: Enter, gateway: SmallGateway
) -> None:
    visitor = enter(gateway)
    visitor.says("#quality", "Popular films")  # what moves the page has arrived
    gateway.phase = "closed"  # before the second click no part is made
    mouse, corner = visitor.page.mouse, {"x": 12, "y": 12}
    visitor.page.locator("#take-part").click(position=corner)
    visitor.page.locator("#stop-part").wait_for()
    mouse.down(click_count=2)
    mouse.up(click_count=2)
    gateway.phase = "open"
    done(visitor, "stored")
    assert visitor.page.locator("#stop-part").is_visible()


def test_of_one_party_it_is_said_that_it_can_read_the_part(enter: Enter) -> None:
    with stand(campaign_inputs.campaign(40, KEYS[:1])) as gateway:
        visitor = enter(gateway)
        visitor.says("#part-body", "one party, which can read it")
        visitor.says("#fact-leaves", "can read it")
        assert visitor.count("#part-shares .strip") == 0
        assert "random" not in visitor.text("#panel-yours") + visitor.text("#lead")


def test_the_page_follows_the_stage_until_its_sum_is_released(
    enter: Enter, gateway: SmallGateway, campaign: Campaign
) -> None:
    visitor = enter(gateway)
    keep(visitor, (4,))
    visitor.page.locator("#take-part").click()
    done(visitor, "stored")
    assert visitor.count("#part-stages .done") == 2
    gateway.phase, gateway.counted = "counted", 41
    done(visitor, "counted")
    visitor.says("#part-stages", "of 41 contributions")
    assert visitor.count("#part-stages .done") == 3
    gateway.phase = "released"
    done(visitor, "released")
    # The next stage is contributed to by itself; the device paid for the whole campaign.
    gateway.stage, gateway.phase, gateway.counted = 1, "open", None
    until(lambda: len(gateway.contributions) == 2, "the second stage has a part")


def test_after_the_next_campaign_the_own_part_is_still_said_to_have_counted(
    enter: Enter, gateway: SmallGateway, campaign: Campaign
) -> None:
    visitor = enter(gateway)
    visitor.page.locator("#take-part").click()
    done(visitor, "stored")

    gateway.pin(msgspec.structs.replace(campaign, number=campaign.number + 2**12))
    visitor.says("#part-words", f"Your part counted in campaign {campaign.number}")
    done(visitor, "released")
    assert len(gateway.contributions) == 1  # the pace of the device


@pytest.mark.thorough
def test_a_gateway_that_does_not_answer_is_no_deployment_without_campaigns(
    enter: Enter, gateway: SmallGateway
) -> None:
    visitor = enter(gateway)
    gateway.mechanisms_status = 503
    visitor.page.reload()
    visitor.says("#part-body", "does not answer")


def test_a_gateway_that_goes_away_in_a_stage_gets_the_same_bytes(
    enter: Enter, gateway: SmallGateway
) -> None:
    visitor = enter(gateway)
    keep(visitor, (4,))
    gateway.answers = [0, 503]
    visitor.page.locator("#take-part").click()
    done(visitor, "stored")
    assert len(gateway.contributions) == 3
    assert len(set(gateway.contributions)) == 1


@pytest.mark.parametrize("change", ["forget", "report"])
def test_a_changed_rating_takes_the_shown_shares_and_the_same_bytes_are_sent(
    enter: Enter, gateway: SmallGateway, change: str
) -> None:
    visitor = enter(gateway)
    keys = keep(visitor, (4, 3))
    gateway.answers = [503] * 2  # the part waits
    visitor.page.locator("#take-part").click()
    visitor.page.locator("#part-shares:not(.nobodys) .strip").nth(2).wait_for()
    cards = visitor.page.locator("#cards .card")
    cards.nth(2).locator(".stars label").nth(2).click()  # is no part of it
    visitor.says("#kept", "3 ratings")
    assert shares_of(visitor) is not None
    if change == "report":
        visitor.open("reports")
        row = visitor.page.locator(f'#films [data-key="{keys[1]}"]')
        row.locator(".stars label").nth(1).click()
        visitor.page.locator(f'#films .rated[data-key="{keys[1]}"]').wait_for()
        visitor.open("yours")
    else:
        visitor.page.locator(f'#cards [data-key="{keys[1]}"] .forget').click()
    visitor.says("#part-shares", "not kept here any more")
    assert visitor.count("#part-shares .strip") == 0
    assert shares_of(visitor) is None
    done(visitor, "stored")
    assert len(set(gateway.contributions)) == 1


def test_a_reload_in_between_sends_the_same_bytes(enter: Enter, gateway: SmallGateway) -> None:
    visitor = enter(gateway)
    gateway.answers = [503] * 2
    visitor.page.locator("#take-part").click()
    until(lambda: gateway.contributions, "the first try")
    visitor.page.reload()
    done(visitor, "stored")
    assert len(set(gateway.contributions)) == 1


def test_two_tabs_make_one_contribution_and_share_what_was_kept(
    enter: Enter, gateway: SmallGateway
) -> None:
    visitor = enter(gateway)
    tab = beside(visitor, gateway)
    keep(visitor, (4, 2))
    tab.says("#kept", "2 ratings kept")
    for each in (visitor, tab):
        each.page.evaluate("document.querySelector('#take-part').click()")
    for each in (visitor, tab):
        done(each, "stored")
    assert len(set(gateway.contributions)) == 1


def test_a_phone_that_sleeps_goes_on_when_it_wakes(enter: Enter, gateway: SmallGateway) -> None:
    visitor = enter(gateway)
    visitor.page.clock.install()
    visitor.page.reload()
    ready(visitor)
    gateway.phase = "closed"
    visitor.page.locator("#take-part").click()
    visitor.says("#part-words", "when a stage opens")
    visitor.page.clock.fast_forward("08:00:00")  # timers fire once, as after a sleep
    gateway.phase = "open"

    def contributed() -> bool:
        visitor.page.clock.run_for(1000)
        return bool(gateway.contributions)

    until(contributed, "the part is sent")
    assert len(set(gateway.contributions)) == 1


@pytest.mark.parametrize("seconds", [0, 4_102_444_800])  # 1970 and 2100
def test_a_clock_that_is_wrong_keeps_and_contributes(
    visit: Visit, gateway: SmallGateway, seconds: int
) -> None:
    visitor = visit("about:blank", site=gateway.address, unanswered=True)
    visitor.page.clock.install(time=seconds)
    visitor.page.goto(gateway.address)
    ready(visitor)
    keep(visitor, (4, 1))
    visitor.page.locator("#take-part").click()
    done(visitor, "stored")
    assert len(gateway.contributions) == 1


def test_storage_that_is_refused_is_said_and_nothing_is_drawn(
    visit: Visit, gateway: SmallGateway
) -> None:
    visitor = visit("about:blank", site=gateway.address, unanswered=True)
    visitor.context.add_init_script("""indexedDB.open = () => {
      throw new DOMException("this site may not store anything", "SecurityError"); }""")
    visitor.page.goto(gateway.address)
    visitor.says("#problem", "storage is not available, so nothing was drawn or sent")
    visitor.page.locator("#cards .card").first.wait_for()
    visitor.page.evaluate(_READ_AGAIN)
    visitor.page.locator("#cards .stars label").first.click()
    until(lambda: visitor.count("#cards input:checked") == 0, "a card without the choice")
    assert visitor.count("#cards .rated") == 0
    assert visitor.page.locator("#take-part").is_hidden()
    assert gateway.contributions == gateway.posts == []


# --- bad input ------------------------------------------------------------------------------------


def test_titles_with_markup_are_words_on_covers_and_lists(enter: Enter, visit: Visit) -> None:
    with stand(titles=HOSTILE) as gateway:
        visitor = enter(gateway)
        names = visitor.page.locator("#cards .card > .title").all_text_contents()
        assert set(HOSTILE) <= set(names)
        drawn = "".join(visitor.page.locator("#cards .cover text").all_text_contents())
        assert "<img" in drawn
        keep(visitor, (4,))
        visitor.page.locator("#tab-reports").click()
        assert visitor.count("main img") + visitor.count("main script") == 0


def test_ten_thousand_pasted_ratings_do_not_freeze_the_page(
    enter: Enter, campaign: Campaign
) -> None:
    with stand(campaign, items=1200) as gateway:
        gateway.pages["/catalogue"] = many = with_more(gateway.pages["/catalogue"], 10_060)
        visitor = enter(gateway)
        titles = [each["title"] for each in json.loads(many)["items"]][50:10_050]
        lines = [f"{title}, {1 + n % 5}" for n, title in enumerate(titles)]
        visitor.page.locator("#paste summary").click()
        visitor.page.evaluate(_PASTE, "\n".join(["no such film, 3", *lines]))
        visitor.page.locator("#paste-in").click()
        visitor.says("#kept", "10,000 ratings kept here")
        visitor.says("#problem", "1 name no film here")
        assert listed(visitor)
        keep(visitor, (3,))
        visitor.page.locator("#take-part").click()
        done(visitor, "stored")
        visitor.page.evaluate(_PASTE, "a film, 3\n" * 20_001)
        visitor.page.locator("#paste-in").click()
        visitor.says("#problem", "20,001 lines: 20,000 at most")
        visitor.says("#kept", "10,001 ratings")


def with_more(catalogue: bytes, count: int) -> bytes:
    """Return the catalogue with films that no table knows, so many in all."""
    rows = json.loads(catalogue)["items"]
    more = [
        rows[n % len(rows)] | {"item": key, "key": f"{key:016x}", "title": f"Film {n} (1999)"}
        for n, key in enumerate(range(10**6, 10**6 + count - len(rows)))
    ]
    return json.dumps({"items": rows + more, "left_out": 0}).encode()
