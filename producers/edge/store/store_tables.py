"""The tables of an edge's store.

    accounts --< feedback     what people of the site did, in clear
    accounts --> books --< frames    the journal: debits, event numbers, the bytes that are sent
    items                     the site's catalogue
    impressions, offers       lists that were shown, and what was in them
    offsets                   how far a topic of the site was read
    site                      the version of these tables, the device key, the terms of accounts

Times are milliseconds since 1970 in UTC. A book is a device journal over a part of the accounts;
whoever holds its row's lock writes it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

VERSION = 2
DELETIONS = "deletions"
"""A tag in `site` that every deletion of a user changes: what was counted before shows him."""
metadata = MetaData()

_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # a primary key that counts by itself
# Ids are compared byte by byte, whatever the collation of the database is.
_ID = Text().with_variant(Text(collation="C"), "postgresql")


def _partial(name: str, condition: str, column: str = "book") -> Index:
    """Return an index of the accounts for which a condition holds."""
    where = text(condition)
    return Index(name, column, "number", sqlite_where=where, postgresql_where=where)


site = Table(
    "site",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

books = Table("books", metadata, Column("number", Integer, primary_key=True))

frames = Table(
    "frames",
    metadata,
    Column("book", ForeignKey("books.number"), primary_key=True),
    Column("place", BigInteger, primary_key=True),
    Column("kind", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# `device`: the pseudonym. `changed`: number of the newest feedback row that may be reported;
# `reported`: up to which one it was looked at. `removed`: when the site deleted the user, whose
# name is null from then on. `forget`: since when the recommender is to be asked to forget the
# device; null once it was asked.
accounts = Table(
    "accounts",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("user", _ID, unique=True),
    Column("device", LargeBinary(16), nullable=False, unique=True),
    Column("book", Integer, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False, default=0),
    Column("reported", BigInteger, nullable=False, default=0),
    Column("removed", BigInteger),
    Column("forget", BigInteger),
    Index("accounts_book", "book", "number"),
    # The few rows that are looked for every second, and no others.
    _partial("accounts_due", "changed > reported"),
    _partial("accounts_removed", "removed IS NOT NULL", "removed"),
    _partial("accounts_forget", "forget IS NOT NULL"),
)

# `token`: 16 bytes that are the same for the same event. What the type and the value mean: `stars`
# on 1 .. 5, or `likes`, a part of a like; both are null for what only marks the item as seen.
feedback = Table(
    "feedback",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("account", ForeignKey("accounts.number"), nullable=False),
    Column("item", _ID, nullable=False),
    Column("type", String(64), nullable=False),
    Column("value", Float),
    Column("stars", Float),
    Column("likes", Float),
    Column("at", BigInteger, nullable=False),
    Column("token", LargeBinary(16), nullable=False, unique=True),
    Index("feedback_history", "account", "at"),
    Index("feedback_recent", "at"),
)

# `categories`, `labels`, `attributes`: JSON. An item without a row is one that only events name; a
# removed one keeps its row, without its data, so that no list shows it again.
items = Table(
    "items",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("item", _ID, nullable=False, unique=True),
    Column("title", Text, nullable=False, default=""),
    Column("categories", Text, nullable=False, default="[]"),
    Column("labels", Text, nullable=False, default="[]"),
    Column("attributes", Text, nullable=False, default="{}"),
    Column("price", Float),
    Column("year", Integer),
    Column("image", Text),
    Column("added", BigInteger, nullable=False),
    Column("available", Boolean, nullable=False, default=True),
    Column("hidden", Boolean, nullable=False, default=False),
    Column("removed", Boolean, nullable=False, default=False),
    Column("changed", BigInteger, nullable=False),
    Index("items_added", "added"),
)

# A list that was shown: by which model, for whom; the items of it are `offers`.
impressions = Table(
    "impressions",
    metadata,
    Column("list", String(32), primary_key=True),
    Column("account", BigInteger, nullable=False),
    Column("model", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("impressions_account", "account", "at"),
    Index("impressions_at", "at"),
)

offers = Table(
    "offers",
    metadata,
    Column("list", ForeignKey("impressions.list"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("item", _ID, nullable=False),
    Column("clicked", BigInteger),
    Column("bought", BigInteger),
)

offsets = Table(
    "offsets",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next", BigInteger, nullable=False),
)
