"""A small site in a store of its own: items, feedback and a list maker, on a clock that is set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from msgspec import structs

from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow
from producers.edge.lists.maker import ListMaker
from producers.edge.lists.newest_tables import PublicTables
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts, feedback
from producers.ranking import LocalRecommender
from producers.ranking.published import PublicTable, Source
from stream_app import wire
from stream_app.errors import UserError
from stream_app.ranking.item_side import ItemSide
from tests.fixtures.item_sides import item_side

NOW = 1_800_000_000
DAY_MS = 86_400_000


TERMS = SiteTerms()
OLD = 1000 * NOW - 365 * DAY_MS


def row(item: str, title: str = "", categories: tuple[str, ...] = (), added: int = OLD) -> ItemRow:
    return ItemRow(item=item, title=title, categories=categories, added=added)


def unread() -> Source:
    raise UserError("no broker in this test")


@dataclass
class Site:
    """`maker` is made by `open`; call `renew` after feedback."""

    database: Database
    catalogue: Catalogue
    tables: PublicTables = field(default_factory=lambda: PublicTables(unread))
    seconds: float = NOW
    users: dict[str, int] = field(default_factory=dict)
    events: int = 0

    @classmethod
    def at(cls, folder: Path, rows: Sequence[ItemRow] = ()) -> Site:
        return cls.on(f"sqlite:///{folder}/edge.db", rows)

    @classmethod
    def on(cls, address: str, rows: Sequence[ItemRow] = ()) -> Site:
        database = Database(address)
        catalogue = Catalogue(database)
        catalogue.put_many(rows)
        return cls(database, catalogue)

    def open(self, terms: SiteTerms = TERMS, seed: int = 1, **options: object) -> ListMaker:
        random = np.random.default_rng(seed)
        self.maker = ListMaker(
            self.database, self.catalogue, self.tables, terms, random=random,
            now=lambda: self.seconds, **options,
        )  # fmt: skip
        self.renew()
        return self.maker

    def renew(self, *, anew: bool = False) -> None:
        self.maker.models.step(anew=anew)

    def change(self, item: str, **fields: object) -> None:
        """Put an item of the catalogue again, with other fields."""
        self.catalogue.put_many([structs.replace(self.catalogue.snapshot().rows[item], **fields)])

    def publish(self, side: ItemSide, entries: Sequence[wire.CatalogueEntry] = ()) -> None:
        known = {wire.key(entry.item): entry for entry in entries}
        self.tables.ranker = LocalRecommender(PublicTable(side, known))

    def account(self, user: str) -> int:
        if user not in self.users:
            number = len(self.users) + 1
            with self.database.writing() as connection:
                connection.execute(
                    accounts.insert(),
                    {"number": number, "user": user, "device": number.to_bytes(16, "big"),
                     "book": 0, "created": 0},
                )  # fmt: skip
            self.users[user] = number
        return self.users[user]

    def add(
        self, user: str, item: str, stars: float | None = 5.0, likes: float | None = None,
        *, days_ago: float = 1.0,
    ) -> None:  # fmt: skip
        self.add_many([(user, item, stars, likes, days_ago)])

    def add_many(self, rows: Sequence[tuple[str, str, float | None, float | None, float]]) -> None:
        found = []
        for user, item, stars, likes, days_ago in rows:
            self.events += 1
            token = hashlib.sha256(str(self.events).encode()).digest()[:16]
            at = int(1000 * self.seconds - days_ago * DAY_MS)
            found.append(
                {"account": self.account(user), "item": item, "type": "rating", "stars": stars,
                 "likes": likes, "at": at, "token": token}
            )  # fmt: skip
        with self.database.writing() as connection:
            connection.execute(feedback.insert(), found)


def numbered(count: int, categories: int = 4) -> list[ItemRow]:
    """Return items "1" .. with a category each, and every third with a second one."""
    return [
        row(
            str(n), f"Item {n}",
            (f"c{n % categories}", *([f"c{(n + 1) % categories}"] if n % 3 == 0 else [])),
            added=1000 * NOW - (count - n + 40) * DAY_MS,
        )
        for n in range(1, count + 1)
    ]  # fmt: skip


def numbered_side(rng: np.random.Generator, count: int, **options: int) -> ItemSide:
    """Return a side over the items 1 .. with links of random weights above 0."""
    side = item_side(rng, count, k=min(10, count), **options)
    return replace(
        side,
        keys=np.arange(1, count + 1, dtype=np.uint64),
        link_weights=np.abs(side.link_weights),
    )


def items(found: object) -> list[str]:
    return [each.item for each in found.items]  # type: ignore[attr-defined]
