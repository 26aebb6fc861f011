"""What the page of a demo shows of its simulated people, as files that the gateway serves.

demo.json          size, how good its lists are, and one person's ratings and lists: while the
                   ratings arrive of a usual person, for a visitor who has rated nothing yet
privacy-off.side   the item side from the true ratings
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consumers.recommendations import Recommendations
from stream_app.cli.demo.lists.people import People
from stream_app.cli.demo.lists.privacy_off import PrivacyOffTwin, write_side
from stream_app.cli.demo.lists.quality import Judged, K
from stream_app.cli.demo.setup import DemoSetup
from stream_app.errors import UserError
from stream_app.gateway.contract.bodies import exact
from stream_app.gateway.reads.demo_files import FACTS_NAME
from stream_app.kafka import durable_file
from stream_app.wire import key_of

_RATED = 5
_EARLY, _FEW = 5, 15  # the usual person has so many ratings in the first fifth
_SECONDS = 5.0  # between two looks
_ANSWER_SECONDS = 2.0


@dataclass
class PageFacts:
    """The facts in a demo's folder; null until they are known. Of a file's people, who are not
    simulated, none is an example for visitors."""

    folder: Path
    simulated: bool = True
    facts: dict[str, Any] = field(default_factory=dict)

    def update(self, **facts: Any) -> None:
        """Add facts and write all of them; a reader never sees half a file."""
        unknown = dict.fromkeys(("quality", "genres", "attacker", "example"))
        if not self.simulated:
            facts |= {"example": None}
        self.facts = unknown | self.facts | facts
        content = json.dumps(self.facts).encode()
        durable_file.replace(self.folder / FACTS_NAME, content, durable_file.SHARED)

    def judged(self, lists: Judged, attacker: dict[str, float] | None = None) -> None:
        """Add how good the lists are, and the first of the two people that the story shows."""
        found, quality = lists.found, lists.quality
        if found is not None:
            for user in found.shown()[:1]:
                example = example_of(found.people, user, found.served[user], found.popular[user])
                self.update(example=example)
        self.update(quality=quality and quality.facts(), genres=lists.genres, attacker=attacker)


def example_of(
    people: People, user: int, listed: Iterable[int], popular: Iterable[int]
) -> dict[str, Any]:
    """Return one person's likes, best ratings and lists of item keys, as ids."""
    rated = people.typical(user)[:_RATED]
    return {
        "likes": people.likes(user),
        "rated": [{"item": exact(people.items[key]), "stars": stars} for key, stars in rated],
        "list": [exact(people.items[key]) for key in listed][:K],
        "popular": [exact(people.items[key]) for key in popular][:K],
    }


class LiveLists:
    """Asks for the lists of one person now and then, and writes both files of the page."""

    def __init__(
        self, demo: DemoSetup, people: People, twin: PrivacyOffTwin, facts: PageFacts
    ) -> None:
        self._demo, self._people, self._twin, self._facts = demo, people, twin, facts
        self._user, self._looked = self._usual_user(), 0.0
        self._server = Recommendations(demo.connection, demo.topics.prefix)

    def close(self) -> None:
        """Leave the broker."""
        self._server.close()

    def update(self, rows: int) -> None:
        """Look again if the last look is old; `rows` ratings of the population are published."""
        if time.monotonic() - self._looked < _SECONDS:
            return
        write_side(self._demo.folder, self._twin.side(rows))
        population = self._demo.population
        own_rows = np.flatnonzero(population.users == self._user)
        listed = self._asked(population.devices[self._user].hex())
        if listed and own_rows[0] < rows:
            items, counts = np.unique(population.items[:rows], return_counts=True)
            items = items[np.argsort(-counts, kind="stable")]
            popular = items[~np.isin(items, population.items[own_rows])][:K]
            user = int(self._people.users[own_rows[0]])
            self._facts.update(example=example_of(self._people, user, listed, popular.tolist()))
        self._looked = time.monotonic() - (0.0 if listed else _SECONDS - 1.0)

    def _usual_user(self) -> int:
        """Return a user who rates early, neither little nor much."""
        users, number = self._demo.population.users, len(self._demo.population.devices)
        early = np.bincount(users[: max(1, len(users) // _EARLY)], minlength=number)
        counts = np.bincount(users, minlength=number)
        usual = np.abs(counts - np.median(counts))
        return int(np.lexsort((usual, early < _FEW))[0])

    def _asked(self, pseudonym: str) -> list[int]:
        try:
            found = self._server.best(pseudonym, K, _ANSWER_SECONDS).items
        except UserError:
            return []  # a busy worker: the lists are asked for again
        # A visitor may have rated an item that no person of the demo has.
        return [key for key in map(key_of, found) if key in self._people.items]
