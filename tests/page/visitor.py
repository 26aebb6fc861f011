"""A visitor of the page: what a person does and sees, and what a browser complains about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fixtures.browser import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

TEN = (4, 1, 3, 0, 4, 2, 4, 0, 3, 4)  # levels, from 0
# What a browser writes when a request gets no answer or a refusal; a page cannot keep it from that.
UNANSWERED = "Failed to load resource"
_RECORDS = """name => new Promise((resolve, reject) => {
  const opening = indexedDB.open(name);
  opening.onerror = () => reject(opening.error);
  opening.onsuccess = () => {
    const reading = opening.result.transaction("records").objectStore("records").getAll();
    reading.onsuccess = () => { opening.result.close(); resolve(reading.result); };
  };
})"""


@dataclass(eq=False)
class Visitor:
    """One page; `context` is the browser's storage behind it, `complaints` what must be empty."""

    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)

    def open(self, tab: str) -> None:
        """Open a tab: yours, reports or operators."""
        self.page.locator(f"#tab-{tab}").click()
        self.page.locator(f"#panel-{tab}").wait_for()

    def ready(self) -> None:
        """Return when films can be rated in the tab of reports."""
        self.open("reports")
        self.page.locator("#protection input").first.wait_for(state="attached")
        self.page.locator("#films .film input:not([disabled])").first.wait_for()

    def rate(self, level: int) -> str:
        """Click the star of this level of the first film without a rating; return its key."""
        film = self.page.locator("#films .film:not(.rated)").first
        key = film.get_attribute("data-key")
        assert key is not None
        row = self.page.locator(f'#films .film[data-key="{key}"]')
        row.locator(".stars label").nth(level).click()
        self.page.locator(f'#films .film.rated[data-key="{key}"]').wait_for()
        return key

    def rate_ten(self) -> list[str]:
        """Rate ten films; return their keys, oldest first."""
        self.ready()
        return [self.rate(level) for level in TEN]

    def all_confirmed(self, count: int) -> None:
        """Return when so many events stand on the page with the place where Kafka has them."""
        self.page.wait_for_function(
            """count => {
              const places = [...document.querySelectorAll("#events .place")];
              return places.length === count && places.every(
                ({ textContent }) => /partition \\d+, offset \\d+/.test(textContent));
            }""",
            arg=count,
        )

    def text(self, selector: str) -> str:
        """Return the words of a part as they are shown."""
        return self.page.locator(selector).inner_text()

    def count(self, selector: str) -> int:
        """Return how many parts there are."""
        return self.page.locator(selector).count()

    def says(self, selector: str, words: str) -> None:
        """Return when a part has these words in it."""
        self.page.locator(selector).filter(has_text=words).first.wait_for()

    def records(self, database: str = "murmurec") -> list[dict[str, Any]]:
        """Return the journal as the browser's database holds it, oldest first."""
        found: list[dict[str, Any]] = self.page.evaluate(_RECORDS, database)
        return found


@contextmanager
def visiting(
    browser: Browser, url: str, *, site: str = "", unanswered: bool = False, **options: Any
) -> Iterator[Visitor]:
    """Open a page with storage of its own; at the end there must be no complaint.

    `site`: where requests may go, where `url` is only the first page. `unanswered`: requests
    without an answer are part of what is tested.
    """
    with browser.new_context(**options) as context:
        context.set_default_timeout(PATIENCE_MS)
        visitor = Visitor(context.new_page(), context)
        watch(context, site or origin(url), visitor.complaints, unanswered)
        visitor.page.goto(url)
        yield visitor
        assert not visitor.complaints, visitor.complaints


def origin(url: str) -> str:
    """Return scheme, host and port of an address."""
    return "/".join(url.split("/")[:3])


def watch(
    context: BrowserContext, url: str, complaints: list[str], unanswered: bool = False
) -> None:
    """Add to `complaints` each error, each warning, and each request to another host than `url`."""

    def wrote(message: Any) -> None:
        if unanswered and UNANSWERED in message.text:
            return
        if message.type in ("error", "warning", "assert"):
            complaints.append(f"{message.type}: {message.text}")

    def asked(request: Any) -> None:
        if not request.url.startswith((url + "/", "data:", "blob:")):
            complaints.append(f"another host: {request.url}")

    context.on("console", wrote)
    context.on("weberror", lambda found: complaints.append(f"uncaught: {found.error}"))
    context.on("request", asked)
