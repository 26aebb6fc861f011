"""Write every picture of the documents.

    python -m tests.pictures             # drawings, plots, previews of the boards: three minutes
    python -m tests.pictures --drawings  # drawings alone: no Kafka, no Prometheus
    python -m tests.pictures --page URL  # also the page, of `murmurec demo --keep`

Drawings and previews are in docs/pictures; plots are drawn from the committed measurements
(`tests/benchmarks/report.py`), and the page by a browser (`tests/page/pictures.py`).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tests.pictures import boards, live
from tests.pictures.drawings import DRAWINGS
from tests.pictures.series import filled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drawings", action="store_true", help="the drawings alone")
    parser.add_argument("--page", metavar="URL", help="also the page at this address")
    options = parser.parse_args()
    for path, drawn in DRAWINGS.items():
        _write(path, drawn().svg().encode())
    if options.drawings:
        return
    tool = shutil.which("prometheus")
    if tool is None:
        parser.error("prometheus is not on the PATH (Debian: apt-get install prometheus)")
    _run("tests.benchmarks.report")
    if options.page:
        _run("tests.page.pictures", options.page)
    _boards(tool)


def _boards(tool: str) -> None:
    """Draw the previews of one run; `tool` is the program of Prometheus."""
    with live.recorded(tool) as run:
        found = {each: [filled(panel, run) for panel in each.panels] for each in boards.PREVIEWS}
    for preview, panels in found.items():
        for scheme in boards.SCHEMES:
            _write(preview.path(scheme), boards.draw(preview, panels, scheme))


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    print(f"{path.name}: {len(content) / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
