"""Coverage of the schedules: a simulation that never meets a fault proves nothing about it."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Coverage:
    """How often each thing happened, over all schedules that were given this object."""

    schedules: int = 0
    durable: int = 0
    recovered: int = 0
    recovered_nothing: int = 0
    fell_back: int = 0
    """A recovery passed over a manifest that was not whole."""
    took_an_older_generation: int = 0
    """An older generation reached further in the log than the newest."""
    died_with_pages_on_the_way: int = 0
    died_with_a_manifest_on_the_way: int = 0
    died_before_tombstones: int = 0
    late_of_the_dead: int = 0
    """A request arrived after its process had died."""
    zombie_wrote: int = 0
    """A page or manifest arrived after a newer generation's claim."""
    zombie_durable: int = 0
    """A checkpoint became durable after a newer generation's claim."""
    two_owners: int = 0
    """A process claimed while another process was still owner in its own view."""
    compacted_in_a_checkpoint: int = 0
    """Compaction removed something while a checkpoint was being written."""
    compacted_while_read: int = 0
    """Compaction removed something while a process was reading the topic."""
    written_while_read: int = 0
    read_again: int = 0
    """What was to be loaded had changed during a reading; a part of the topic was read again."""
    died_while_reading: int = 0
    died_between_readings: int = 0
    surveyed_on: int = 0
    """A new owner read on from where its own start had ended."""
    truncated: int = 0
    """The log lost its tail, and its cuts were superseded."""
    reloaded: int = 0
    """A process was beyond the end of a truncated log, and started over."""
    wrote_superseded: int = 0
    trimmed: int = 0
    overtaken: int = 0
    """Retention removed what a process had not read yet; it started over."""
    tombstones: int = 0
    damaged: int = 0
    lost_to_damage: int = 0
    """After a flipped bit there was neither checkpoint nor log: a refusal, not a wrong state."""
    intruded: int = 0

    def add(self, other: Coverage) -> None:
        """Add the counts of another."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
