"""What is wrong with a deployment, part by part, each fault in a sentence that names the fix.

    broker      it answers, under the configured protocol and password
    rights      this user has those of an operator (`kafka/acls.py`)
    topics      all exist, lose nothing, and take nothing that expands
    cut log     a worker moves it on: no record has waited longer than `STALL_SECONDS` for a cut
    settings    those of this process are the ones in force
    kernels     compiled code for this release is in the cache of this machine
    devices     the newest rejections are not for a mechanism
    members     workers and gateways that are asked (`watching/members.py`)

Nothing is changed. A part is looked at whatever is wrong with another, except behind a broker that
does not answer.

A rejection names place and reason, never what a record holds, so the newest of those records are
read again. A name is what a device wrote: it is shown only where it has the form of one.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from ipaddress import ip_address
from itertools import pairwise
from urllib.parse import urlsplit

import msgspec
from confluent_kafka import Message, TopicPartition

from stream_app.checkpoints.design_in_force import differences, in_force
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import acls, clients, topic_checks
from stream_app.kafka.broker_answers import ends
from stream_app.kafka.clients import BOUNDED_FETCH, Connection
from stream_app.kafka.topic_admin import configurations
from stream_app.kafka.topic_follower import TopicFollower, records
from stream_app.operations.session import each_shard
from stream_app.operations.watching.members import (
    Finding,
    examine_gateways,
    examine_workers,
    finding,
)
from stream_app.replay.log_bounds import cuts, placed_by, unread_records
from stream_app.settings import Settings
from stream_app.wire import Reason, Rejection, Topics, WireError, decode_message
from stream_app.wire.signatures.envelope import HEAD_BYTES, envelope_device
from stream_app.wire.topics import holds_pages

RECENT_SECONDS = 86_400.0
_REJECTIONS = 1_000  # rejections
_LOOKED_AT = 20  # records that are read again
_ID = re.compile(r"[a-z0-9_]+(:[A-Za-z0-9_.+/-]+){1,4}")
_READ_SECONDS = 5.0  # for all of them


class _Named(msgspec.Struct):
    mechanism: str


def check_devices(connection: Connection, names: Topics, now: float) -> str:
    """Refuse a deployment of whose newest rejections some are for a mechanism."""
    found: list[tuple[int, int]] = []
    for message in records(connection, names.rejected, newest=_REJECTIONS):
        try:
            rejection = decode_message(Rejection, message.value() or b"")
        except WireError:
            continue
        recent = now - message.timestamp()[1] / 1000 < RECENT_SECONDS
        not_allowed = rejection.reason is Reason.MECHANISM_NOT_ALLOWED
        if recent and not_allowed and rejection.topic == names.ratings:
            found.append((rejection.partition, rejection.offset))
    if not found:
        return "none of the newest rejections is for a mechanism"
    which = Counter(_read_again(connection, names.ratings, found[-_LOOKED_AT:]))
    shown = ", ".join(name for name, _ in which.most_common()) or "mechanisms no longer in the log"
    raise UserError(
        f"{len(found):,} of the newest {_REJECTIONS:,} rejections, of the last day, are of devices "
        f"that use {shown}: update them, or allow it on workers and gateways (mechanisms)"
    )


def _read_again(connection: Connection, topic: str, places: Sequence[tuple[int, int]]) -> list[str]:
    """Return the mechanism that each record names; what the log no longer holds is left out."""
    found: list[str] = []
    deadline = time.monotonic() + _READ_SECONDS
    group = f"{topic}-reading"
    with TopicFollower(connection, group, lambda *_: None, **BOUNDED_FETCH) as follower:
        for partition, offset in places:
            low, end = clients.offsets(follower.consumer, TopicPartition(topic, partition))
            if not low <= offset < end:
                continue
            follower.begin(TopicPartition(topic, partition, offset))
            while follower.positions[topic, partition] == offset and time.monotonic() < deadline:
                found += [
                    mechanism_in(message)
                    for message in follower.take(0.2, 1)
                    if message.offset() == offset
                ]
    return found


def mechanism_in(message: Message) -> str:
    """Return the mechanism that an event names, `another` where it is not to be seen."""
    value = message.value() or b""
    if envelope_device(value) is not None:
        value = value[HEAD_BYTES:]
    decode = msgspec.json.decode if value[:1] == b"{" else msgspec.msgpack.decode
    try:
        name: str = decode(value, type=_Named).mechanism
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "another"
    return name if len(name) <= 64 and _ID.fullmatch(name) else "another"


STALL_SECONDS = 60.0
_PLAN = "murmurec config plan, then apply"
_NEWEST = 1_000  # entries of the cut log among which the newest cut is sought
_TURNS = 2
_OLDEST_KAFKA = "3.6"
_SINCE_THEN = "message.timestamp.before.max.ms"  # the configuration of a topic that came with it


def examine(
    settings: Settings,
    connection: Connection,
    urls: Sequence[str] = (),
    gateways: Sequence[str] = (),
    now: Callable[[], float] = time.time,
    *,
    cached: bool,
) -> Iterator[Finding]:
    """Yield a finding for each part of a deployment, for each worker at `urls`, and for each of the
    gateways; `cached`: compiled code is on this machine."""
    names = Topics(settings.topic_prefix, settings.shards)
    every = each_shard(settings)

    def broker() -> str:
        return f"{len(clients.describe_cluster(connection).brokers)} in the cluster"

    def rights() -> str:
        wanted = acls.of_role("operator", names, settings.features)
        for each in every:
            acls.check(connection, wanted, "operator", each.worker_group)
        return f"those of an operator on {len(wanted)} topics"

    def topics() -> str:
        check_release(configurations(clients.admin(connection), [names.ratings])[names.ratings])
        used = (row.name for row in names.table(features=settings.features))
        check_topics(connection, settings, used)
        return "as this deployment needs them"

    def settings_here(settings: Settings) -> str:
        deployment = Deployment.from_settings(settings)
        if differ := differences(in_force(deployment).newest, deployment.spec):
            raise UserError(f"{differ}: set them back here, or put them into force with {_PLAN}")
        return "as in force"

    looks: tuple[tuple[str, Callable[[], str]], ...] = (
        ("broker", broker),
        ("rights", rights),
        ("topics", topics),
        *(
            (f"cut log{_of_shard(each)}", partial(_cut_log, connection, each, now))
            for each in every
        ),
        *((f"settings{_of_shard(each)}", partial(settings_here, each)) for each in every),
        ("kernels", lambda: kernels(cached, urls)),
        ("devices", lambda: check_devices(connection, names, now())),
    )
    for part, look in looks:
        found = finding(part, look)
        yield found
        if part == "broker" and not found.well:
            return
    members = yield from examine_workers(urls, settings, now)
    yield from examine_gateways(gateways, settings, members)


def check_topics(connection: Connection, settings: Settings, used: Iterable[str]) -> None:
    """Refuse a deployment with a topic that is absent, would lose records, or takes what costs a
    reader more than it is worth: those that are `used`."""
    each = [topics_of(shard) for shard in each_shard(settings)]
    names, partitions = each[0], settings.partitions
    stated = topic_checks.is_of_log(connection, names, partitions) or settings.partitions_stated
    if settings.privacy_mode != "local":
        topic_checks.check_campaigns(connection, names, partitions, stated=stated)
    for topics in each:
        topic_checks.check_deployment(
            connection, topics, partitions, settings.ratings_retention_seconds, stated=stated
        )
    plain = [name for name in used if not holds_pages(name)]
    topic_checks.check_internal(clients.admin(connection), plain)
    topic_checks.check_outsiders(connection, names.read_from_outsiders())


def check_turns(designs: Sequence[str]) -> None:
    """Refuse cuts that come from workers of several designs in turn, and not one after another."""
    changes, kinds = sum(one != other for one, other in pairwise(designs)), len(set(designs))
    if changes - (kinds - 1) >= _TURNS:  # a design that was replaced does not come back
        raise UserError(
            f"the newest {len(designs):,} cuts changed {changes:,} times between workers of "
            f"{kinds} designs: give all the same --group, release and state_secret"
        )


def check_release(configs: Mapping[str, str]) -> None:
    """Refuse a broker whose topics, by their configuration, are of a Kafka that is too old."""
    if _SINCE_THEN not in configs:
        raise UserError(
            f"the broker is older than Kafka {_OLDEST_KAFKA}: its topics have no {_SINCE_THEN}; "
            f"install {_OLDEST_KAFKA} or newer"
        )


def kernels(cached: bool, urls: Sequence[str]) -> str:
    """Refuse a machine with a worker, one of `urls`, and without compiled code of this release."""
    if cached:
        return "compiled code is in the cache here"
    if any(_is_here(url) for url in urls):
        raise UserError(
            "nothing is in the cache here for this release: the next start of a worker compiles "
            "for about a minute; run murmurec worker --warmup before"
        )
    return "nothing is in the cache here: a first worker compiles for about a minute"


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def topics_of(settings: Settings) -> Topics:
    """Return the names of the topics, those of the shard that the settings name."""
    return Topics(settings.topic_prefix, settings.shards, settings.shard or 0)


def _of_shard(settings: Settings) -> str:
    return f" of shard {settings.shard}" if settings.shards > 1 else ""


def _cut_log(connection: Connection, settings: Settings, now: Callable[[], float]) -> str:
    names = topics_of(settings)
    found = list(cuts(connection, names.cuts, newest=_NEWEST))
    check_turns([cut.design for cut, _ in found])
    newest, written = found[-1] if found else (None, 0.0)
    with closing(clients.consumer(connection)) as consumer:
        last = [place.offset for place in ends(consumer, names.ratings)]
        used = len(newest.end_offsets) if newest else len(last)
        unread = unread_records(consumer, names.ratings, used, len(last))
    if unread:
        raise UserError(
            f"topic {names.ratings} has {len(last)} partitions, the deployment {used}: {unread:,} "
            f"records are in those that were added; {placed_by(used)}"
        )
    last = last[:used]
    own = range(settings.shard or 0, used, settings.shards)
    reached = newest.end_offsets if newest else [0] * used
    waiting = sum(max(last[p] - reached[p], 0) for p in own)
    if waiting and now() - written > STALL_SECONDS:
        age = f"the newest is {now() - written:,.0f} s old" if newest else "there is none"
        raise UserError(
            f"{waiting:,} records wait for a cut, and {age}: no worker moves the log on; start one "
            "with murmurec worker"
        )
    return f"{newest.number if newest else 0:,} cuts; {waiting:,} records wait for the next"
