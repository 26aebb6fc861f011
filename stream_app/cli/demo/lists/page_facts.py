"""What the page of a demo shows of its simulated people, as a file that the gateway serves: its
size, how good its lists are, and one person's ratings and lists."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stream_app.cli.demo.lists.people import People
from stream_app.cli.demo.lists.quality import Judged, K
from stream_app.gateway.reads.demo_files import FACTS_NAME
from stream_app.kafka import durable_file

_RATED = 5


@dataclass
class PageFacts:
    """The facts in a demo's folder; null until they are known."""

    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)

    def update(self, **facts: Any) -> None:
        """Add facts and write all of them; a reader never sees half a file."""
        unknown = dict.fromkeys(("quality", "genres", "attacker", "example"))
        self.facts = unknown | self.facts | facts
        content = json.dumps(self.facts).encode()
        durable_file.replace(self.folder / FACTS_NAME, content, durable_file.SHARED)

    def judged(self, lists: Judged, attacker: dict[str, float] | None = None) -> None:
        """Add how good the lists are, and the first of the two people that the story shows."""
        found, quality = lists.found, lists.quality
        if found is not None:
            for user in found.shown()[:1]:
                example = example_of(found.people, user, found.here[user], found.popular[user])
                self.update(example=example)
        self.update(quality=quality and quality.facts(), genres=lists.genres, attacker=attacker)


def example_of(
    people: People, user: int, listed: Iterable[int], popular: Iterable[int]
) -> dict[str, Any]:
    """Return one person's likes, best ratings and lists of item keys, as ids."""
    rated = people.rated(user)[:_RATED]
    return {
        "likes": people.likes(user),
        "rated": [{"item": people.items[key], "stars": stars} for key, stars in rated],
        "list": [people.items[key] for key in listed if key in people.items][:K],
        "popular": [people.items[key] for key in popular][:K],
    }
