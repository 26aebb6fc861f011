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

from stream_app.checkpoints.cut_log_scan import CutLogScan, heads
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.state.design import UnknownSettings, followed, spec_of
from stream_app.state.spec import StateSpec, settings_digest
from stream_app.wire import Cut, DesignEntry
from stream_app.wire.authenticity.seal import ANY


class Logged(NamedTuple):
    """An entry, its offset, and whether it lies before the first cut."""

    offset: int
    entry: DesignEntry
    opening: bool = False


@dataclass(frozen=True)
class Redesign:
    """An entry that took effect: the offset after it, the design from there on, and whether its
    state was built beside."""

    offset: int
    spec: StateSpec
    beside: bool


@dataclass(frozen=True)
class DesignLine:
    """The design with which a state begins; of the entries that it contains already the offset
    after each -> the mechanisms withdrawn from there on (`Follower`); all `steps` that take effect,
    contained or not; and whether they lack the seal (`line_of`)."""

    base: StateSpec
    contained: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    steps: tuple[Redesign, ...] = ()
    unsealed: bool = False

    @property
    def newest(self) -> StateSpec:
        """The design after the last entry."""
        return self.steps[-1].spec if self.steps else self.base

    @property
    def taken_over(self) -> StateSpec | None:
        """The newest design whose state was built beside."""
        return next((step.spec for step in reversed(self.steps) if step.beside), None)


def line_of(
    deployment: Deployment, origin_cut: int = 0, at_cut: int | None = None, design: str = ""
) -> DesignLine:
    """Return the design with which the state of a deployment begins at the cut of its origin, to
    become that at a cut (None: the newest), or one of the fingerprint `design`, which was built
    beside and may take over later.

    Where a secret was introduced, the entries before it have no seal: they are taken if they lead
    to the deployment's own design, which a sealed checkpoint proves.
    """
    line = _line(deployment, origin_cut, at_cut, design)
    if line.steps or not deployment.seal.keyed:
        return line
    bare = _line(replace(deployment, seal=ANY), origin_cut, at_cut, design)
    whole = _line(replace(deployment, seal=ANY), 0, None, "")
    return replace(bare, unsealed=True) if whole.newest == deployment.spec else line


def _line(deployment: Deployment, origin_cut: int, at_cut: int | None, design: str) -> DesignLine:
    entries, first, last = _read(deployment, origin_cut, at_cut)
    start = next((e for e in entries if e.opening or _is_whole(e.entry)), None)
    if start is None:
        return DesignLine(deployment.spec)
    texts = start.entry.settings if start.opening else start.entry.before
    base = _spec(texts, deployment)
    steps = followed_by(deployment, base, entries)
    pivot = -1
    for number, step in enumerate(steps):
        begins = step.offset <= last or step.spec.digest == design
        if (step.beside and begins) or step.offset <= first:
            pivot = number
    counted = tuple(step for n, step in enumerate(steps) if step.offset <= last or n <= pivot)
    if pivot < 0:
        return DesignLine(base, steps=counted)
    begun = steps[pivot].spec
    # As of the origin: a reader passes over the entries before it.
    before = [step.spec.withdrawn for step in steps if step.offset <= first]
    begun = replace(begun, withdrawn=before[-1] if before else ())
    contained = {s.offset: s.spec.withdrawn for s in steps[: pivot + 1] if s.offset > first}
    return DesignLine(begun, contained, counted)


def _read(
    deployment: Deployment, origin_cut: int, at_cut: int | None
) -> tuple[list[Logged], int, int]:
    """Return the entries that may take effect, and the offsets of two cuts: that of the origin, and
    of the last that counts (-1, and one behind all, for none)."""
    entries: list[Logged] = []
    found: dict[int, int] = {}
    for offset, entry in _entries(deployment):
        if isinstance(entry, int):
            found.setdefault(entry, offset)
        elif entry.replaces or not found:
            entries.append(Logged(offset, entry, opening=not entry.replaces))
    behind = 1 << 62
    last = behind if at_cut is None else found.get(at_cut, behind)
    return entries, found.get(origin_cut, -1), last


def _is_whole(entry: DesignEntry) -> bool:
    return settings_digest(entry.before) == entry.replaces


def _spec(texts: Mapping[str, str], deployment: Deployment) -> StateSpec:
    try:
        return spec_of(texts, deployment.spec.seed)
    except ValueError as error:
        raise UserError(unknown(deployment.topics.cuts, error)) from None


def unknown(topic: str, error: ValueError) -> str:
    """Return the sentence for an entry that this release cannot read."""
    return (
        f"{topic} changes the settings to some that this release does not know ({error}): install "
        "the release that wrote them"
    )


def followed_by(deployment: Deployment, spec: StateSpec, entries: list[Logged]) -> list[Redesign]:
    """Return the entries that take effect, in order, over a design. One whose state was built up to
    a cut that a truncation superseded has none."""
    steps: list[Redesign] = []
    scan = CutLogScan(deployment.connection, deployment.topics.cuts)
    for offset, entry, opening in entries:
        try:
            found = followed(entry, spec, opening=opening)
        except UnknownSettings as error:
            raise UserError(unknown(deployment.topics.cuts, error)) from None
        built = entry.built_to
        if found is None or (built is not None and scan.after(0, 0).supersede(built)):
            continue
        spec = found
        steps.append(Redesign(offset + 1, found, built is not None))
    return steps


def entries_after(deployment: Deployment, first: int, cut: int) -> list[Logged]:
    """Return the genuine entries of designs behind a cut, from an offset of the cut log on."""
    found = []
    for offset, entry in _entries(deployment, first):
        if isinstance(entry, int):
            cut = entry
        else:
            found.append(Logged(offset, entry, opening=not cut and not entry.replaces))
    return found


def _entries(deployment: Deployment, first: int = 0) -> Iterator[tuple[int, DesignEntry | int]]:
    """Yield (offset, genuine entry of a design, or number of a cut)."""
    for offset, entry in heads(deployment.connection, deployment.topics.cuts, first, "design"):
        if isinstance(entry, Cut):
            yield offset, entry.number
        elif isinstance(entry, DesignEntry) and entry.is_genuine(deployment.seal):
            yield offset, entry
