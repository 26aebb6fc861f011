"""The reader: a thread with its own consumer that hands the state and then the log, in canonical
order, to the learn agent.

It begins with the newest checkpoint, or with an empty state where the topic has no checkpoint, and
reads the log from that cut on. When the state is to be replaced (`ReplacementPolicy.reload`), it
begins again.

A plain Faust agent on the rating topic costs 63 us of the event loop per message and can skip
records at a failover (both measured). This thread takes its position from the log and skips none.
It hands over short lists of pieces on a bounded channel, so a slow learner slows the reader and
memory stays bounded.

The thread also drives the clock: while this worker owns the cut log, it appends the cuts that
`Clock` finds due.

A broker that does not answer is waited for as long as it takes, except at the start: what it was
asked stays to be asked, nothing is skipped, and the worker is not ready meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import structlog
from confluent_kafka import KafkaError, Message, Producer
from msgspec import structs

from stream_app.agents.checkpointing.restore import Restored
from stream_app.agents.crash_guard import ThreadService
from stream_app.agents.runtime import Runtime
from stream_app.checkpoints.checkpoint_reader import Checkpoint
from stream_app.errors import Unanswered, UserError
from stream_app.kafka import clients
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.kafka.passing import passes, unwritten
from stream_app.log.canonical_order import Start
from stream_app.log.cut_clock import Clock, MergeClock
from stream_app.replay.follower import LARGE, SMALL, Decoded, Follower
from stream_app.replay.log_bounds import placed_by
from stream_app.state.spec import StateSpec
from stream_app.wire import EPOCH_SECONDS, Cut, Merge, encode_message
from stream_app.wire.state_records import StateOrigin

Progress = Callable[[int, int], None]
log = structlog.get_logger()
_PIECES = 8
_LARGE_PIECES = 2
_ASK_SECONDS = 4.0
# A cut that waited too long; and a broker whose disk fills up may refuse without a reason.
_LOST = (KafkaError._MSG_TIMED_OUT, KafkaError.UNKNOWN)


class LogReader(ThreadService):
    """The service that runs the thread while the application runs."""

    _JOIN_SECONDS = 3.0

    def __init__(
        self,
        runtime: Runtime,
        recover: Callable[[Progress], Checkpoint | None],
        first_origin: Callable[[], StateOrigin],
        follow: Callable[[Start, StateSpec | None], Follower],
        clock: Clock,
        producer: Producer,
        channel: Any,
        still_the_log: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__("reader", runtime.status)
        self._runtime = runtime
        self._recover = recover
        self._first_origin = first_origin
        self._follow = follow
        self._clock = clock
        self._producer = producer
        self._channel = channel
        self._merges = MergeClock()
        self._told_unread = 0
        self._check_log = still_the_log
        self._unsealed_seen = False
        self._told_difference = "", ""
        self._probed_time = 0.0
        self._committed: tuple[int, ...] | None = None
        self._first_read: tuple[Future[Checkpoint | None], float] | None = None
        self._has_begun = False
        self._progressed = 0, 0
        self._warmed: StateSpec | None = None

    def read_ahead(self) -> None:
        """Read the checkpoint from now on, in a thread of its own, while the worker joins its
        group: the join takes seconds and does not depend on the state."""
        reading: Future[Checkpoint | None] = Future()

        def read() -> None:
            reading.set_result(self._recover(self._progress))

        self._first_read = reading, time.monotonic()
        BackgroundThread("read-ahead", read, reading.set_exception).start()

    def _run(self) -> None:
        while not self.thread.ended:
            try:
                follower = self._begin()
            except Unanswered as reason:
                if not self._has_begun:
                    raise
                log.warning("broker.unanswered", reason=str(reason))
                continue
            self._has_begun = True
            try:
                self._read(follower)
            finally:
                follower.close()

    def _begin(self) -> Follower:
        """Hand over the initial state, and return a follower that continues from its cut."""
        runtime, began = self._runtime, time.monotonic()
        origin = None
        if (wish := runtime.replacement.reload) is not None:
            log.warning("state.reloading", reason=wish.reason)
            origin = wish.origin
            if origin is not None and wish.or_checkpoint and not self._reaches_back(origin):
                origin = None
        found = None
        if origin is None and self._first_read is not None:
            (reading, began), self._first_read = self._first_read, None
            found = reading.result()
        elif origin is None:
            found = self._recover(self._progress)
        if found is not None:
            origin = found.manifest.origin
            start, spec = Start.after(found.manifest), found.replica.spec
            start = replace(start, merged=found.replica.merged)
            runtime.metrics.recovered(time.monotonic() - began)
        else:
            origin = origin or self._first_origin()
            start = Start(origin.cut, origin.end_offsets, 0, origin.contract)
            spec = None
        follower = self._follow(start, spec)
        try:
            end_offsets, _ = follower.log_end_offsets()
            restored = Restored(origin, found, follower.first_spec)
            self._hand_over(restored)
            while not (restored.done.wait(0.1) or self.thread.ended):
                pass
            runtime.status.start_end_offsets = end_offsets
            runtime.status.lag.restart()
            runtime.status.note_missing("", 0.0)
        except BaseException:
            follower.close()
            raise
        self._clock.begin_again()
        self._clock.design = follower.first_spec.digest
        return follower

    def _reaches_back(self, origin: StateOrigin) -> bool:
        start = Start(origin.cut, origin.end_offsets, 0, origin.contract)
        follower = self._follow(start, self._runtime.replica.spec)
        try:
            follower.log_end_offsets()
        except Unanswered:
            raise
        except UserError:
            return False
        finally:
            follower.close()
        return True

    def _progress(self, done: int, total: int) -> None:
        self._runtime.status.step = f"reading the checkpoint: {done:,} of {total:,} records"
        if (done, total) != self._progressed:  # it is called without an answer, too
            self._progressed = done, total
            self._runtime.status.last_answer_time = time.monotonic()

    def _read(self, follower: Follower) -> None:
        while not self.thread.ended and self._runtime.replacement.reload is None:
            if follower.rounds.truncated:
                self.loop.call_soon_threadsafe(self._runtime.replacement.begin_again)
                return
            # With a cut pending, poll for a short time only: a batch ends when it is full or late.
            patience = 0.003 if self._clock.waits else 0.02
            quiet = self._runtime.status.quiet
            piece, most = (LARGE, _LARGE_PIECES) if quiet else (SMALL, _PIECES)
            try:
                for pieces in _chunks(follower.poll(patience, piece), most):
                    self._hand_over(pieces)
            except Unanswered as reason:
                log.warning("broker.unanswered", reason=str(reason))
            self._beat(follower)

    def _await_kernels(self, pieces: list[Decoded]) -> None:
        """Compile what a new design calls before it is applied; queries are answered meanwhile."""
        for piece in pieces:
            runtime, kernels = self._runtime, self._runtime.status.kernels
            warmed = self._warmed or _calls(runtime.replica.spec)
            if piece.design is not None and _calls(piece.design) != warmed:
                self._warmed = _calls(piece.design)
                kernels.start(piece.design, runtime.settings.index)
                kernels.wait(serving=True)
                runtime.status.note_answer()
            if piece.design is not None:
                self._clock.design = piece.design.digest

    def _hand_over(self, pieces: list[Decoded] | Restored) -> None:
        """Put the pieces on the channel; waits while the learner is behind."""
        if self.thread.ended:
            return
        if not isinstance(pieces, Restored):
            self._await_kernels(pieces)
        put = asyncio.run_coroutine_threadsafe(self._channel.put(pieces), self.loop)
        while not self.thread.ended:
            try:
                put.result(timeout=0.2)
            except TimeoutError:
                continue
            self._runtime.status.last_answer_time = time.monotonic()
            return
        put.cancel()

    def _beat(self, follower: Follower) -> None:
        rounds = follower.rounds
        if follower.cuts_at_end:
            self._clock.at_end_of_cuts()
        checkpoints = self._runtime.checkpoints
        entry = self._clock.due(
            time.monotonic(),
            rounds.last_used,
            rounds.received,
            int(time.time()) // EPOCH_SECONDS,
            checkpoint_wanted=checkpoints is not None and checkpoints.wanted,
            entry_waits=rounds.entry_waits,
            contract=rounds.newest_contract,
            designed=rounds.designed,
        )
        if self._runtime.status.stopping:
            self._clock.rest()
            if not self._clock.waits:
                self._runtime.status.last_cut = rounds.newest_cut[0]
        if isinstance(entry, Cut):
            entry = structs.replace(entry, tails=rounds.tails_below(entry.end_offsets))
        if entry is not None:
            self.append(encode_message(entry), isinstance(entry, Cut) and entry.checkpoint)
        self._merge(follower)
        self._producer.poll(0)
        self._probe_broker(follower)
        self._compare_designs(follower)
        self._count_unsealed(follower)
        if self._runtime.status.durable_end_offsets not in (None, self._committed):
            self._committed = self._runtime.status.durable_end_offsets
            follower.commit(self._committed)
        self._runtime.status.cuts_ignored = follower.cuts_ignored
        self._runtime.status.lag.note(
            follower.known_ends(), self._runtime.replica.end_offsets, time.monotonic()
        )
        lag = follower.lag()
        self.loop.call_soon_threadsafe(self._runtime.gauges.lag, lag)

    def _merge(self, follower: Follower) -> None:
        """Append a merge of the changes that have come, where this worker owns the clock."""
        exchange, rounds = follower.rounds.exchange, follower.rounds
        begun = rounds.found_start and rounds.newest_cut[0] > 0
        if exchange is None or not (self._clock.writes and begun):
            return
        ends = self._merges.due(time.monotonic(), exchange.ends, rounds.newest_merge)
        if ends is not None:
            self.append(encode_message(Merge(ends).sealed(self._runtime.seal)))

    def _probe_broker(self, follower: Follower) -> None:
        now = time.monotonic()
        if now - self._probed_time > _ASK_SECONDS:
            self._probed_time = now
            if follower.bounds.answers():
                self._check_log()
                self._warn_of_added(follower)
                self._runtime.status.last_answer_time = time.monotonic()
                with suppress(UserError):  # the broker is away again
                    missing = follower.unanswered or follower.beyond_end()
                    self._runtime.status.note_missing(missing, now)

    def _warn_of_added(self, follower: Follower) -> None:
        """Log that partitions were added to the ratings, once, and when the records in them, which
        no worker reads, have doubled."""
        unread, used = follower.bounds.unread, self._runtime.replica.spec.partitions
        if unread is not None and unread + 1 >= 2 * self._told_unread:
            self._told_unread = unread + 1
            log.warning(
                "ratings.partitions_added",
                topic=follower.topics.ratings,
                used=used,
                unread_records=unread,
                fix=placed_by(used),
            )

    def _count_unsealed(self, follower: Follower) -> None:
        """Count the entries without the seal since the last call: digest reports, which the
        follower ignored, and those of campaigns, which took effect."""
        if follower.unsealed:
            if not self._unsealed_seen:  # one line: their number is up to the writer
                log.warning(
                    "cut_log.unsealed",
                    topic=follower.topics.cuts,
                    fix="give every worker the same state_secret, or revoke a foreign WRITE",
                )
            self._unsealed_seen = True
            self._runtime.metrics.unsealed(follower.unsealed)
            follower.unsealed = 0

    def _compare_designs(self, follower: Follower) -> None:
        other, difference = follower.other_design, follower.difference
        if (other, difference) != self._told_difference:
            self._told_difference = other, difference
            self._runtime.status.other_spec = other
            if other:
                log.warning(
                    "design.differs",
                    differs=difference or f"{other}, not {follower.design}",
                    fix="a worker of another release, or without the state_secret: update it",
                )

    def append(self, entry: bytes, explained: bool = False) -> None:
        """Append an entry to the cut log, with the settings as its headers if `explained`; from any
        thread."""
        cuts, spec = self._runtime.topics.cuts, self._runtime.replica.spec
        headers = {"headers": spec.headers} if explained else {}
        clients.send(self._producer, cuts, value=entry, on_delivery=self._appended, **headers)

    def _appended(self, error: KafkaError | None, _: Message) -> None:
        # The clock writes a lost cut again; a refused cut would be refused each time.
        if error is None or passes(error) or error.code() in _LOST:
            return
        self._runtime.status.fail_from_thread(
            unwritten(error, self._runtime.topics.cuts, "an entry")
        )


def _calls(spec: StateSpec) -> StateSpec:
    """Return a spec without what no kernel is compiled for."""
    return replace(spec, clip=1.0, held_out=0.0, withdrawn=())


def _chunks(pieces: Iterable[Decoded], most: int) -> Iterator[list[Decoded]]:
    """Cut a stream of pieces into lists of at most `most`, so that one hand-over carries several
    pieces."""
    stream = iter(pieces)
    while chunk := list(islice(stream, most)):
        yield chunk
