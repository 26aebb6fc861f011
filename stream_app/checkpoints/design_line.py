"""Which design a state has: the entries of the cut log that changed it, read before the state is.

    cut log      1   2  D1   3   4  D2*  5       D1 in place; the state of D2 was built beside (*)
    at cut 3     begins with the first design, and takes up D1 on the way
    at cut 5     begins with D2, whose state was computed from the beginning, and skips D1

A worker that starts from a checkpoint takes the design from it, and then the later entries
(`design_in_force.py`). A state that is computed from its origin begins with the newest design that
was built beside, or else with the first one. What a design built beside contains from the beginning
are settings and mechanisms; a mechanism that was withdrawn is rejected from the entry on all the
same, so that no applied record is lost and none is taken that a worker had to reject.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from stream_app.deployment import Deployment
from stream_app.kafka import topic_follower
from stream_app.state.design import followed, spec_of
from stream_app.state.spec import StateSpec
from stream_app.wire import DesignEntry, WireError, decode_entry


class _Head(msgspec.Struct):
    """What is needed of an entry; the other fields are not decoded."""

    kind: str = "cut"
    number: int = 0


_head = msgspec.json.Decoder(_Head)


class Logged(NamedTuple):
    """An entry, its offset, and whether it lies before the first cut."""

    offset: int
    entry: DesignEntry
    opening: bool = False


@dataclass(frozen=True)
class DesignLine:
    """The design with which a state begins; of the entries that it contains already the offset
    after each -> the mechanisms withdrawn from there on (`Follower`); and the later entries that
    take effect."""

    base: StateSpec
    contained: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    later: tuple[Redesign, ...] = ()


@dataclass(frozen=True)
class Redesign:
    """An entry that took effect: the offset after it, the design from there on, and whether its
    state was built beside."""

    offset: int
    spec: StateSpec
    beside: bool


def line_of(deployment: Deployment, origin_cut: int = 0, at_cut: int | None = None) -> DesignLine:
    """Return the design with which the state of a deployment begins at the cut of its origin, to
    become that at a cut (None: the newest)."""
    entries: list[Logged] = []
    first = last = None  # the offsets of the two cuts
    opening = True
    for offset, entry in _entries(deployment):
        if isinstance(entry, DesignEntry):
            if opening or entry.replaces:
                entries.append(Logged(offset, entry, opening))
        else:
            opening = False
            first = offset if entry == origin_cut else first
            last = offset if entry == at_cut else last
    entries = [each for each in entries if last is None or each.offset < last]
    if not entries:
        return DesignLine(deployment.spec)
    base = spec_of(entries[0].entry.before or entries[0].entry.settings, deployment.spec.seed)
    steps = followed_by(base, entries)
    pivot = -1
    for number, step in enumerate(steps):
        if step.beside or (first is not None and step.offset <= first):
            pivot = number
    if pivot < 0:
        return DesignLine(base, later=tuple(steps))
    begun = steps[pivot].spec
    if steps[pivot].beside:
        begun = replace(begun, withdrawn=())
    known = {each.id for each in begun.mechanisms}
    contained = {
        step.offset: tuple(name for name in step.spec.withdrawn if name in known)
        for step in steps[: pivot + 1]
    }
    return DesignLine(begun, contained, tuple(steps[pivot + 1 :]))


def followed_by(spec: StateSpec, entries: list[Logged]) -> list[Redesign]:
    """Return the entries that take effect, in order, over a design."""
    steps: list[Redesign] = []
    for offset, entry, opening in entries:
        found = followed(entry, spec, opening=opening)
        if found is not None:
            spec = found
            steps.append(Redesign(offset + 1, found, entry.built_to is not None))
    return steps


def entries_after(deployment: Deployment, first: int) -> list[Logged]:
    """Return the genuine entries of designs behind a cut, from an offset of the cut log on."""
    return [
        Logged(offset, entry)
        for offset, entry in _entries(deployment, first)
        if isinstance(entry, DesignEntry)
    ]


def _entries(deployment: Deployment, first: int = 0) -> Iterator[tuple[int, DesignEntry | int]]:
    """Yield (offset, entry of a design, or number of a cut)."""
    topic = deployment.topics.cuts
    for message in topic_follower.records(deployment.connection, topic, first=first):
        value, offset = message.value() or b"", message.offset() or 0
        try:
            head = _head.decode(value)
            if head.kind == "cut":
                yield offset, head.number
            elif head.kind == "design":
                entry = decode_entry(value)
                if isinstance(entry, DesignEntry) and entry.is_genuine(deployment.seal):
                    yield offset, entry
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, WireError):
            continue
