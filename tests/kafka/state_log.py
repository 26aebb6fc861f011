"""A log without workers: records, cuts and other entries written by hand, so that every cut is
known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.deployment import Deployment, spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.replay.recompute import Replay, Replayed
from stream_app.settings import Settings
from stream_app.wire import Cut, Entry, Topics, encode_message
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.streams import Published
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send


@dataclass
class Log:
    """The log of one deployment; `end_offsets` and `number` are those of its newest cut."""

    settings: Settings
    send: Send
    end_offsets: tuple[int, ...] = (0, 0, 0, 0)
    number: int = 0
    cuts: list[Cut] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._producer = clients.producer(self.connection, linger_ms=0)

    @property
    def servers(self) -> str:
        """Kafka."""
        assert self.settings.bootstrap_servers is not None
        return self.settings.bootstrap_servers

    @property
    def connection(self) -> Connection:
        """The connection to Kafka."""
        return Connection(self.servers)

    @property
    def deployment(self) -> Deployment:
        """The connection, the topics and the spec."""
        return Deployment.from_settings(self.settings)

    @property
    def names(self) -> Topics:
        """The topics."""
        return Topics(self.settings.topic_prefix)

    def round(self, records: Sequence[Published]) -> Cut:
        """Publish the records and the cut after them."""
        self.send(records)
        counts = [sum(record.partition == p for record in records) for p in range(4)]
        return self.cut(tuple(end + n for end, n in zip(self.end_offsets, counts, strict=True)))

    def rounds(self, records: Sequence[Published], count: int) -> None:
        """Publish the records in so many rounds."""
        size = -(-len(records) // count)
        for first in range(0, len(records), size):
            self.round(records[first : first + size])

    def cut(self, end_offsets: tuple[int, ...]) -> Cut:
        """Append the next cut."""
        self.number, self.end_offsets = self.number + 1, end_offsets
        cut = Cut(self.number, end_offsets, 0, spec_from_settings(self.settings).digest)
        self.entry(cut)
        self.cuts.append(cut)
        return cut

    def entry(self, entry: Entry) -> None:
        """Append an entry of the cut log."""
        self._producer.produce(self.names.cuts, encode_message(entry))
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def replayed(self, at_cut: int | None = None, origin: StateOrigin | None = None) -> Replayed:
        """Return the state at a cut, from the log."""
        replay = Replay(self.deployment)
        return replay.from_origin(origin, at_cut)
