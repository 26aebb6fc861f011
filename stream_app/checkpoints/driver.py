"""Carrying out what the protocol's writer says: records out, acknowledgements back in.

Between `log.checkpoint.Writer`, which does no I/O, and a producer. A worker drives it from its
checkpoint thread, a command from the only thread it has.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue

from confluent_kafka import KafkaError, Message

from stream_app.checkpoints.protocol.writer import (
    Acked,
    Durable,
    Event,
    LeaseReleased,
    Send,
    Writer,
)
from stream_app.wire.state_records import Manifest

_POLL_SECONDS = 0.01

Delivered = Callable[[KafkaError | None, Message], None]
Produce = Callable[[bytes, bytes | None, Delivered], None]


class CheckpointDriver:
    """One writer and the way to its topic.

    `produce(key, value, on_delivery)` sends a record, or raises BufferError when none can be taken
    now; `poll(seconds)` runs the callbacks; `may_go_on` is asked between two records, and may
    raise. An error in a delivery report is the producer's to deal with: here it is merely not an
    acknowledgement.
    """

    def __init__(
        self, produce: Produce, poll: Callable[[float], object], may_go_on: Callable[[], bool]
    ) -> None:
        self.writer = Writer()
        self.acknowledged_bytes = 0
        self._produce = produce
        self._poll = poll
        self._may_go_on = may_go_on
        self._acks: SimpleQueue[tuple[Send, int]] = SimpleQueue()

    def drive(self, event: Event) -> Manifest | None:
        """Carry out what follows from an event until nothing is on its way; return what became
        durable. Where it may not go on, the writer is disowned."""
        durable: Manifest | None = None
        waiting: set[int] = set()  # acknowledgements of an earlier event may still come
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
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offset = message.offset()
                self._acks.put((send, -1 if offset is None else offset))

        while self._may_go_on():
            try:
                self._produce(send.key, send.value, delivered)
            except BufferError:
                self._poll(_POLL_SECONDS)
            else:
                return True
        return False
