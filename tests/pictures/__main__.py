"""Write every picture of the documents into docs/pictures.

    python -m tests.pictures             # drawings, and previews of the boards: three minutes
    python -m tests.pictures --drawings  # drawings alone: no Kafka, no Prometheus

The pictures of the page are those of `tests/page/pictures.py`, the plots of the measurements those
of `tests/benchmarks/report.py`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.fixtures.programs import program
from tests.pictures import boards, live
from tests.pictures.drawings import DRAWINGS
from tests.pictures.series import filled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drawings", action="store_true", help="the drawings alone")
    options = parser.parse_args()
    for path, drawn in DRAWINGS.items():
        _write(path, drawn().svg().encode())
    if options.drawings:
        return
    with live.recorded(program("prometheus", package="prometheus")) as run:
        found = {each: [filled(panel, run) for panel in each.panels] for each in boards.PREVIEWS}
    for preview, panels in found.items():
        for scheme in boards.SCHEMES:
            _write(preview.path(scheme), boards.draw(preview, panels, scheme))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    print(f"{path.name}: {len(content) / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
