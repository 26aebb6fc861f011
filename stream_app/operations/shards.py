"""Divides the state of a deployment into shards, by device and without a replay.

    newest checkpoint --cuts behind it--> state at the newest cut --> a file, an undivided snapshot
    its share of shard s              --> a checkpoint of shard s, at cut 1 of its log
    then the log of shard s           --> the format, the design and cut 1, which ends where the
                                          state does

So the records behind that cut are read by the shards, each once. The former log and state stay as
they are. A call that ends in between changes nothing that is read, and the next one takes it up: a
shard without a log refuses to start from its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_app.checkpoints import offline_writer, snapshot_file
from stream_app.deployment import Deployment, new_replica
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_admin, topic_follower
from stream_app.kafka.broker_answers import ends
from stream_app.operations.log_replay import newest
from stream_app.operations.rebuild import refuse_while_workers_run
from stream_app.operations.session import ProgressDisplay, Session, no_progress
from stream_app.replay.recompute import Replayed
from stream_app.settings import Settings
from stream_app.state.design import entry_of
from stream_app.state.exchange.division import adopt_share, shards_of
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import (
    EPOCH_SECONDS,
    Contract,
    Cut,
    DesignEntry,
    Entry,
    Forget,
    Tail,
    Topics,
    WireError,
    decode_entry,
    encode_message,
)
from stream_app.wire.limits import CONTRACT
from stream_app.wire.state_records import StateOrigin


@dataclass(frozen=True)
class Division:
    """A state of `cut` that was divided: its file and digest, the topics that it had before, and
    how many partitions the queries have."""

    shards: int
    cut: int
    snapshot: Path
    digest: str
    former: tuple[str, ...]
    query_partitions: int
    seconds: float


def divide(settings: Settings, shards: int, display: ProgressDisplay = no_progress) -> Division:
    """Divide the newest state of a deployment; refuses while workers run, what shards refuse, and
    shards that have learned already."""
    began = time.monotonic()
    alone = settings.model_copy(update={"shards": 1, "shard": None})
    session = Session.from_settings(alone, display=display)
    refuse_while_workers_run(session)
    parts = [_of_shard(session, shards, shard) for shard in range(shards)]
    queries = _check_queries(session, shards)
    state = newest(session)
    _refuse_waiting(session, state)
    _create_topics(session, parts[0].topics)  # late: workers of one shard refuse where they are
    _refuse_exchanged(session, parts[0].topics)
    parts = [replace(each, spec=_spec(state.replica.spec, each.spec)) for each in parts]
    logs = [_log(each, state.replica.end_offsets) for each in parts]
    missing = [_missing(each, log) for each, log in zip(parts, logs, strict=True)]
    meta = snapshot_file.described(state.replica)
    homes = shards_of(state.replica.model_arrays()["marks.devices"], parts[0].spec)
    with ThreadPoolExecutor(2) as pool:  # the next share, while one is written
        file = pool.submit(_written, session, state.replica, meta)
        shares = [partial(_share, each.spec, state.replica, homes, meta.digest) for each in parts]
        ahead = pool.submit(shares[0])
        with session.display("writing the undivided state"):
            path = file.result()
        for deployment, following in zip(parts, [*shares[1:], None], strict=True):
            replica = ahead.result()
            if following is not None:
                ahead = pool.submit(following)
            _write_share(deployment, replica, state.tails, len(logs[0]), display)
    for deployment, entries in zip(parts, missing, strict=True):
        if entries:
            offline_writer.append_all(session.connection, deployment.topics.cuts, entries)
    former = session.names.cuts, session.names.state
    seconds = time.monotonic() - began
    return Division(shards, meta.cut, path, meta.digest, former, queries, seconds)


def _of_shard(session: Session, shards: int, shard: int) -> Deployment:
    try:
        spec = replace(session.spec, shards=shards, shard=shard)
    except ValueError as error:
        raise UserError(f"--to {shards}: {error}") from None
    names = replace(session.names, shards=shards, shard=shard)
    return replace(session.deployment, spec=spec, topics=names)


def _spec(state: StateSpec, of_shard: StateSpec) -> StateSpec:
    return replace(state, shards=of_shard.shards, shard=of_shard.shard)


def _check_queries(session: Session, shards: int) -> int:
    """Return how many partitions the queries have; refuses a number that shards do not divide."""
    topic = session.names.queries
    found = topic_admin.partition_counts(clients.admin(session.connection), [topic])[topic] or 0
    if found % shards:
        raise UserError(
            f"--to {shards}: topic {topic} has {topic_admin.partitions_in_words(found)}, and each "
            "shard answers those of as many; add partitions with Kafka's kafka-topics"
        )
    return found


def _create_topics(session: Session, names: Topics) -> None:
    """Create the topics of shards that do not exist."""
    own = {names.exchange, *(n for each in names.of_shards() for n in (each.cuts, each.state))}
    settings = session.settings
    table = names.table(session.deployment.partitions, settings.ratings_retention_seconds)
    brokers = len(clients.describe_cluster(session.connection).brokers)
    copies = topic_admin.replication(
        brokers, settings.replication_factor, settings.min_insync_replicas
    )
    admin = clients.admin(session.connection)
    wanted = [row for row in table if row.name in own]
    topic_admin.apply(admin, topic_admin.plan(admin, wanted, copies))


def _refuse_exchanged(session: Session, names: Topics) -> None:
    """Refuse shards that have exchanged what they learned."""
    with closing(clients.consumer(session.connection)) as consumer:
        if any(place.offset for place in ends(consumer, names.exchange)):
            raise _in_force(names.exchange)


def _in_force(topic: str) -> UserError:
    return UserError(
        f"topic {topic} has records of workers: this state was divided before, and their shards "
        "have gone on since; a division of another state takes another deployment (--prefix)"
    )


def _refuse_waiting(session: Session, state: Replayed) -> None:
    """Refuse a cut log with entries behind its newest cut, which the shards would not read."""
    names = session.names
    for message in topic_follower.records(session.connection, names.cuts, first=state.cut_offset):
        try:
            entry = decode_entry(message.value())
        except WireError:
            continue
        if isinstance(entry, Forget | DesignEntry | Contract):
            raise UserError(
                f"{names.cuts} has an entry at offset {message.offset()} that waits for a cut: "
                "start a worker, stop it once murmurec doctor finds it ready, and run this again"
            )


def _log(deployment: Deployment, end_offsets: Sequence[int]) -> list[bytes]:
    """Return the entries with which the log of a shard begins."""
    spec = deployment.spec
    day = int(time.time()) // EPOCH_SECONDS
    opening = entry_of(None, spec).sealed(deployment.seal)
    cut = Cut(1, tuple(end_offsets), day, spec.digest)
    return [encode_message(each) for each in (Contract(CONTRACT), opening, cut)]


def _missing(deployment: Deployment, wanted: list[bytes]) -> list[bytes]:
    """Return which entries the log of a shard lacks; refuses one that holds others."""
    topic = deployment.topics.cuts
    found = [message.value() for message in topic_follower.records(deployment.connection, topic)]
    if _undated(found) != _undated(wanted[: len(found)]):
        raise _in_force(topic)
    return wanted[len(found) :]


def _undated(values: Sequence[bytes | None]) -> list[Entry | None]:
    """Return entries without the days of cuts, on which a call before was made."""
    found: list[Entry | None] = []
    for value in values:
        entry = None
        with suppress(WireError):
            entry = decode_entry(value)
        found.append(msgspec.structs.replace(entry, epoch=0) if isinstance(entry, Cut) else entry)
    return found


def _written(session: Session, whole: Replica, meta: snapshot_file.Meta) -> Path:
    """Write the undivided state to the data directory; return its file."""
    folder = session.settings.data_dir / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session.names.prefix}-cut-{whole.cut}.npz"
    snapshot_file.write(path, whole, meta=meta)
    return path


def _share(spec: StateSpec, whole: Replica, homes: NDArray[np.int64], digest: str) -> Replica:
    """Return the state with which a shard begins; homes (devices,): the shard of each."""
    origin = StateOrigin(
        1, whole.end_offsets, digest, whole.origin.truncated, whole.origin.excluded, CONTRACT
    )
    replica = new_replica(spec, origin)
    adopt_share(replica, whole.model_arrays(), whole.ledger.arrays(), origin, homes)
    return replica


def _write_share(
    deployment: Deployment,
    replica: Replica,
    tails: Sequence[Tail | None],
    cut_offset: int,
    display: ProgressDisplay,
) -> None:
    """Write the state with which a shard begins as its first checkpoint."""
    spec = deployment.spec
    own = tuple(tail if p in spec.owned else None for p, tail in enumerate(tails))
    total = sum(array.nbytes for array in replica.model_arrays().values())
    with display(f"writing shard {spec.shard}") as progress:
        offline_writer.write_checkpoint(
            deployment, replica, cut_offset, "murmurec state shards",
            lambda done: progress(done, max(done, total)), own[: spec.partitions],
        )  # fmt: skip
