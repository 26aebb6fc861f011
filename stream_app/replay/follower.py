"""Follows the log: reads the ratings and the cuts and yields them in canonical order.

One consumer is assigned to every rating partition and to the cut log at explicit offsets, those of
a checkpoint or 0; it joins no group and reads no committed offset, so a group event cannot make it
skip or repeat a record. A log that no longer holds the start offset, or that has another number of
partitions, is refused. A partition whose buffer holds more than six rounds is paused until it has
drained: with fewer rounds, the pauses cost a factor of three (measured).

The worker's reader thread, the offline replay and the demo's own check use this class.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from stream_app.checkpoints.cut_log_scan import CutLogScan
from stream_app.checkpoints.design_in_force import refuse_fixed
from stream_app.checkpoints.design_line import DesignLine, unknown
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.failures.unreadable import MOST_RECORDS, is_unreadable, readable_from
from stream_app.kafka.passing import passes, refusal
from stream_app.kernels.stream.event_text import scan_events
from stream_app.log.canonical_order import LogStep, OrderError, Rounds, Start, TailDiffers
from stream_app.log.exchange_order import Exchange
from stream_app.replay.log_bounds import RESTORE, WAYS_OUT, EndIsBefore, LogBounds
from stream_app.replay.lost_tail import LeaderCheck, epoch_of, lost, tail_of, way_out
from stream_app.replay.signature_check import SignatureCheck
from stream_app.serving.catalogue import Catalogue
from stream_app.state.design import UnknownSettings, followed, spec_of
from stream_app.state.spec import StateSpec
from stream_app.wire import (
    UNREADABLE,
    Aborted,
    Batch,
    CampaignPlan,
    Contract,
    Cut,
    DesignEntry,
    DigestReport,
    Entry,
    Merge,
    Released,
    Tail,
    WireError,
    decode_entry,
    decode_many,
    held,
)
from stream_app.wire.authenticity.seal import ForeignSeal
from stream_app.wire.exchange import Change, decode_change
from stream_app.wire.limits import CONTRACT, MAX_SEQ

_BATCH = 256
_ROUNDS_AHEAD = 6
# Of all partitions together, and of one of very many.
_BUFFER_BYTES = 128 << 20
_LEAST_BYTES = 1 << 20
_EXCHANGE_BYTES = 64 << 20  # of changes that wait for their merge
_TRUNCATED = "truncation detected"
_TRUNCATED_SECONDS = 10.0
_ENDS_SECONDS = 1.0


class Piece(NamedTuple):
    """The most that one piece holds: records, and about so many bytes. How the log is cut into
    pieces changes no bit of the state."""

    records: int
    size: int


# A large piece costs a fifth less for each rating: tables and counts that several ratings share are
# read once. A small one holds a query up for less time.
LARGE, SMALL = Piece(4096, 1 << 19), Piece(1024, 1 << 17)


@dataclass(frozen=True, eq=False)
class Decoded:
    """The next piece of the log: a decoded run, the cut that ends its round, or another entry of
    the cut log, which takes effect before the next run, with the changes of a merge; `cut_offset`
    is the offset after it.
    `design` is that of a `DesignEntry`; the state of one with `takes_over` was built beside."""

    batch: Batch | None
    cut: Cut | None
    cut_offset: int = 0
    tails: tuple[Tail | None, ...] = ()
    entry: Entry | None = None
    design: StateSpec | None = None
    takes_over: bool = False
    changes: tuple[Change, ...] = ()


class Follower:
    """Reads the log of one deployment after `start`, or from its beginning. The design at the
    start is that of `line`, or the deployment's spec."""

    def __init__(
        self,
        deployment: Deployment,
        start: Start | None = None,
        round_records: int = 2000,
        catalogue: Catalogue | None = None,
        newest_contract: int = CONTRACT,
        line: DesignLine | None = None,
    ) -> None:
        if line is not None:
            deployment = replace(deployment, spec=line.base)
        self._deployment = deployment
        self._line = line or DesignLine(deployment.spec)
        self._expected: deque[str] = deque(maxlen=8)  # designs that cuts may name beside `design`
        self.topics = topics = deployment.topics
        self._check = SignatureCheck()
        self.intake = deployment.intake_with(self._check)
        self._newest_contract = newest_contract
        self._set_contract(start.contract if start else 1)
        spec = deployment.spec
        self.rounds = Rounds(deployment.partitions, start, shards=spec.shards)
        self._exchange: Exchange | None = self.rounds.exchange
        self._exchange_paused = False
        self.cuts_ignored = self.unsealed = self.designs_ignored = 0
        self._seal = deployment.seal
        self.cuts_at_end = False
        self.design = deployment.spec.digest
        self.other_design = self.difference = ""
        self._live = False
        self._most_buffered = _ROUNDS_AHEAD * round_records
        self._most_bytes = max(_LEAST_BYTES, _BUFFER_BYTES // deployment.partitions)
        self._paused: set[int] = set()
        self._truncated: dict[tuple[str, int], float] = {}
        self._connection = deployment.connection
        self._catalogue = catalogue
        self._consumer: Consumer = clients.consumer(
            deployment.connection,
            group=self._group,
            partition_eof=True,
            auto_offset_reset="error",
            queued_max_messages_kbytes=16384,
            **clients.BOUNDED_FETCH,
            # An empty fetch reports the end of the cut log: the default of 500 ms
            # would be lost at every start.
            fetch_wait_max_ms=100,
        )
        self.bounds = LogBounds(self._consumer, topics, deployment.partitions, spec.owned)
        self._unproven: dict[tuple[str, int], Tail] = {}
        self._deleted: dict[tuple[str, int], int] = {}  # the offsets of such records
        self._places: list[TopicPartition] = []
        self._newest: dict[tuple[str, int], Message] = {}  # the last record of each partition
        self._arrived: deque[Message] = deque()  # not taken yet
        self._leader: LeaderCheck | None = None  # of the first of them

    @property
    def first_spec(self) -> StateSpec:
        """The design at the start."""
        return self._line.base

    @property
    def _group(self) -> str:
        return f"{self.topics.prefix}-follower"

    def log_end_offsets(self, seconds: float = 10.0) -> tuple[tuple[int, ...], int]:
        """Return the end offset of each rating partition and of the cut log, as the broker reports
        them now; refuses a log that does not hold the records from the start on."""
        try:
            return self.bounds.check(self.rounds.start, seconds)
        except EndIsBefore as reason:
            raise self._lost(str(reason)) from None

    def _lost(self, what: str) -> UserError:
        return lost(self._deployment, what, self.rounds.start.cut)

    @property
    def unanswered(self) -> str:
        """A sentence while a new leader does not answer what it is asked, else empty."""
        return self._leader.unanswered if self._leader is not None else ""

    def beyond_end(self) -> str:
        """Return a sentence if a cut or merge that was read names an offset beyond the end of the
        log now; empty if the log holds every record that is waited for."""
        if lacking := self.bounds.exchange_lacks(self.rounds.awaited, _ENDS_SECONDS):
            return lacking
        if self.rounds.first_beyond(self.rounds.received) is None:
            return ""
        ends = self.bounds.ends(_ENDS_SECONDS)
        found = self.rounds.first_beyond(ends)
        if found is None:
            return ""
        before, cut, partition = found
        return (
            f"cut {cut.number} names offset {cut.end_offsets[partition]} of partition {partition}, "
            f"and the log ends at offset {ends[partition]}; {way_out(before)}"
        )

    def lag(self) -> int:
        """Return the number of rating records at the broker after those already yielded."""
        pairs = zip(self.known_ends(), self.rounds.end_offsets, strict=True)
        return sum(max(0, end - applied) for end, applied in pairs)

    def known_ends(self) -> tuple[int, ...]:
        """Return the end offset of each rating partition as far as the consumer knows it."""
        if not self._places:  # the consumer is not assigned yet
            return tuple(self.rounds.received)
        ends = []
        for p, received in enumerate(self.rounds.received):
            place = TopicPartition(self.topics.ratings, p)
            high = received
            if p in self._deployment.spec.owned:
                _, high = self._consumer.get_watermark_offsets(place, cached=True)
            ends.append(max(high, received))
        return tuple(ends)

    def poll(self, seconds: float = 0.02, piece: Piece = LARGE) -> Iterator[Decoded]:
        """Wait up to `seconds` for records and yield every piece that is complete in order.

        Raises `Unanswered`, before the first piece, where the broker does not say in time what must
        be known first; nothing is lost by it, and the next call asks again.
        """
        if not self._places:
            self._assign()
        if self._leader is None:
            self._arrived.extend(self._consumer.consume(_BATCH, seconds))
        else:
            time.sleep(seconds)  # its consumer reads nothing meanwhile
        while self._arrived and self._continues(self._arrived[0]):
            self._take(self._arrived[0])
            self._arrived.popleft()  # it stays where a question about it is not answered
        while not self._unproven and (step := self._step(piece)) is not None:
            if isinstance(step.entry, Contract):
                self._set_contract(step.entry.version)
            batch = decode_many(step.run, self.intake, scan_events) if step.run else None
            place = step.cut, step.cut_offset, step.tails, step.entry
            yield Decoded(batch, *place, *self._redesign(step), step.changes)
        self._pause_and_resume()

    def _set_contract(self, version: int) -> None:
        """Decode what follows by this version of the event format; refuses an unknown one."""
        if version > self._newest_contract:
            raise UserError(
                f"{self.topics.cuts} sets version {version} of the event format, and this release "
                f"of murmurec knows versions up to {self._newest_contract}: install a newer one"
            )
        self.intake = replace(self.intake, contract=version)

    def _redesign(self, step: LogStep) -> tuple[StateSpec | None, bool]:
        """Take up the design of an entry, and return it and whether it takes over; (None, False)
        for an entry without effect. Of entries that the first design contains, only the withdrawal
        of mechanisms takes effect."""
        entry, spec = step.entry, self._deployment.spec
        if not isinstance(entry, DesignEntry):
            return None, False
        if step.cut_offset in self._line.contained:
            withdrawn = self._line.contained[step.cut_offset]
            found: StateSpec | None = replace(spec, withdrawn=withdrawn)
            entry = msgspec.structs.replace(entry, built_to=None)
        elif step.cut_offset < max(self._line.contained, default=0):
            found = None  # it had no effect then
        else:
            found = self._after(entry)
        if found is None:
            self.designs_ignored += 1
            return None, False
        self._deployment = replace(self._deployment, spec=found)
        intake = self._deployment.intake_with(self._check)
        self.intake = replace(intake, contract=self.intake.contract)
        self._expected.append(self.design)
        self.design = found.digest
        return found, entry.built_to is not None

    def _after(self, entry: DesignEntry) -> StateSpec | None:
        """Return the design after an entry, None for one without effect; refuses one that this
        release does not know, and the opening of a deployment with other fixed settings."""
        spec, topic = self._deployment.spec, self.topics.cuts
        try:
            found = followed(entry, spec, opening=self.rounds.number == 0)
        except UnknownSettings as error:
            raise UserError(unknown(topic, error)) from None
        if found is not None:
            refuse_fixed(found, spec, topic)
        gone = entry.built_to is not None and self.rounds.supersedes(entry.built_to)
        return None if gone else found

    def _assign(self) -> None:
        """Learn the truncations, and assign the consumer: late, since a request waits behind a
        blocked fetch, half a second per partition.

        Reading begins with the last record before the start, where it is known and still held, to
        compare its fingerprint.
        """
        start, topics = self.rounds.start, self.topics
        scan = CutLogScan(self._deployment.connection, topics.cuts)
        truncations = scan.after(start.cut, start.cut_offset)
        if truncations.supersede(start.cut):
            raise UserError(
                f"the state begins after cut {start.cut}, and a truncation superseded that cut: "
                "start over from the log (murmurec worker --rebuild) or from a snapshot"
            )
        self.rounds.learn(truncations)
        # Explicit offsets, never OFFSET_BEGINNING, which would skip deleted records unnoticed.
        offsets = {(topics.ratings, p): end for p, end in enumerate(start.end_offsets)}
        offsets[topics.cuts, 0] = start.cut_offset
        tails = dict(zip(offsets, start.tails, strict=False))
        for p in set(range(len(start.end_offsets))) - set(self._deployment.spec.owned):
            del offsets[topics.ratings, p]
        for place, tail in ((place, tails.get(place)) for place in offsets):
            if tail is not None and self.bounds.lows.get(place, tail.offset + 1) <= tail.offset:
                self._unproven[place] = tail
                offsets[place] = tail.offset
        if self._exchange is not None:
            merged = self._exchange.merged.ends
            self.bounds.check_exchange(merged)
            offsets |= {(topics.exchange, shard): end for shard, end in enumerate(merged)}
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        if self._catalogue is not None:
            places.append(TopicPartition(topics.items, 0, OFFSET_BEGINNING))
        self._consumer.assign(places)
        self._places = places

    def _step(self, piece: Piece) -> LogStep | None:
        try:
            return self.rounds.step(piece.records, piece.size)
        except TailDiffers as error:
            raise self._lost(f"{self.topics.ratings}: {error}") from None

    def _take(self, message: Message) -> None:
        # A consumed message always has topic and offset; the type stubs make them optional.
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if error is not None:
            self._failed(error, topic, partition, offset)  # type: ignore[arg-type]
            return
        if self._truncated:
            self._truncated.pop((topic, partition), None)  # type: ignore[arg-type]
        if self._unproven and self._proves(message):
            return
        if topic == self.topics.ratings:
            key, value = held(message.key(), message.value())
            self.rounds.deliver(partition, offset, key, value, epoch_of(message))  # type: ignore[arg-type]
        elif topic == self.topics.cuts:
            self._entry(message)
        elif topic == self.topics.exchange:
            self._change(message)
        elif self._catalogue is not None:
            self._catalogue.learn(message.key(), message.value())

    def _continues(self, message: Message) -> bool:
        """Refuse the first record of another leader unless the log still holds the one before;
        return False while the broker does not say so.

        A log that lost its end and was filled again beyond it goes on at the next offset, as if
        nothing had happened: librdkafka reports that only where it asks in time.
        """
        if message.error() is not None or message.topic() == self.topics.items:
            return True
        place: tuple[str, int] = message.topic(), message.partition()  # type: ignore[assignment]
        before = self._newest.get(place)
        if before is not None and epoch_of(message) > epoch_of(before) >= 0:
            if self._leader is None:
                self._leader = LeaderCheck(self._deployment, *place, tail_of(before))
            if (holds := self._leader.holds()) is None:
                return False
            tail, held_there = self._leader.tail, self._leader.held
            self._leader.close()
            self._leader = None
            if not holds:
                raise lost(
                    self._deployment,
                    f"offset {tail.offset} of {place[0]} partition {place[1]} holds another record "
                    f"than the one that was read ({held_there}, not {tail.fingerprint})",
                )
        self._newest[place] = message
        return True

    def _proves(self, message: Message) -> bool:
        """Compare the last record before the start with the one that the state was computed from;
        return whether the message is that record."""
        place = message.topic(), message.partition()
        tail = self._unproven.get(place)  # type: ignore[arg-type]
        if tail is None:
            return False
        found = tail_of(message)
        # A record behind it: it was deleted meanwhile, as retention does.
        if found != tail and (
            found.offset <= tail.offset or self.bounds.is_lost(*place, tail.offset)  # type: ignore[arg-type]
        ):
            raise self._lost(
                f"offset {tail.offset} of {place[0]} partition {place[1]} holds another record "
                f"than the one that the state at cut {self.rounds.start.cut} was computed from "
                f"({found.fingerprint}, not {tail.fingerprint})"
            )
        del self._unproven[place]  # type: ignore[arg-type]
        return found == tail

    def _entry(self, message: Message) -> None:
        self.cuts_at_end = False
        try:
            entry = decode_entry(message.value())
        except WireError:
            self.cuts_ignored += 1
            return
        match entry:
            case Cut():
                self._cut(entry, message)
                return
            case DesignEntry() if not (self._line.unsealed or entry.is_genuine(self._seal)):
                self.unsealed += 1
                return
            case DesignEntry():
                with suppress(ValueError):
                    after = spec_of(entry.settings, self._deployment.spec.seed)
                    self._expected.append(after.digest)
            case CampaignPlan() | Released() | Aborted():
                self.unsealed += not entry.is_genuine(self._seal)
            case DigestReport() | Merge() if not entry.is_genuine(self._seal):
                self.unsealed += 1
                return
        self.rounds.take(entry, message.offset())

    def _change(self, message: Message) -> None:
        """Take a record of the exchange; what is no change of its shard does not count."""
        assert self._exchange is not None, "assigned with shards alone"
        shard, value, change = message.partition() or 0, message.value() or b"", None
        try:
            found = decode_change(value, self._seal)
            fits = (found.shard, found.factors) == (shard, self._deployment.spec.factors)
            change = found if fits else None
        except WireError as error:
            self.unsealed += isinstance(error, ForeignSeal)
        self._exchange.deliver(shard, message.offset() or 0, change, len(value))

    def _cut(self, cut: Cut, message: Message) -> None:
        tail = tail_of(message)
        try:
            counts = self.rounds.take(cut, tail.offset, tail)
        except OrderError as error:
            raise UserError(
                f"{self.topics.cuts}: {error}; this state was not computed from this log; {RESTORE}"
            ) from None
        if not counts:
            self.cuts_ignored += 1
        elif self._live and cut.design:
            # Old cuts may carry an earlier design of this deployment; new cuts should not.
            same = cut.design == self.design or cut.design in self._expected
            self.other_design = "" if same else cut.design
            if cut.checkpoint and not same:
                self.difference = self._deployment.spec.difference(message.headers())

    def _failed(self, error: KafkaError, topic: str | None, partition: int, offset: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            if topic == self.topics.cuts:
                self._at_end_of_cuts()
            elif topic == self.topics.ratings:
                self.rounds.reached(partition, offset)
            elif topic == self.topics.exchange and self._exchange is not None:
                self._exchange.reached(partition, offset)
            elif self._catalogue is not None:
                self._catalogue.read = True
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if self._asks_again(error, topic, partition):
                return
            if self._passes_deleted((topic or "", partition), offset):
                return
            if topic == self.topics.exchange:
                raise UserError(
                    f"{topic} partition {partition}: changes that were not read yet were deleted "
                    f"({error.str()}); {RESTORE}"
                )
            position = (
                self.rounds.received[partition]
                if topic == self.topics.ratings
                else (self.rounds.next_offset)
            )
            if topic != self.topics.items and self.bounds.is_lost(topic or "", partition, position):
                raise self._lost(
                    f"{topic} partition {partition} does not hold the record before offset "
                    f"{position}, which was read"
                )
            raise UserError(
                f"{topic} partition {partition}: records that were not read yet were deleted "
                f"({error.str()}); the state cannot continue; "
                f"{WAYS_OUT if topic == self.topics.ratings else RESTORE}"
            )
        elif topic is not None and is_unreadable(error):
            # In the cut log it is no entry, as every record that cannot be decoded.
            self._pass_over(TopicPartition(topic, partition, offset))
        # It joins no group, so that it has no right to one is no error.
        elif not passes(error) and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            # An error of the broker connection has no topic.
            source = f"{topic} partition {partition}" if topic else "the broker"
            fault = f"{source} cannot be read: {error.str()}"
            raise UserError(refusal(error, f"topic {topic}", "READ", fault))

    def _asks_again(self, error: KafkaError, topic: str | None, partition: int) -> bool:
        """Return whether a partition is asked again for its end, which a broker that has just
        started may report as one before records that it holds."""
        if topic is None or _TRUNCATED not in error.str():
            return False
        first = self._truncated.setdefault((topic, partition), time.monotonic())
        if time.monotonic() - first > _TRUNCATED_SECONDS:
            return False
        self._assign_again()
        return True

    def _passes_deleted(self, place: tuple[str, int], offset: int) -> bool:
        """Return whether reading goes on at the start, because the record before it, which was to
        be compared, was deleted at the beginning of its partition, as retention does."""
        tail = self._unproven.get(place)
        if tail is None or self.bounds.is_lost(*place, tail.offset):
            if self._deleted.get(place) != offset:
                return False
            # The answer to a fetch from before the last assignment: it stops the partition all the
            # same, since librdkafka does not compare the versions of the two.
            self._assign_again()
            return True
        del self._unproven[place]
        self._deleted[place] = tail.offset
        topic, partition = place
        ratings = topic == self.topics.ratings
        start = self.rounds.received[partition] if ratings else self.rounds.next_offset
        self._places = [
            TopicPartition(topic, partition, start) if (p.topic, p.partition) == place else p
            for p in self._places
        ]
        self._assign_again()
        return True

    def _assign_again(self) -> None:
        """Start a partition again that librdkafka has stopped, which only an assignment does. With
        the leader epochs of the last records, the broker's log is compared once more."""
        read = self._consumer.position([TopicPartition(p.topic, p.partition) for p in self._places])
        # Kept: a position may be unknown at the next call, which would go back to the start.
        self._places = [
            new if new.offset >= 0 else old for new, old in zip(read, self._places, strict=True)
        ]
        self._consumer.assign(self._places)
        self._consumer.resume([TopicPartition(self.topics.ratings, p) for p in self._paused])
        self._paused.clear()

    def _pass_over(self, place: TopicPartition) -> None:
        """Deliver the records of unreadable batches as such, and go on after them.

        `place` is the beginning of a batch; the first records of it may be behind us.
        """
        ratings, partition = place.topic == self.topics.ratings, place.partition
        if ratings:
            place.offset = max(place.offset, self.rounds.received[partition])
        self._unproven.pop((place.topic, partition), None)
        # Of other topics nothing is held, and a piece would begin at the batch again.
        most = MOST_RECORDS if ratings else MAX_SEQ
        end = readable_from(self._connection, self._group, place, most)
        if ratings:
            for offset in range(place.offset, end):
                self.rounds.deliver(partition, offset, None, UNREADABLE)
        self._consumer.seek(TopicPartition(place.topic, partition, end))

    def _at_end_of_cuts(self) -> None:
        if not self.rounds.found_start:
            raise UserError(
                f"{self.topics.cuts} ends with cut {self.rounds.newest_cut[0]}, the state begins "
                f"after cut {self.rounds.start.cut}: this state was not computed from this log; "
                "take the log up without that state (murmurec state truncate --to-cut "
                f"{self.rounds.newest_cut[0]}), {RESTORE}"
            )
        self.cuts_at_end = self._live = True

    def _pause_and_resume(self) -> None:
        for p in range(self.intake.partitions):
            full = (
                self.rounds.buffered(p) > self._most_buffered
                or self.rounds.buffered_bytes(p) > self._most_bytes
            )
            if full != (p in self._paused):
                place = [TopicPartition(self.topics.ratings, p)]
                (self._consumer.pause if full else self._consumer.resume)(place)
                (self._paused.add if full else self._paused.remove)(p)
        if self._exchange is not None:
            self._pause_exchange(self._exchange)

    def _pause_exchange(self, exchange: Exchange) -> None:
        """Read no more changes while many wait, unless a merge waits for them."""
        full = exchange.size > _EXCHANGE_BYTES and not self.rounds.awaited
        if full != self._exchange_paused:
            shards = range(len(exchange.merged.ends))
            places = [TopicPartition(self.topics.exchange, shard) for shard in shards]
            (self._consumer.pause if full else self._consumer.resume)(places)
            self._exchange_paused = full

    def commit(self, ends: tuple[int, ...]) -> None:
        """Commit the offsets up to which the state is durable: for tools that show lag; the
        application never reads them."""
        places = [TopicPartition(self.topics.ratings, p, end) for p, end in enumerate(ends)]
        self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Close the consumers and end the threads that check signatures."""
        self._consumer.close()
        if self._leader is not None:
            self._leader.close()
        self._check.close()
