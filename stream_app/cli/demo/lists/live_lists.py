"""Lists while the ratings of a demo arrive: one person's, for the page to show before a visitor has
rated anything, and the item side with privacy off."""

from __future__ import annotations

import time

import numpy as np

from consumers.recommendations import Recommendations
from stream_app.cli.demo.lists.page_facts import PageFacts, example_of
from stream_app.cli.demo.lists.people import People
from stream_app.cli.demo.lists.privacy_off import PrivacyOffTwin, write_side
from stream_app.cli.demo.lists.quality import K
from stream_app.cli.demo.setup import DemoSetup
from stream_app.errors import UserError
from stream_app.wire import key_of

_EARLY, _FEW = 5, 15  # the person has so many ratings in the first fifth
_SECONDS = 5.0  # between two looks
_ANSWER_SECONDS = 2.0


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
        mine = np.flatnonzero(population.users == self._user)
        listed = self._asked(population.devices[self._user].hex())
        if listed and mine[0] < rows:
            items, counts = np.unique(population.items[:rows], return_counts=True)
            items = items[np.argsort(-counts, kind="stable")]
            popular = items[~np.isin(items, population.items[mine])][:K]
            user = int(self._people.users[mine[0]])
            self._facts.update(example=example_of(self._people, user, listed, popular.tolist()))
        self._looked = time.monotonic()

    def _usual_user(self) -> int:
        """Return a user who rates early, neither little nor much."""
        users, number = self._demo.population.users, len(self._demo.population.devices)
        early = np.bincount(users[: max(1, len(users) // _EARLY)], minlength=number)
        counts = np.bincount(users, minlength=number)
        usual = np.abs(counts - np.median(counts))
        return int(np.lexsort((usual, early < _FEW))[0])

    def _asked(self, pseudonym: str) -> list[int]:
        try:
            return [key_of(item) for item in self._server.best(pseudonym, K, _ANSWER_SECONDS).items]
        except UserError:
            return []  # a busy worker: the lists are asked for again
