"""The messages of a journal on their way to a broker that may be away for long.

    send --> waiting, in order --> producer --> broker --> delivery report --> acknowledged
                 ^                    |
                 `--- all that is not acknowledged, again: after a failure, with another producer

A message is durable in the journal before it is here, and only a delivery report removes it there.
So nothing is lost while the broker is away, and what is sent again are the same bytes. After a
failure the producer is given up, because the server drops a seq that arrives after a larger one of
the same device; a new one is connected after a pause and begins with the oldest message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from confluent_kafka import KafkaException

from producers.journal import Message
from producers.publishing import Producer, refusal
from stream_app.errors import OlderJournal, ScopeChanged, UserError

RETRY_SECONDS = 30.0
Connect = Callable[[], Producer]


class Outbox(Protocol):
    """What waits for the broker: a `Journal`, or several of them (`producers.edge.reporting`)."""

    def pending(self) -> list[Message]:
        """Return the messages without acknowledgement, oldest first."""

    def acknowledge(self, number: int) -> None:
        """Record that the broker has accepted a message."""

    def headers(self, message: Message) -> list[tuple[str, bytes]]:
        """Return the headers of the record of a message."""


class Delivery:
    """Sends the messages of one topic; `connect` returns a producer once the topic was checked.

    `notice` gets one sentence when the broker is lost and one when it is back.
    """

    def __init__(
        self,
        journal: Outbox,
        topic: str,
        connect: Connect,
        notice: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._journal, self._topic, self._connect = journal, topic, connect
        self._notice, self._clock = notice, clock
        self._producer: Producer | None = None
        self._waiting: deque[Message] = deque()
        self._retry_at = -float("inf")
        self._failure = ""
        self.complaint = ""  # why nothing is sent now; empty where nothing is in the way
        self.accepted = 0
        self.connected = False  # at least once: the topic was checked

    @property
    def unconfirmed(self) -> int:
        """How many messages the broker has not confirmed."""
        return len(self._journal.pending())

    def send(self, message: Message) -> None:
        """Take a message of the journal; it is sent now or later."""
        if self._producer is not None:  # else it is among the pending when there is one
            self._waiting.append(message)

    def serve(self) -> None:
        """Connect where there is no producer, send what waits, and take delivery reports.

        A `UserError` of `connect` is a broker that is away; `OlderJournal` and `ScopeChanged` go
        through.
        """
        if self._failure:
            self._give_up(self._failure)
        if self._producer is None and not self._begin():
            return
        assert self._producer is not None
        while self._waiting:
            try:
                self._produce(self._waiting[0])
            except BufferError:
                break
            except KafkaException as error:
                self._give_up(refusal(error.args[0], self._topic))
                return
            self._waiting.popleft()
        try:
            self._producer.poll(0)
        except OlderJournal:
            raise
        except UserError as error:  # no right to write
            self._give_up(str(error))

    def close(self, seconds: float) -> None:
        """Wait at most so long for delivery reports; what has none is sent by the next run."""
        if self._producer is not None:
            self.serve()
        if self._producer is not None:
            with suppress(UserError):
                self._producer.flush(seconds)
            self._producer = None

    def _begin(self) -> bool:
        if self._clock() < self._retry_at:
            return False
        try:
            self._producer = self._connect()
        except (OlderJournal, ScopeChanged):
            raise
        except UserError as error:
            self._retry_at = self._clock() + RETRY_SECONDS
            self._complain(str(error))
            return False
        self._failure = ""
        self.connected = True
        if self.complaint:
            self._notice("the broker is back")
            self.complaint = ""
        self._waiting = deque(each for each in self._journal.pending() if each.topic == self._topic)
        return True

    def _produce(self, message: Message) -> None:
        assert self._producer is not None
        producer = self._producer

        def reported(error: Any, record: Any) -> None:  # noqa: ARG001 (the signature is Kafka's)
            if error is None:
                self._journal.acknowledge(message.number)
                self.accepted += 1
            elif producer is self._producer:
                self._failure = refusal(error, message.topic)

        producer.produce(
            message.topic,
            key=message.key,
            value=message.value,
            headers=self._journal.headers(message),
            on_delivery=reported,
        )

    def _give_up(self, reason: str) -> None:
        self._producer, self._failure = None, ""
        self._waiting.clear()
        self._retry_at = self._clock() + RETRY_SECONDS
        self._complain(f"a message was not accepted: {reason}")

    def _complain(self, sentence: str) -> None:
        sentence = sentence.replace("--role ROLE", "--role device")
        if sentence != self.complaint:
            self._notice(f"{sentence}; messages are kept in the journal and sent later")
            self.complaint = sentence
