"""Reads a compacted topic on from where the last look ended.

    look    ask for the offsets (one request); read what was appended since, if anything

Between two looks there is no consumer that reads, so an idle topic costs a request every few
seconds. A topic that was made again, or that lost records which were not read, is read from its
beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import TopicReader

_SECONDS = 5.0

Learn = Callable[[bytes | None, bytes | None], None]


@dataclass(eq=False)
class Following:
    """A topic, and how far it was read; `learn` takes each record, `restart` forgets all of them.

    Use it in one thread.
    """

    connection: Connection
    topic: str
    learn: Learn
    restart: Callable[[], None]
    position: int = 0
    changed: bool = False
    """Whether anything was learned or forgotten since its user last set this to False."""
    _was_absent: bool = False

    def look(self, asking: Consumer) -> None:
        """Learn what was appended; `asking` only asks for offsets. A topic that is absent changes
        nothing.

        Raises UserError where the topic cannot be read; what was learned by then is not all, and
        the next look goes on there.
        """
        if self.topic not in clients.listed(asking, _SECONDS):
            self._was_absent = True
            return
        low, end = clients.offsets(asking, TopicPartition(self.topic, 0), _SECONDS)
        if end < self.position or low > self.position > 0 or self._was_absent:
            self.begin_again()
            self._was_absent = False
        if end == self.position:
            return
        with TopicReader(self.connection, self.topic) as reader:
            for batch in reader.batches(self.position):
                for message in batch:
                    self.learn(message.key(), message.value())
                    self.position = (message.offset() or 0) + 1
                self.changed = True
        # Compaction may have removed the last records.
        self.position = max(self.position, end)

    def begin_again(self) -> None:
        """Forget all that was read: the next look begins at the first record."""
        self.restart()
        self.position, self.changed = 0, True
