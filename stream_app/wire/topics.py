"""The table of topics, defined here only."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stream_app.wire.limits import MAX_BATCH_BYTES, MAX_CONTRIBUTION_BATCH_BYTES, PARTITIONS

# Of a topic that outsiders write. The broker expands a compressed batch and applies the limit to
# what it stores: a few kilobytes that expand to gigabytes are refused there, instead of being
# expanded by each reader at each replay.
PLAIN: dict[str, str] = {
    "compression.type": "uncompressed",
    "max.message.bytes": str(MAX_BATCH_BYTES),
}
# Of a topic that this project's processes alone write: one of them, taken over, must not end the
# others by a record that expands. The state topic is compressed: its pages are large and sealed.
_AS_IS: dict[str, str] = {"compression.type": "uncompressed"}
# How long contributions are kept, in milliseconds: a week.
CONTRIBUTIONS_KEPT = "604800000"
# Of the cut log where cuts say which days are accepted (`log/cut_clock.py`): the broker refuses an
# entry of a worker whose clock is far ahead of its own, or far behind.
STAMPED: dict[str, str] = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "86400000",
}
# Of the log of rounds: how long a plan was public is the broker's statement, not the owner's.
APPENDED: dict[str, str] = {"message.timestamp.type": "LogAppendTime"}
# Feature -> the setting that turns it on (`Settings.features`).
FEATURES: dict[str, str] = {
    "campaigns": "privacy_mode = split or central",
    "shards": "shards above 1",
}
_FEATURE_OF: dict[str, str] = {
    "contributions.v1": "campaigns",
    "rounds.v1": "campaigns",
    "item-side.v1": "campaigns",
    "exchange.v1": "shards",
}
_OF_A_SHARD = 4  # partitions of queries, for several workers of each
# A broker that lacks the newest records never leads a partition: devices sent them once.
_CLEAN: dict[str, str] = {"unclean.leader.election.enable": "false"}


@dataclass(frozen=True)
class Topic:
    """One row of the table of topics; `counted_by` names the setting that decides how many
    partitions there are, `feature` the feature that
    needs the topic; empty: every deployment needs it."""

    name: str
    key: str
    value: str
    partitions: int
    config: Mapping[str, str]
    counted_by: str = ""
    feature: str = ""


class _Name(property):
    """The full name of a topic, under the prefix of its `Topics`; `each`: every shard has one of
    its own."""

    def __init__(self, topic: str, meaning: str, *, each: bool = False) -> None:
        def name(topics: Topics) -> str:
            own = f"shard-{topics.shard}." if each and topics.shards > 1 else ""
            return f"{topics.prefix}.{own}{topic}.v1"

        super().__init__(name, doc=meaning)

    def __get__(  # type: ignore[override] # of an instance, which alone is asked, it is a text
        self, topics: Any, owner: type | None = None
    ) -> str:
        name: str = super().__get__(topics, owner)
        return name


@dataclass(frozen=True)
class Topics:
    """The names of all topics under one prefix, those of one shard among them; `table` holds their
    configuration."""

    prefix: str = "murmurec"
    shards: int = 1
    shard: int = 0

    ratings = _Name("ratings", "Sanitized ratings, from devices.")
    items = _Name("items", "The public catalogue.")
    item_table = _Name("item-table", "Public mean rating of every item, for devices.")
    item_links = _Name(
        "item-links", "Public item side: what goes together, for devices that rank by themselves."
    )
    item_side = _Name(
        "item-side", "Public item side of the newest campaign, from noisy sums alone."
    )
    cuts = _Name("cuts", "The cut log, written by workers only.", each=True)
    state = _Name(
        "state", "Checkpoints of the state, written by the owner of the clock only.", each=True
    )
    exchange = _Name(
        "exchange",
        "What each shard has learned of items, for the others, in a partition of its own.",
    )
    queries = _Name("queries", "Queries for recommendations.")
    recommendations = _Name("recommendations", "Replies, keyed by the correlation id of the query.")
    rejected = _Name("rejected", "Places and reasons of rejected records, never their payload.")
    contributions = _Name(
        "contributions", "Sealed vectors of the stages of campaigns, from devices."
    )
    rounds = _Name("rounds", "Plans of campaigns, the life of their stages, and noisy sums.")

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", self.prefix):
            raise ValueError(f"topic prefix {self.prefix!r}: use 1 to 100 of A-Z a-z 0-9 . _ -")

    def of_shards(self) -> tuple[Topics, ...]:
        """Return the names of each shard."""
        return tuple(replace(self, shard=shard) for shard in range(self.shards))

    def read_from_outsiders(self) -> tuple[str, ...]:
        """Return the topics that a worker reads and that others than workers write."""
        return self.ratings, self.items, self.queries

    def table(
        self,
        partitions: int = PARTITIONS,
        ratings_retention_seconds: float | None = None,
        query_partitions: int | None = None,
        features: Collection[str] | None = None,
    ) -> tuple[Topic, ...]:
        """Return every topic with its key, value, partitions and configuration; ratings are kept
        permanently unless a retention is given. Without `query_partitions` queries have as many
        partitions as ratings; of several shards each has 4 or more. With `features` those topics
        alone that a deployment with them needs."""
        rows = self._rows(partitions, ratings_retention_seconds, query_partitions)
        named = (replace(row, feature=_feature(row.name)) for row in rows)
        on = {"", *(FEATURES if features is None else features)}
        return tuple(row for row in named if row.feature in on)

    def _rows(
        self,
        partitions: int,
        ratings_retention_seconds: float | None,
        query_partitions: int | None,
    ) -> tuple[Topic, ...]:
        of_each = _OF_A_SHARD * self.shards if self.shards > 1 else 0
        queries = query_partitions or max(partitions, of_each)
        of_queries = "query_partitions"
        no_end = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        forever = _AS_IS | _CLEAN | no_end
        kept, cuts = forever | PLAIN, forever
        if ratings_retention_seconds is not None:
            cuts = forever | STAMPED
            if not ratings_retention_seconds > 0:
                raise ValueError(
                    f"ratings_retention_seconds {ratings_retention_seconds}: ratings are kept for "
                    "more than 0 seconds"
                )
            kept["retention.ms"] = str(int(ratings_retention_seconds * 1000))
        an_hour = _AS_IS | _CLEAN | {"cleanup.policy": "delete", "retention.ms": "3600000"}
        newest = _AS_IS | _CLEAN | {"cleanup.policy": "compact"}
        # Pages are rewritten often: eager compaction keeps the topic small and a start short.
        pages = _CLEAN | {
            "cleanup.policy": "compact",
            "segment.bytes": "67108864",
            "min.cleanable.dirty.ratio": "0.1",
            "max.message.bytes": "4194304",
        }
        # A version of up to 2 MiB replaces the one before the last: closed segments are compacted.
        slot = "slot/page or slot/manifest"
        versions = newest | {"segment.bytes": "16777216", "min.cleanable.dirty.ratio": "0.1"}
        # A noisy sum takes the place of its contributions: they are kept for a party that was away.
        sealed = _CLEAN | PLAIN | {"cleanup.policy": "delete", "retention.ms": CONTRIBUTIONS_KEPT}
        sealed["max.message.bytes"] = str(MAX_CONTRIBUTION_BATCH_BYTES)
        rounds = {**forever, **PLAIN, **APPENDED, "max.message.bytes": "1048588"}
        pseudonym, shards = "pseudonym, 32 hex", self.of_shards()
        changes = _CLEAN | no_end | {"max.message.bytes": "4194304"}
        return (
            Topic(self.ratings, pseudonym, "event", partitions, kept, "partitions"),
            *(Topic(each.cuts, "none", "entry of the cut log", 1, cuts) for each in shards),
            *(
                Topic(each.state, "page, manifest or claim", "checkpoint", 1, pages)
                for each in shards
            ),
            Topic(self.exchange, "none", "change of a shard", self.shards, changes, "shards"),
            Topic(self.items, "item id", "catalogue entry", 1, newest | PLAIN),
            Topic(self.item_table, "page number", "item table page", 1, newest),
            Topic(self.item_links, slot, "item side", 1, versions),
            Topic(self.queries, "correlation id", "query", queries, an_hour | PLAIN, of_queries),
            Topic(self.recommendations, "correlation id", "reply", queries, an_hour, of_queries),
            Topic(self.rejected, "topic/partition/offset", "rejection", 1, newest),
            Topic(self.contributions, pseudonym, "contribution", partitions, sealed, "partitions"),
            Topic(self.rounds, "none", "entry of the log of rounds", 1, rounds),
            Topic(self.item_side, slot, "item side of a campaign", 1, versions),
        )


def _feature(topic: str) -> str:
    """Return the feature that needs a topic; empty: every deployment needs it."""
    return _FEATURE_OF.get(".".join(topic.rsplit(".", 2)[-2:]), "")


def holds_pages(topic: str) -> bool:
    """Return whether a topic is that of checkpoints or between shards, which alone hold compressed
    batches."""
    return topic.endswith((".state.v1", ".exchange.v1"))


def absent(topic: str) -> str:
    """Return the sentence for a topic that does not exist: the command that creates it, and the
    setting under which it does so where the topic belongs to a feature."""
    feature = _feature(topic)
    where = f" under the setting {FEATURES[feature]}" if feature else ""
    return f"topic {topic} does not exist: create it with murmurec topics apply{where}"


def grown(topic: str, found: int | None, wanted: int) -> str:
    """Return the sentence for a rating topic with more partitions than a default."""
    return (
        f"topic {topic} has {found} partitions, not {wanted}: the number is fixed for the life of "
        "a deployment, since a device's partition depends on it, and partitions that are added "
        "are not used; ask the deployment's operator for the number it began with and state that, "
        f"also where it is {wanted} (MURMUREC_PARTITIONS); for more start a new deployment "
        "(--prefix)"
    )


def learned_with(topic: str, found: int | None, wanted: int) -> str:
    """Return the sentence for settings and a topic with another number than the log."""
    return (
        f"topic {topic} has {found} partitions, not {wanted}: the deployment began with {wanted}, "
        "and its number is fixed for life, since a device's partition depends on it; go on with "
        f"{wanted}, or for more start a new deployment (--prefix)"
    )


def lacking(what: str, operation: str, role: str = "ROLE") -> str:
    """Return the sentence for a right that a user lacks, of Kafka's name; the command line puts the
    role of its command in the place of ROLE."""
    return (
        f"{what}: this user has no right to {operation} it; grant it: murmurec acl apply --role "
        f"{role} --user USER"
    )
