"""The page in a browser: first paint, size, requests, findings of axe and words on the first screen
over three tabs, two widths and two colour schemes; from a click to the confirmed offset; and how
long a contribution to a campaign takes.

A deployment as the tests have it (`tests/page/world.py`), on loopback: what is measured is the page
and the way to Kafka and back, not a network. Cold: each opening has storage and a cache of its own.
First paint is what the browser reports (`first-contentful-paint`), from the start of navigation.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stream_app.broker.resolve import running as broker_running
from stream_app.kafka.clients import Connection
from tests.benchmarks.figure import Figure
from tests.conftest import cache_dir
from tests.fixtures.browser import ARGUMENTS, chromium, serving
from tests.page.test_looks import SCHEMES, TABS, WIDTHS, violations
from tests.page.visitor import Visitor, visiting
from tests.page.world import world
from tests.web.web_vectors import PATH as VECTORS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OPENINGS, CLICKS = 5, 8
DATA = (
    *("/reports", "/campaign", "/contributions"),
    "/catalogue",
    "/mechanisms",
    "/item-links",
    "/demo",
    "/stream",
    "/recommendations",
)
_PAINT = """() => new Promise(resolve => new PerformanceObserver((list, observer) => {
  const found = list.getEntriesByName("first-contentful-paint");
  if (found.length) { observer.disconnect(); resolve(found[0].startTime); }
}).observe({ type: "paint", buffered: true }))"""
# Names, and how many bytes each part had before it was compressed.
_PARTS = """() => [...performance.getEntriesByType("navigation"),
  ...performance.getEntriesByType("resource")].map(
    ({ name, decodedBodySize, encodedBodySize }) => [name, decodedBodySize, encodedBodySize])"""

# Each contribution of zeros, which takes as long as any, from its vector to its record.
_CONTRIBUTIONS = """async ([size, count]) => {
  const { sealed } = await import("/campaign/sealing.js"), found = [];
  const plan = { digest: "00".repeat(32), parties: 2, keys: ["09".repeat(32), "0a".repeat(32)],
    stages: [{ size, bound: 2048 }] };
  for (let n = 0; n < count; n++) {
    const began = performance.now();
    await sealed({ plan, stage: 0, device: "00".repeat(16), vector: new Int32Array(size),
      secret: new Uint8Array(32).fill(n) });
    found.push(performance.now() - began);
  }
  return found;
}"""


@contextmanager
def launched() -> Iterator[Browser]:
    """Run a Chromium for the length of the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        yield browser
        browser.close()


def first_paint(page: Page) -> float:
    """Return the milliseconds from the start of the navigation to the first content."""
    return float(page.evaluate(_PAINT))


def confirmed_seconds(visitor: Visitor) -> list[float]:
    """Return for each rating the seconds from the click to the offset on the page."""
    visitor.ready()
    found = []
    for count in range(1, CLICKS + 1):
        star = visitor.page.locator("#films .film:not(.rated) .stars label").first
        star.scroll_into_view_if_needed()
        began = time.perf_counter()
        star.click()
        visitor.all_confirmed(count)
        found.append(time.perf_counter() - began)
    return found


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="murmurec-page-") as name, launched() as browser:
        folder = Path(name)
        with (
            broker_running(folder / "broker", cache_dir(), configured=None) as broker,
            world(Connection(broker.bootstrap), "page", folder, demo=True) as made,
        ):
            return [*figures(browser, made.gateway.url), *contributions(browser)]


def figures(browser: Browser, url: str) -> list[Figure]:
    """Return the figures of a page at this address."""
    paints, parts, times = [], [], []
    for opening in range(OPENINGS):
        with visiting(browser, url) as visitor:
            paints.append(first_paint(visitor.page))
            if opening == 0:
                times = confirmed_seconds(visitor)
                visitor.page.locator("#asked > li").first.wait_for()
                parts = visitor.page.evaluate(_PARTS)
    own = [(size, sent) for part, size, sent in parts if not urlsplit(part).path.startswith(DATA)]
    hosts = {urlsplit(part).netloc for part, _, _ in parts if part.startswith("http")}
    kilobytes = [sum(sizes) / 1000 for sizes in zip(*own, strict=True)]
    findings, words = looks(browser, url)
    return [
        Figure(
            "page: findings of axe, three tabs, two widths, light and dark", findings, "", "<= 0"
        ),
        Figure("page: words above the tabs, with the three facts", words, "", "<= 120"),
        Figure("page: first paint, median, cold", statistics.median(paints), "ms", "<= 300"),
        Figure("page: size without data", kilobytes[0], "kB", "<= 200"),
        Figure("page: the same as sent, compressed", kilobytes[1], "kB"),
        Figure("page: files without data", len(own), ""),
        Figure("page: requests to other hosts", len(hosts - {urlsplit(url).netloc}), "", "<= 0"),
        Figure("page: click to confirmed offset, median", 1000 * statistics.median(times), "ms"),
    ]


def looks(browser: Browser, url: str) -> tuple[int, int]:
    """Return how many findings axe has, and how many words stand above the tabs' content."""
    findings, words = 0, 0
    for width in WIDTHS:
        with visiting(browser, url, viewport={"width": width, "height": 800}) as visitor:
            visitor.page.locator("#cards .card").first.wait_for()
            for scheme, tab in product(SCHEMES, TABS):
                visitor.page.emulate_media(color_scheme=scheme)
                visitor.open(tab)
                findings += len(violations(visitor.page))
            shown = " ".join(visitor.text(each) for each in ("header", "#lead", "[role=tablist]"))
            words = max(words, len(shown.split()))
    return findings, words


def contributions(browser: Browser) -> list[Figure]:
    """Return how long a proved and sealed contribution takes, by the integers of its vector."""
    found = []
    with serving(VECTORS.parent) as site, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site}/vectors.json")
        for size in (12_000, 45_000):
            times = page.evaluate(_CONTRIBUTIONS, [size, OPENINGS])
            name = f"page: contribution to a campaign, {size:,} integers, slowest of {OPENINGS}"
            found.append(Figure(name, max(times), "ms", "<= 1000"))
    return found
