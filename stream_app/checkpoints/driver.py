"""Connects the protocol's writer to a producer: sends its records and returns acknowledgements.

`protocol.writer.Writer` does no I/O. A worker drives it from its checkpoint thread, a command from
its main thread.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue

from stream_app.checkpoints.protocol.writer import (
    Acked,
    Durable,
    Event,
    LeaseReleased,
    Send,
    Writer,
)
from stream_app.kafka.acknowledged_writer import OnAcknowledged
from stream_app.wire.authenticity.seal import OPEN, Seal
from stream_app.wire.state_records import Manifest

_POLL_SECONDS = 0.01

Produce = Callable[[bytes, bytes | None, OnAcknowledged], None]


class CheckpointDriver:
    """Drives one protocol writer on one topic.

    `produce(key, value, on_acknowledged)` sends a record, or raises BufferError while the queue is
    full; `poll(seconds)` serves delivery reports; `may_go_on` is called between two records, and
    may raise. The producer handles a refused record, which is never acknowledged here.
    """

    def __init__(
        self,
        produce: Produce,
        poll: Callable[[float], object],
        may_go_on: Callable[[], bool],
        seal: Seal = OPEN,
    ) -> None:
        self.writer = Writer(seal=seal)
        self.acknowledged_bytes = 0
        self._produce = produce
        self._poll = poll
        self._may_go_on = may_go_on
        self._acks: SimpleQueue[tuple[Send, int]] = SimpleQueue()

    def drive(self, event: Event) -> Manifest | None:
        """Send every record that follows from an event and wait for the acknowledgements; return
        the manifest that became durable. Releases the lease once `may_go_on` returns False."""
        durable: Manifest | None = None
        waiting: set[int] = set()  # tokens of this event: those of earlier events are ignored
        outputs = self.writer.step(event)
        while outputs or waiting:
            for output in outputs:
                if isinstance(output, Durable):
                    durable = output.manifest
                elif self._send(output):
                    waiting.add(output.token)
            outputs = []
            if not self._may_go_on():
                self.writer.step(LeaseReleased())
                return None
            self._poll(_POLL_SECONDS)
            while not self._acks.empty():
                send, offset = self._acks.get()
                waiting.discard(send.token)
                self.acknowledged_bytes += len(send.value or b"")
                outputs += self.writer.step(Acked(send.token, offset))
        return durable

    def _send(self, send: Send) -> bool:
        def acknowledged(offset: int) -> None:
            self._acks.put((send, offset))

        while self._may_go_on():
            try:
                self._produce(send.key, send.value, acknowledged)
            except BufferError:
                self._poll(_POLL_SECONDS)
            else:
                return True
        return False
