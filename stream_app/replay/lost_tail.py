"""A log that lost its end: which cut it still holds, and the way out.

A partition may lose its newest records after a replica has read them: a power cut before the
broker's disk was written, or an election of a replica that was behind. Three observations show it:

    a cut or a checkpoint names an offset beyond the end of a partition
    the last record below a cut is not the one that its clock received (`wire.authenticity.tails`)
    a checkpoint names a cut that the cut log does not hold

The log can be taken up at its newest whole cut: one whose every record it holds.
`murmurec state truncate` supersedes the cuts behind it.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, TopicPartition

from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.failures.unreadable import is_unreadable
from stream_app.kafka.topic_follower import TopicFollower, cannot_be_read
from stream_app.replay.cut_history import CutHistory, history
from stream_app.replay.log_bounds import LogBounds
from stream_app.wire import Cut, Tail, fingerprint, held
from stream_app.wire.limits import MAX_SEQ

_SECONDS = 10.0
_ASK_SECONDS = 1.0
_WHAT = "the log lost its end (a power cut or an unclean election of the broker)"


class LogLostItsEnd(UserError):
    """The log does not hold the records from which a state was computed or a cut was made."""


@dataclass(frozen=True)
class WholeCut:
    """The newest cut whose every record the log holds (0: none), the end offsets of that cut, and
    those of the rating partitions now."""

    number: int
    end_offsets: tuple[int, ...]
    log_ends: tuple[int, ...]


def lost(deployment: Deployment, what: str, at_cut: int = 0) -> LogLostItsEnd:
    """Return the error for an observation; `at_cut` is the cut of the state that does not fit.

    The sentence names the newest whole cut. Where the log is whole, the state alone is not of this
    log: it can be computed again.
    """
    try:
        whole = newest_whole_cut(deployment).number
    except UserError as reason:
        return LogLostItsEnd(f"{what}: {_WHAT}; find its newest whole cut with murmurec state "
                             f"truncate --to-cut N ({reason})")  # fmt: skip
    if at_cut and whole >= at_cut:
        return LogLostItsEnd(
            f"{what}: {_WHAT}, and was filled again up to cut {whole}; start over from the log "
            "(murmurec worker --rebuild)"
        )
    return LogLostItsEnd(f"{what}: {_WHAT}; {way_out(whole)}")


def way_out(cut: int) -> str:
    """Return the command that takes the log up at a cut, as part of a sentence."""
    return (
        f"restore the topic, or take the log up at cut {cut}, its newest whole one: murmurec state "
        f"truncate --to-cut {cut}, which prints what is lost"
    )


def newest_whole_cut(deployment: Deployment, logged: CutHistory | None = None) -> WholeCut:
    """Return the newest cut whose every record the log holds."""
    cuts = [cut for cut, _ in (logged or history(deployment)).cuts]
    with _tail_follower(deployment, _SECONDS) as follower:
        bounds = LogBounds(
            follower.consumer, deployment.topics, deployment.partitions, deployment.spec.owned
        )
        ends = bounds.ends()
        count = bisect_right(cuts, False, key=lambda cut: _ends_beyond(cut, ends))
        cuts = cuts[:count]
        # Beyond the offset where a partition was filled again, no cut matches.
        count = bisect_right(
            cuts, False, key=lambda cut: not _matches(follower, deployment.topics.ratings, cut)
        )
    if not count:
        return WholeCut(0, (0,) * deployment.partitions, ends)
    return WholeCut(cuts[count - 1].number, cuts[count - 1].end_offsets, ends)


def tail_of(message: Message) -> Tail:
    """Return offset and fingerprint of a consumed record."""
    offset = message.offset() or 0
    key, value = held(message.key(), message.value())
    return Tail(offset, fingerprint(offset, epoch_of(message), key, value))


def epoch_of(message: Message) -> int:
    """Return the leader epoch of a consumed record, -1 where the broker keeps none."""
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch


def _ends_beyond(cut: Cut, ends: Sequence[int]) -> bool:
    return any(end > at for end, at in zip(cut.end_offsets, ends, strict=True))


def _matches(follower: TopicFollower, topic: str, cut: Cut) -> bool:
    """Return whether no partition is known to hold another record below the cut than its clock
    received."""
    wanted = {
        partition: (end - 1, tail)
        for partition, (end, tail) in enumerate(zip(cut.end_offsets, cut.tails, strict=False))
        if end and tail
    }
    held = read_fingerprints(follower, topic, {p: offset for p, (offset, _) in wanted.items()})
    return all(held.get(partition, tail) == tail for partition, (_, tail) in wanted.items())


class LeaderCheck:
    """Asks the new leader of a partition for the last record that was read of it. A broker that
    does not answer is asked again, by the same consumer, at most once a second."""

    def __init__(self, deployment: Deployment, topic: str, partition: int, tail: Tail) -> None:
        self._follower = _tail_follower(deployment, _ASK_SECONDS)
        self._topic, self._partition, self.tail = topic, partition, tail
        self._next = 0.0
        self.held = ""
        """The fingerprint of the record that the leader holds there."""
        self.unanswered = ""
        """What is waited for; empty before the first question."""

    def holds(self) -> bool | None:
        """Return whether the partition holds the record, or deleted it at its beginning since;
        None without an answer."""
        if time.monotonic() < self._next:
            return None
        tail, offsets = self.tail, {self._partition: self.tail.offset}
        try:
            found = read_fingerprints(self._follower, self._topic, offsets)
        except UserError as reason:  # also what a leader says that has just started
            self.unanswered = (
                f"{self._topic} partition {self._partition} has a new leader, which is asked for "
                f"the record at offset {tail.offset}, the last that was read ({reason})"
            )
            self._next = time.monotonic() + _ASK_SECONDS
            return None
        self.held = found.get(self._partition, tail.fingerprint)
        return self.held == tail.fingerprint

    def close(self) -> None:
        """Close the consumer."""
        self._follower.close()


def _tail_follower(deployment: Deployment, seconds: float) -> TopicFollower:
    def refused(message: Message, error: KafkaError) -> None:
        topic, partition = message.topic() or "", message.partition() or 0
        if not is_unreadable(error):
            raise cannot_be_read(topic, error)
        follower.positions[topic, partition] = MAX_SEQ

    follower = TopicFollower(
        deployment.connection,
        f"{deployment.topics.prefix}-tails",
        refused,
        seconds,
        fetch_wait_max_ms=20,
    )
    return follower


def read_fingerprints(
    follower: TopicFollower, topic: str, offsets: dict[int, int]
) -> dict[int, str]:
    """Return the fingerprints of the records at these offsets, by partition; a record that the
    topic does not hold, or that cannot be read, is left out. Raises `Unanswered` if the broker does
    not answer."""
    starts, ends = [], {}
    for partition, offset in offsets.items():
        place = TopicPartition(topic, partition, offset)
        low, high = clients.offsets(follower.consumer, place, follower.stall_seconds)
        if low <= offset < high:
            starts.append(place)
            ends[topic, partition] = offset + 1
    follower.begin(*starts)
    try:
        return {
            message.partition() or 0: tail_of(message).fingerprint
            for message in follower.up_to(ends)
        }
    finally:
        follower.begin()
