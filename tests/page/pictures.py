"""Write the pictures of the README: the page after ten ratings.

    murmurec demo --keep                                     # prints the address of its page
    python -m tests.page.pictures http://127.0.0.1:8480/     # into tests/benchmarks/

    page-light.png, page-dark.png   1280 wide, the head of the page: the three columns
    page-phone.png                  400 wide, the head of the page

Colours are reduced to a palette, so that a picture is small.
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
PHONE = {"width": 400, "height": 1400}


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
          return Promise.all(document.getAnimations().map(a => a.finished.catch(() => 0)));
        }"""
    )
    visitor.page.mouse.move(2, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="address of a page, such as that of murmurec demo --keep")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    with (
        launched() as browser,
        visiting(browser, origin(options.url), viewport=WIDE) as visitor,
    ):
        visitor.rate_ten()
        visitor.all_confirmed(10)
        visitor.page.locator("#asked > li").first.wait_for()
        for scheme in ("light", "dark"):
            visitor.page.emulate_media(color_scheme=scheme)
            still(visitor)
            write(options.folder / f"page-{scheme}.png", visitor.page.screenshot())
        visitor.page.emulate_media(color_scheme="light")
        visitor.page.set_viewport_size(PHONE)
        still(visitor)
        write(options.folder / "page-phone.png", visitor.page.screenshot())


if __name__ == "__main__":
    main()
