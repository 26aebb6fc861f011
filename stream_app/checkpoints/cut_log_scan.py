"""Finds the truncations of the cut log, and the cut that a manifest names, before either is used.

The log is scanned from a cut to its end: a start from a checkpoint reads the entries that it will
read anyway. Truncations of later cuts lie behind that cut (`log.cut_chain`). If the record in front
of a manifest's position is not its cut, the manifest is not of this log, or the log lost its end;
only then is the whole log scanned.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stream_app.kafka import topic_follower
from stream_app.kafka.clients import Connection
from stream_app.log.cut_chain import MOST_CUTS, Truncations, scan
from stream_app.wire import Cut, Entry, Truncate, WireError, decode_entry
from stream_app.wire.state_records import Manifest


class _Head(msgspec.Struct):
    """What a scan needs of an entry; the other fields are not decoded."""

    kind: str = "cut"
    number: int = 0


_LATE = 64
_head = msgspec.json.Decoder(_Head)


class CutLogScan:
    """Scans of one cut log, each range once."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection, self._topic = connection, topic
        self._found: dict[int, tuple[int, Truncations]] = {}
        self._late: list[tuple[int, Cut]] | None = None
        self._superseded: dict[tuple[int, int, tuple[int, ...], int], bool] = {}

    def after(self, cut: int, cut_offset: int) -> Truncations:
        """Return the truncations behind a cut whose record ends at `cut_offset` (0: all)."""
        return self._from(max(0, cut_offset - 1), cut)[1]

    def superseded(self, manifest: Manifest) -> bool:
        """Return whether the cut of a manifest, or that of its origin, was superseded; so is a
        number that no clock of this log reached. Asked again it answers from memory: a recovery
        asks about every manifest each time that it reads one."""
        m = manifest
        asked = m.cut, m.cut_offset, m.end_offsets, m.origin.cut
        if asked not in self._superseded:
            self._superseded[asked] = self._is_superseded(manifest)
        return self._superseded[asked]

    def _is_superseded(self, manifest: Manifest) -> bool:
        if manifest.cut > MOST_CUTS:
            return True
        if self._runs_on_from(manifest):
            return False
        number, truncations = self._from(max(0, manifest.cut_offset - 1), manifest.cut)
        if number != manifest.cut:
            _, truncations = self._from(0, 0)
            if truncations.beyond_reach(manifest.cut):
                return True
        return truncations.supersede(manifest.cut) or truncations.supersede(manifest.origin.cut)

    def _runs_on_from(self, manifest: Manifest) -> bool:
        """Return whether the cuts run on from that of an older manifest without a gap of numbers:
        then no truncation followed, and the entries between need not be read. Every late cut
        counts: one of them may be that of a frozen clock, from before a truncation."""
        if self._late is None:
            end = topic_follower.end_offset(self._connection, self._topic) or 0
            late = [*self._entries(max(0, end - _LATE))]
            cuts = [(offset, entry) for offset, entry in late if isinstance(entry, Cut)]
            self._late = cuts if len(cuts) == len(late) else []
        first = manifest.cut_offset - 1
        near = bool(self._late) and all(
            0 <= cut.number - manifest.cut <= offset - first for offset, cut in self._late
        )
        return near and self.names(manifest)

    def names(self, manifest: Manifest) -> bool:
        """Return whether the log holds a cut of this number and these ends where the manifest
        says."""
        first = manifest.cut_offset - 1
        for message in topic_follower.records(self._connection, self._topic, first=max(0, first)):
            try:
                entry = decode_entry(message.value())
            except WireError:
                return False
            return (
                message.offset() == first
                and isinstance(entry, Cut)
                and (entry.number, entry.end_offsets) == (manifest.cut, manifest.end_offsets)
            )
        return False

    def _from(self, first: int, reached: int) -> tuple[int, Truncations]:
        """Return the number of the cut at an offset (0: none), and the truncations from there."""
        if first not in self._found:
            number = 0

            def entries() -> Iterator[tuple[int, Cut | Truncate]]:
                nonlocal number
                for offset, entry in self._entries(first):
                    if offset == first and isinstance(entry, Cut):
                        number = entry.number
                    yield offset, entry

            truncations = scan(entries(), reached)
            self._found[first] = number, truncations
        return self._found[first]

    def _entries(self, first: int) -> Iterator[tuple[int, Cut | Truncate]]:
        for offset, entry in heads(self._connection, self._topic, first, "truncate"):
            if isinstance(entry, Truncate | Cut):
                yield offset, entry


def heads(connection: Connection, topic: str, first: int, kind: str) -> Iterator[tuple[int, Entry]]:
    """Yield (offset, entry) of the cuts, with their number alone, and of the valid entries of a
    kind, from an offset of the cut log on; the others are not decoded."""
    for message in topic_follower.records(connection, topic, first=first):
        value, offset = message.value() or b"", message.offset() or 0
        try:
            head = _head.decode(value)
            if head.kind == kind:
                yield offset, decode_entry(value)
            elif head.kind == "cut":
                yield offset, Cut(head.number, (), 0)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, WireError):
            continue
