"""Checks of a deployment's topics before a worker or a publisher uses them, and while it does.

A topic that would lose records, or that would take records that cost a reader more than they are
worth, is refused with the configuration found and the command that sets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import (
    SECONDS,
    configurations,
    longer,
    missing,
    partition_counts,
    partitions_in_words,
)
from stream_app.kafka.topic_follower import records
from stream_app.wire import Cut, Topics, WireError, decode_entry
from stream_app.wire.limits import MAX_CONTRIBUTION_BATCH_BYTES
from stream_app.wire.topics import APPENDED, PLAIN, STAMPED, grown, learned_with

_APPLY = "run murmurec topics apply, which sets it"
_ONE = (
    "its records are in order in one alone, and no partition can be removed; start a new "
    "deployment (--prefix)"
)
MADE_AGAIN = (
    "it holds checkpoints only; if ratings are kept for good, delete it and create it with "
    "murmurec topics apply, and the state is computed again; else start a new deployment (--prefix)"
)
# librdkafka's largest batch of records: the broker checks max.message.bytes against a whole batch.
_BATCH_BYTES = 1_000_000


def check_intake(
    admin: AdminClient,
    topic: str,
    partitions: int,
    *,
    stated: bool = False,
    device: bool = False,
) -> dict[str, str]:
    """Return the configuration of a rating topic; refuses one that a publisher cannot use: absent,
    with another number of partitions, or compacted. Where the number is `stated`, not a default,
    partitions that were added to the topic are left unused.

    A `device` need not have the right to see configurations, which workers check too: it gets none.
    """
    _check_counted(admin, topic, partitions, stated, "WRITE" if device else "READ")
    configs = configurations(admin, [topic], allowed=_refused(device)).get(topic, {})
    if configs:
        _check_policy(topic, configs, "delete", "compaction drops ratings")
    return configs


def check_ratings(
    admin: AdminClient,
    topic: str,
    partitions: int,
    retention_seconds: float | None = None,
    *,
    stated: bool = False,
) -> None:
    """Refuse a rating topic that is absent, has another number of partitions, is compacted, or
    keeps ratings for a shorter time than `retention_seconds` (None: without limit).

    Kafka may delete records older than that: a checkpoint holds their effect, and a worker refuses
    to start where records after its checkpoint are missing.
    """
    configs = check_intake(admin, topic, partitions, stated=stated)
    wanted = "-1" if retention_seconds is None else str(int(retention_seconds * 1000))
    for name, want in (("retention.ms", wanted), ("retention.bytes", "-1")):
        if configs[name] not in (want, "-1") and longer(want, configs[name]):
            raise UserError(
                f"topic {topic} has {name} {configs[name]}: ratings would be deleted sooner than "
                f"ratings_retention_seconds allows; {_APPLY} to {want}, or change the setting: a "
                "state can then not be computed again from what is deleted"
            )


def check_cut_log(admin: AdminClient, topic: str, *, dated: bool = False) -> None:
    """Refuse a cut log that is absent, has several partitions, or loses records, and one whose cuts
    say which days are accepted (`dated`) if it takes records of any day."""
    _check_one_partition(admin, topic)
    configs = configurations(admin, [topic])[topic]
    _check_policy(topic, configs, "delete", "compaction drops cuts")
    _check_kept(topic, configs, "cuts, which define the log's order, would be deleted")
    _check_as_is(topic, configs)
    for name, want in STAMPED.items() if dated else ():
        found = configs.get(name, "unset")
        if found != want and (want.isalpha() or longer(found, want)):
            raise UserError(
                f"topic {topic} has {name} {found}: a worker whose clock is wrong would reject "
                f"the events of today; {_APPLY} to {want}"
            )


def check_state_topic(admin: AdminClient, topic: str) -> None:
    """Refuse a topic that cannot hold checkpoints: absent, with several partitions, not compacted,
    or with a record size limit below a batch of pages."""
    _check_one_partition(admin, topic, MADE_AGAIN)
    configs = configurations(admin, [topic])[topic]
    _check_policy(
        topic, configs, "compact", "old pages would never be removed, or current ones would"
    )
    if int(configs["max.message.bytes"]) < _BATCH_BYTES:
        raise UserError(
            f"topic {topic} has max.message.bytes {configs['max.message.bytes']}: pages of "
            f"checkpoints come in batches of up to {_BATCH_BYTES}; {_APPLY} higher"
        )


def _check_exchange(admin: AdminClient, topic: str) -> None:
    """Refuse a topic between shards that loses changes, which every shard counts one by one."""
    configs = configurations(admin, [topic])[topic]
    _check_policy(topic, configs, "delete", "compaction drops changes")
    _check_kept(topic, configs, "changes that a shard has yet to merge would be deleted")


def _refused(device: bool) -> tuple[int, ...]:
    """Return the answers to a question about configurations that are no error."""
    return (KafkaError.TOPIC_AUTHORIZATION_FAILED,) if device else ()


def _check_counted(
    admin: AdminClient, topic: str, wanted: int, stated: bool, operation: str
) -> None:
    found = partition_counts(admin, [topic])[topic]
    if found is None:
        raise missing(admin, topic, operation)
    if found > wanted and not stated:
        # Added partitions look like a wrong setting. With their number as the setting, the records
        # of each device that would have another partition are rejected.
        raise UserError(grown(topic, found, wanted))
    if found < wanted:
        raise UserError(
            f"topic {topic} has {partitions_in_words(found)}, not {wanted}: set partitions to "
            f"{found}, or start a new deployment (--prefix)"
        )


def _check_one_partition(admin: AdminClient, topic: str, fix: str = _ONE) -> None:
    found = partition_counts(admin, [topic])[topic]
    if found is None:
        raise missing(admin, topic)
    if found != 1:
        raise UserError(f"topic {topic} has {partitions_in_words(found)}, not 1: {fix}")


def _check_policy(topic: str, configs: Mapping[str, str], wanted: str, reason: str) -> None:
    if configs["cleanup.policy"] != wanted:
        raise UserError(
            f"topic {topic} has cleanup.policy {configs['cleanup.policy']}: {reason}; {_APPLY} to "
            f"{wanted}"
        )


def _check_kept(topic: str, configs: Mapping[str, str], loss: str) -> None:
    for name in ("retention.ms", "retention.bytes"):
        if configs[name] != "-1":
            raise UserError(f"topic {topic} has {name} {configs[name]}: {loss}; {_APPLY} to -1")


def _check_exist(admin: AdminClient, topics: Sequence[str]) -> None:
    for name, found in partition_counts(admin, topics).items():
        if found is None:
            raise missing(admin, name)


def check_deployment(
    connection: Connection,
    topics: Topics,
    partitions: int,
    retention_seconds: float | None = None,
    *,
    stated: bool = False,
) -> None:
    """Refuse a deployment with absent topics, or whose configuration would lose the state."""
    admin = clients.admin(connection)
    stated = is_of_log(connection, topics, partitions) or stated
    check_ratings(admin, topics.ratings, partitions, retention_seconds, stated=stated)
    check_cut_log(admin, topics.cuts, dated=retention_seconds is not None)
    check_state_topic(admin, topics.state)
    if topics.shards > 1:
        check_shards(connection, topics)
        _check_exchange(admin, topics.exchange)
    others = [topics.items, topics.queries, topics.recommendations, topics.rejected]
    _check_exist(admin, others)


def check_shards(connection: Connection, topics: Topics) -> None:
    """Refuse another number of shards than the deployment has, which is that of the partitions of
    the topic between them, and a topic of queries that they cannot divide."""
    admin, shards = clients.admin(connection), topics.shards
    found = partition_counts(admin, [topics.exchange, topics.queries])
    has, queries = found[topics.exchange], found[topics.queries]
    if has is None and shards > 1:
        raise missing(admin, topics.exchange)
    if has is not None and has != shards:
        raise UserError(
            f"topic {topics.exchange} has {partitions_in_words(has)}, one for each shard, and "
            f"shards is {shards}: set shards to {has} on every worker"
        )
    if queries is not None and queries % shards:
        raise UserError(
            f"topic {topics.queries} has {partitions_in_words(queries)}, which {shards} shards "
            "cannot divide: delete it and the topic of answers, which hold queries of an hour, and "
            "create both with murmurec topics apply and query_partitions unset"
        )


def is_of_log(connection: Connection, topics: Topics, wanted: int) -> bool:
    """Return whether a number of partitions is the one of the first cut, False without a cut;
    refuses another: with it, most of the records that were learned would be rejected."""
    counts = partition_counts(clients.admin(connection), [topics.cuts, topics.ratings])
    stated = _stated_partitions(connection, topics.cuts) if counts[topics.cuts] else None
    if stated in (None, wanted):
        return stated is not None
    if counts[topics.ratings] == stated:
        raise UserError(
            f"topic {topics.cuts} has cuts of {stated} partitions, and partitions is {wanted}: set "
            f"partitions to {stated}"
        )
    raise UserError(learned_with(topics.ratings, counts[topics.ratings], stated or 0))


def _stated_partitions(connection: Connection, cuts: str) -> int | None:
    """Return of how many partitions the first cut is, None without one."""
    for message in records(connection, cuts):
        try:
            entry = decode_entry(message.value())
        except WireError:
            continue
        if isinstance(entry, Cut):
            return len(entry.end_offsets)
    return None


def check_outsiders(connection: Connection, topics: Sequence[str]) -> None:
    """Refuse a deployment whose topics, those that outsiders write, are absent or take records that
    cost a reader more than they are worth."""
    admin = clients.admin(connection)
    _check_exist(admin, topics)
    if fault := outsiders_fault(admin, topics):
        raise UserError(fault)


def outsiders_fault(
    admin: AdminClient, topics: Sequence[str], seconds: float | None = None
) -> str | None:
    """Return a sentence if a topic that outsiders write and a worker reads would take records that
    cost a reader more than they are worth; empty if none does.

    With `seconds` it is a look at a running deployment: None without an answer in that time.
    """
    try:
        found = configurations(admin, topics, seconds or SECONDS)
    except UserError:
        if seconds is None:
            raise
        return None
    faults = (_plain_fault(topic, configs) for topic, configs in found.items())
    return next((fault for fault in faults if fault), "")


def _plain_fault(
    topic: str, configs: Mapping[str, str], most: int = int(PLAIN["max.message.bytes"])
) -> str:
    """Return a sentence if a topic that outsiders write is not as `PLAIN`, but for the largest
    batch; else empty."""
    if fault := _expands(topic, configs):
        return fault
    name = "max.message.bytes"
    if int(configs[name]) > most:
        return (
            f"topic {topic} has {name} {configs[name]}: a reader holds such a record only to "
            f"reject it; {_APPLY} to {most}"
        )
    return ""


def _too_small(topic: str, configs: Mapping[str, str]) -> str:
    """Return a sentence if the topic of contributions is that of a release before proofs."""
    name, least = "max.message.bytes", MAX_CONTRIBUTION_BATCH_BYTES
    if int(configs[name]) >= least:
        return ""
    return (
        f"topic {topic} has {name} {configs[name]}: a contribution with its proof is larger; "
        f"{_APPLY} to {least}"
    )


def _expands(topic: str, configs: Mapping[str, str]) -> str:
    """Return a sentence if a topic takes compressed batches; else empty."""
    name = "compression.type"
    if configs[name] == PLAIN[name]:
        return ""
    return (
        f"topic {topic} has {name} {configs[name]}: it takes a few kilobytes that expand "
        f"to gigabytes in every reader; {_APPLY} to {PLAIN[name]}"
    )


def _check_as_is(topic: str, configs: Mapping[str, str]) -> None:
    if fault := _expands(topic, configs):
        raise UserError(fault)


def check_internal(admin: AdminClient, topics: Sequence[str]) -> None:
    """Refuse a topic that is absent, or that this project's processes write and that takes
    compressed batches."""
    _check_exist(admin, topics)
    for topic, configs in configurations(admin, topics).items():
        _check_as_is(topic, configs)


def check_campaigns(
    connection: Connection,
    topics: Topics,
    partitions: int | None = None,
    *,
    stated: bool = False,
    device: bool = False,
) -> None:
    """Refuse topics of campaigns that would lose a round, or contributions that are not summed
    yet, or whose records cost an aggregator more than they are worth; with `partitions` another
    number of them, as `check_intake`.

    A `device` need not have the right to see configurations: workers and parties check them too.
    """
    admin = clients.admin(connection)
    _check_one_partition(admin, topics.rounds)
    operation = "WRITE" if device else "READ"
    if partitions is not None:
        _check_counted(admin, topics.contributions, partitions, stated, operation)
    elif partition_counts(admin, [topics.contributions])[topics.contributions] is None:
        raise missing(admin, topics.contributions, operation)
    found = configurations(admin, [topics.rounds, topics.contributions], allowed=_refused(device))
    if len(found) < 2:
        return
    rounds, contributions = found[topics.rounds], found[topics.contributions]
    _check_policy(topics.rounds, rounds, "delete", "compaction drops rounds")
    _check_policy(topics.contributions, contributions, "delete", "compaction drops contributions")
    _check_kept(topics.rounds, rounds, "a campaign that was begun would be forgotten")
    for name, want in APPENDED.items():
        if rounds.get(name) != want:
            raise UserError(
                f"topic {topics.rounds} has {name} {rounds.get(name, 'unset')}: devices would not "
                f"know how long a plan was public; {_APPLY} to {want}"
            )
    faults = (
        _plain_fault(topics.contributions, contributions, MAX_CONTRIBUTION_BATCH_BYTES),
        _expands(topics.rounds, rounds),
        _too_small(topics.contributions, contributions),
    )
    if fault := next(filter(None, faults), ""):
        raise UserError(fault)
