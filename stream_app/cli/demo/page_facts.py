"""What the page of a demo shows of its population: a file that the gateway serves."""

from __future__ import annotations

import json
from pathlib import Path

from stream_app.cli.demo.quality import ListQuality
from stream_app.cli.demo.setup import FACTS_NAME
from stream_app.kafka import durable_file


def write_facts(
    folder: Path, mode: str, people: int, ratings: int, quality: ListQuality | None
) -> None:
    """Write the size and, once it is measured, the quality; a reader never sees half a file."""
    facts = {"mode": mode, "people": people, "ratings": ratings}
    content = json.dumps(facts | {"quality": quality and quality.facts()}).encode()
    durable_file.replace(folder / FACTS_NAME, content, durable_file.SHARED)
