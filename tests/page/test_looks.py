"""What the page looks like: nothing is clipped at any width, and axe-core finds no violation, in
three tabs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.page.conftest import Visit
from tests.page.visitor import Visitor
from tests.page.world import World

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
AXE = Path(__file__).parents[1] / "vendor" / "axe-core" / "axe.min.js"
WIDTHS = (1280, 390)
TABS = ("yours", "reports", "operators")
SCHEMES = ("light", "dark")
Rated = tuple[Visitor, list[dict[str, Any]]]

# Text that its box cuts off; what is for readers of the screen alone has a box of one pixel.
_CLIPPED = """() => [...document.querySelectorAll("body *")].filter(node => {
  const style = getComputedStyle(node);
  if (!node.offsetParent || node.clientWidth <= 1 || style.display === "inline") return false;
  const cut = over => over !== "visible" && over !== "auto" && over !== "scroll";
  return (cut(style.overflowX) && node.scrollWidth > node.clientWidth + 1)
    || (cut(style.overflowY) && node.scrollHeight > node.clientHeight + 1);
}).map(node => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 60)}`)"""
_OUTSIDE = """() => [...document.querySelectorAll("body *")].filter(node => {
  const { right, left, width } = node.getBoundingClientRect();
  // One comes into view with the focus, others by scrolling their row.
  const away = node.matches(".skip") || node.closest(".cards > *, .listed > *");
  return !away && node.offsetParent && width > 1 && (right > innerWidth + 1 || left < -1);
}).map(node => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 60)}`)"""
_AXE = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations.map(
  ({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).slice(0, 5).join(" | ")}`)"""


def settled(page: Page) -> None:
    """Return when nothing moves any more: contrast is that of what stays."""
    page.evaluate("Promise.all(document.getAnimations().map(a => a.finished.catch(() => 0)))")


def violations(page: Page) -> list[str]:
    if not page.evaluate("typeof axe === 'object'"):
        # Run by the debugger, as the policy of the page allows no script in its text.
        page.evaluate(AXE.read_text(encoding="utf-8") + "; 0")
    settled(page)
    found: list[str] = page.evaluate(_AXE)
    return found


def fits(page: Page) -> None:
    """Fail where the page scrolls sideways or cuts text off."""
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(_OUTSIDE) + page.evaluate(_CLIPPED) == []


@pytest.fixture(params=[(width, scheme) for width in WIDTHS for scheme in SCHEMES], ids=str)
def shown(rated: Rated, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Give the page after ten ratings at a width and in a colour scheme."""
    width, scheme = request.param
    page = rated[0].page
    rated[0].open("reports")
    page.locator("#asked > li").first.wait_for()
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    yield page
    page.evaluate("scrollTo(0, 0)")


@pytest.mark.parametrize("tab", TABS)
def test_after_ten_ratings_all_fits_and_axe_finds_nothing(shown: Page, tab: str) -> None:
    shown.locator(f"#tab-{tab}").click()
    shown.locator(f"#panel-{tab}").wait_for()
    fits(shown)
    assert violations(shown) == []


def test_light_and_dark_are_two_looks_of_one_page(rated: Rated) -> None:
    page = rated[0].page
    colours = set()
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        colours.add(
            page.evaluate(
                "[document.body, document.documentElement].map("
                "node => getComputedStyle(node).backgroundColor).join()"
            )
        )
    assert len(colours) == 2


@pytest.mark.parametrize("width", WIDTHS)
def test_before_a_rating_all_fits_and_axe_finds_nothing(
    demo: World, visit: Visit, width: int
) -> None:
    visitor = visit(demo.gateway.url, viewport={"width": width, "height": 900})
    visitor.ready()
    for tab in TABS:
        visitor.open(tab)
        fits(visitor.page)
        assert violations(visitor.page) == []


def test_columns_stand_side_by_side_and_on_a_phone_below_each_other(rated: Rated) -> None:
    page = rated[0].page
    rated[0].open("reports")
    boxes = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        boxes[width] = [
            page.locator(name).bounding_box() for name in ("#device", "#wire", "#server")
        ]
    wide, narrow = boxes[1280], boxes[390]
    assert len({round(box["y"]) for box in wide}) == 1
    assert [box["x"] for box in wide] == sorted({box["x"] for box in wide})
    assert [box["y"] for box in narrow] == sorted({box["y"] for box in narrow})


def test_axe_core_finds_what_is_planted(visit: Visit, demo: World) -> None:
    visitor = visit(demo.gateway.url)
    visitor.ready()
    visitor.page.evaluate(
        """() => {
          const planted = document.createElement("p");
          planted.innerHTML = "<button></button><span>pale</span>";
          planted.lastChild.style.color = "#bbb"; // a style in the text the policy would refuse
          document.querySelector("main").append(planted);
        }"""
    )
    found = json.dumps(violations(visitor.page))
    assert "button-name" in found
    assert "color-contrast" in found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_documents_fit_and_axe_finds_nothing(demo: World, visit: Visit, scheme: str) -> None:
    visitor = visit(
        demo.gateway.url + "/docs", color_scheme=scheme, viewport={"width": 400, "height": 900}
    )
    visitor.page.locator("h1").wait_for()
    assert violations(visitor.page) == []
    assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
