"""Write the pictures of the page: its first tab with a part taken, and the one of reports.

    murmurec demo --mode split --keep                        # prints the address of its page
    python -m tests.page.pictures http://127.0.0.1:8480/     # into tests/benchmarks/

    page-light.png, page-dark.png   1280 wide: the first tab after some films and a contribution
    page-phone.png                  390 wide: the same
    page-reports.png                1280 wide: the head of the second tab, after ten ratings there

Where a deployment takes no campaigns, the first tab is shown without a part. Colours are reduced to
a palette, so that a picture is small.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from tests.benchmarks.page import launched
from tests.page.visitor import Visitor, origin, visiting

FOLDER = Path(__file__).parents[1] / "benchmarks"
COLOURS, MOST_BYTES = 64, 150_000
WIDE = {"width": 1280, "height": 1130}
LIKED = ("western", "war")


def write(path: Path, picture: bytes) -> None:
    """Write a picture with a palette; raises ValueError where it is still too large."""
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as full:
        packed = io.BytesIO()
        reduced = full.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        reduced.save(packed, "PNG", optimize=True)
    if len(packed.getvalue()) > MOST_BYTES:
        raise ValueError(f"{path.name}: {len(packed.getvalue())} bytes, {MOST_BYTES} at most")
    path.write_bytes(packed.getvalue())
    print(f"{path}: {len(packed.getvalue()) // 1000} kB")


def still(visitor: Visitor) -> None:
    """Return when nothing moves, at the top of the page and without a focus."""
    visitor.page.evaluate(
        """() => {
          document.activeElement.blur();
          scrollTo(0, 0);
          for (const row of document.querySelectorAll(".cards, .listed")) row.scrollTo(0, 0);
          return Promise.all(document.getAnimations().map(a => a.finished.catch(() => 0)));
        }"""
    )
    visitor.page.mouse.move(2, 2)


def rate_cards(visitor: Visitor) -> None:
    """Give 5 stars to the films of two genres among the first cards, and 2 to the others."""
    visitor.page.locator("#cards .card").first.wait_for()
    cards = visitor.page.locator("#cards .card")
    for place in range(cards.count()):
        liked = cards.nth(place).locator(".facts-of").first.inner_text().startswith(LIKED)
        cards.nth(place).locator(".stars label").nth(4 if liked else 1).click()
        visitor.says("#kept", f"{place + 1} rating")


def take_part(visitor: Visitor) -> None:
    """Contribute where the deployment takes campaigns, and return when the part has counted."""
    visitor.page.locator("#take-part:visible, #part-body code").first.wait_for()
    if visitor.page.locator("#take-part").is_visible():
        visitor.page.locator("#take-part").click()
        visitor.page.locator("#part-stages [data-stage=counted].done").wait_for()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="address of a page, such as that of murmurec demo --keep")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    url = origin(options.url)
    with launched() as browser:
        with visiting(browser, url, viewport=WIDE) as visitor:
            rate_cards(visitor)
            take_part(visitor)
            for scheme in ("light", "dark"):
                visitor.page.emulate_media(color_scheme=scheme)
                still(visitor)
                picture = visitor.page.screenshot(full_page=True)
                write(options.folder / f"page-{scheme}.png", picture)
            visitor.page.emulate_media(color_scheme="light")
            visitor.page.set_viewport_size({"width": 390, "height": 844})
            still(visitor)
            write(options.folder / "page-phone.png", visitor.page.screenshot(full_page=True))
        with visiting(browser, url, viewport=WIDE) as visitor:
            visitor.rate_ten()
            visitor.all_confirmed(10)
            still(visitor)
            write(options.folder / "page-reports.png", visitor.page.screenshot())


if __name__ == "__main__":
    main()
