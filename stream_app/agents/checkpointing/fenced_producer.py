"""The fenced producer of the state topic: it detects other writers by gaps in its own offsets.

    alone   ... 41 42 43 44 ...          acknowledged offsets without a gap: no other writer
    gap     ... 41 42 -- -- 45 ...       another writer wrote 43 and 44: is either a claim?

The records go through librdkafka: Faust's own producer costs the event loop about 60 us a record, a
tenth of a core at 16 MB/s. Every acknowledgement is awaited, and a refusal ends the process: a
record that was not written must not count as written.

Only the owner of the topic appends, so its acknowledged offsets are consecutive. A gap means that
there is another writer: a frozen former owner that woke up, or a new owner that the group has
assigned. The later claim decides between the two writers (`wire.state_records`), so a separate
thread reads the records in the gap, and reports a claim later than ours; one without the seal of
the deployment's secret does not count. A broker that is away meanwhile is asked again, and
acknowledges nothing until it is back. Without gaps nothing is read. An offset that decreases means
that the topic was deleted and created again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import structlog
from confluent_kafka import Producer

from stream_app.errors import Unanswered, UserError
from stream_app.kafka import topic_follower
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter, OnAcknowledged
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.kafka.clients import Connection
from stream_app.wire import WireError
from stream_app.wire.authenticity.seal import OPEN, Seal
from stream_app.wire.state_records import ClaimKey, decode_claim, decode_state_key, is_manifest

log = structlog.get_logger()

Headers = list[tuple[str, bytes]]
Records = Iterable[tuple[int, bytes | None, bytes | None]]


class FencedProducer:
    """Writes to one partition, from any thread; the thread that polls runs the callbacks.

    `fail` ends the process with a reason. `on_later_claim` receives the generation of a later claim
    than ours. `read_between(first, beyond)` reads offsets, keys and values. `lease_valid` is called
    before every record. Manifests are written with what `manifest_headers` returns.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        fail: Callable[[BaseException], None],
        on_later_claim: Callable[[int], None],
        read_between: Callable[[int, int], Records],
        lease_valid: Callable[[], bool] = lambda: True,
        seal: Seal = OPEN,
        manifest_headers: Callable[[], Headers] = list,
    ) -> None:
        self.topic = topic
        self.position: int | None = None  # all earlier records were read, or written by us
        self.generation: int | None = None
        self._writer = AcknowledgedWriter(producer, topic, fail, "a record of a checkpoint")
        self._fail = fail
        self._on_later_claim = on_later_claim
        self._read_between = read_between
        self._lease_valid = lease_valid
        self._seal = seal
        self._headers = manifest_headers
        self._claims: set[bytes] = set()
        self._reported_offset = -1
        self._gap: tuple[int, int] | None = None  # to be read
        self._is_reading_gaps = False
        self._lock = threading.Lock()

    def produce(self, key: bytes, value: bytes | None, on_acknowledged: OnAcknowledged) -> None:
        """Send one record; raises BufferError when it must wait: poll and try again.

        A record waits while librdkafka's queue is full, and while the lease is invalid: the group
        has not answered this worker for a session, so another worker may own the topic.
        """
        if not self._lease_valid():
            raise BufferError(f"{self.topic}: this worker may not write now")
        if is_claim(key):
            self._claims.add(key)

        def acknowledged(offset: int) -> None:
            if offset >= 0:
                self._written(key, offset)
            on_acknowledged(offset)

        headers = self._headers() if is_manifest(key) else []
        self._writer.send(
            key=key,
            value=value,
            partition=0,
            on_acknowledged=acknowledged,
            **({"headers": headers} if headers else {}),
        )

    @property
    def unacknowledged_seconds(self) -> float:
        """Seconds since the last delivery report while records are unacknowledged, else 0."""
        return self._writer.unacknowledged_seconds

    def poll(self, seconds: float = 0.0) -> None:
        """Serve delivery reports."""
        self._writer.poll(seconds)

    # --- positions ------------------------------------------------------------------------

    def begin_term(self, end: int | None) -> None:
        """Begin a term as the writer of a topic that ends at `end`."""
        with self._lock:
            self.position, self.generation = end, None

    def _written(self, key: bytes, offset: int) -> None:
        with self._lock:
            first, self.position = self.position, max(self.position or 0, offset + 1)
            generation = self.generation
            if key in self._claims:
                self.generation = offset
            elif generation is not None and offset <= generation:
                self._fail(topic_recreated(self.topic, offset, generation))
            has_gap = generation is not None and first is not None and first < offset
            if has_gap and first is not None:
                began = self._gap[0] if self._gap else first
                self._gap = began, offset
            start = has_gap and not self._is_reading_gaps
            self._is_reading_gaps = self._is_reading_gaps or start
        if start:
            # An unread gap may hold a later claim: a failure ends the process.
            BackgroundThread("foreign-records", self._read_gaps, self._fail).start()

    def _read_gaps(self) -> None:
        """Read gaps until none is left; a gap found meanwhile is merged with the pending gap."""
        while (gap := self._next_gap()) is not None:
            self._read_gap(*gap)

    def _read_gap(self, first: int, beyond: int) -> None:
        while True:
            try:
                for offset, key, value in self._read_between(first, beyond):
                    self.seen(offset, key, value)
                return
            except Unanswered as reason:
                log.warning("broker.unanswered", reason=str(reason))

    def _next_gap(self) -> tuple[int, int] | None:
        with self._lock:
            gap, self._gap = self._gap, None
            self._is_reading_gaps = gap is not None
            return gap

    def seen(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Check a record that was read: a later claim of another writer is reported."""
        if key in self._claims or not is_claim(key) or not self._is_genuine(key, value):
            return
        with self._lock:
            later = self.generation is not None and offset > max(
                self.generation, self._reported_offset
            )
            if later:
                self._reported_offset = offset
        if later:
            self._on_later_claim(offset)

    def _is_genuine(self, key: bytes | None, value: bytes | None) -> bool:
        """Return whether a holder of the secret made a claim; always, without a secret."""
        if not self._seal.keyed:
            return True
        try:
            name = decode_state_key(key)
            return isinstance(name, ClaimKey) and bool(decode_claim(name, value or b"", self._seal))
        except WireError:
            return False


def topic_recreated(topic: str, end: int, known: int) -> UserError:
    """Return the error for a topic that has become shorter."""
    return UserError(
        f"topic {topic} ends at offset {end} but was known up to {known}: it was recreated; start "
        "the worker again"
    )


def is_claim(key: bytes | None) -> bool:
    """Return whether a record with this key is a claim."""
    try:
        return isinstance(decode_state_key(key), ClaimKey)
    except WireError:
        return False


def gap_reader(connection: Connection, topic: str) -> Callable[[int, int], Records]:
    """Return a function that reads the records of partition 0, `beyond` not included; it raises
    `Unanswered` where the broker sends nothing because it is away."""

    def between(first: int, beyond: int) -> Records:
        for message in topic_follower.records(connection, topic, first=first):
            if (offset := message.offset() or 0) < beyond:
                yield offset, message.key(), message.value()
            if offset >= beyond - 1:
                return

    return between
