"""A worker process: it reads the state topic, follows the log, and perhaps owns the clock. A crash
loses everything but the requests on the way; the process then starts again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from stream_app.checkpoints.protocol.recovery import Recovery
from stream_app.checkpoints.protocol.streaming import PageStore, StreamedRecovery
from stream_app.checkpoints.protocol.writer import Send, Writer
from stream_app.wire.state_records import Manifest
from tests.simulation.broker import FIRST_OFFSET
from tests.simulation.pages import BytePages
from tests.simulation.world import BASE, DESIGN, PARTITIONS, TOPIC_ID, Ends, State, World


class Phase(Enum):
    """What a process is doing."""

    READING = auto()
    LIVE = auto()


class Mail(Enum):
    """An assignment from the coordinator to a process."""

    OWN = auto()
    DISOWN = auto()


@dataclass(frozen=True)
class Variant:
    """The protocol under test: the real one, or a mutant of it.

    `committed` resumes at the offsets that were committed, not at the manifest's; `early` commits
    them at the freeze, not when the checkpoint is durable; `once` reads the state topic to the end
    that it had when the reading began.
    """

    name: str = "the protocol"
    writer: Callable[[int], Writer] = Writer
    recovery: Callable[..., Recovery] = Recovery
    streamed: Callable[[Recovery, PageStore], StreamedRecovery] = StreamedRecovery
    committed: bool = False
    early: bool = False
    once: bool = False

    def recover(
        self, store: PageStore, superseded: Callable[[Manifest], bool] = lambda _: False
    ) -> StreamedRecovery:
        """Return a recovery that has read nothing."""
        rules = self.recovery(DESIGN, TOPIC_ID, PARTITIONS, superseded=superseded)
        return self.streamed(rules, store)


class Reading(NamedTuple):
    """A recovery and the store that it fills."""

    streamed: StreamedRecovery
    store: BytePages


class Cut(NamedTuple):
    """A cut in the cut log: the next offset there, and the branch of the log that it ends."""

    offset: int
    branch: int


class Process:
    """One worker: where it is in the state topic and in the log, and what it has under way."""

    def __init__(self, name: str) -> None:
        self.name = name

    def bear(self, reading: Reading, writer: Writer, stop: int) -> None:
        """Start again from an empty memory (a process has no disk); `stop` is the end of the
        state topic."""
        self.reading, self.writer, self.stop = reading, writer, stop
        self.readings = 0
        self.phase = Phase.READING
        self.position = FIRST_OFFSET
        self.state: State | None = None
        self.cut, self.cut_offset, self.end_offsets = 0, 0, BASE.end_offsets
        self.beyond = False  # beyond the end of a log that has lost its tail
        self.frozen_cut: int | None = None
        self.durable_cut: int | None = None
        self.paused = self.owns = False
        self.survey: Recovery | None = None
        self.on_the_way: list[tuple[int, Send]] = []  # with the oldest cut at that time
        self.acks: list[tuple[int, int]] = []
        self.mail: list[Mail] = []

    @property
    def is_amid_reading(self) -> bool:
        """Whether a part of the state topic has been read."""
        return self.phase is Phase.READING and self.position > FIRST_OFFSET

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is begun and not durable."""
        return self.writer.generation is not None and not self.writer.ready

    @property
    def is_settled(self) -> bool:
        """Whether nothing is on its way."""
        return not self.on_the_way and not self.acks

    @property
    def written_cut(self) -> int:
        """The cut of the newest durable checkpoint of this ownership, or of the first that is being
        written, or the current cut."""
        written = self.frozen_cut if self.durable_cut is None else self.durable_cut
        return self.cut if written is None else min(self.cut, written)

    @property
    def oldest_cut(self) -> int:
        """The oldest cut that this process has to do with."""
        return self.cut if self.is_settled else self.written_cut

    @property
    def has_news(self) -> bool:
        """Whether an assignment has not been acted upon yet."""
        return bool(self.mail) or self.survey is not None

    def acquire(self, survey: Recovery) -> None:
        """Take the ownership; `survey` is the recovery of the state topic as of now.

        A checkpoint of an earlier ownership goes on until the new one is claimed.
        """
        self.owns, self.survey = True, survey

    def claim(self) -> Recovery:
        """Begin the new ownership and return its survey of the state topic."""
        survey, self.survey = self.survey, None
        assert survey is not None
        self.frozen_cut = self.durable_cut = None
        return survey

    def start(self, state: State, cut: int, cut_offset: int, end_offsets: Ends) -> None:
        """Start from a checkpoint, or from the empty state."""
        self.state, self.cut, self.end_offsets = state, cut, end_offsets
        self.cut_offset = cut_offset
        self.phase = Phase.LIVE

    def follow(self, world: World, cut: Cut) -> None:
        """Apply the next round, which ends at `cut`."""
        assert self.state is not None
        self.cut += 1
        self.cut_offset = cut.offset
        self.state = world.apply(self.state, self.end_offsets, self.cut, cut.branch)
        self.end_offsets = world.end_offsets[self.cut]
