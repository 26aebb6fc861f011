"""Puts the settings of this process into force on a running deployment, by an entry of its cut log.

    plan      what differs from the design in force, how it changes, from which cut, in what memory
    apply     in place: one entry, from the next cut on
              beside: a second state is computed here while the workers serve, from the log or from
              the newest checkpoint, and written as a checkpoint; then the entry, at which workers
              load it

Whoever comes second loses: an entry names the design that it replaces. Nothing is lost when this
process ends in between: a checkpoint without its entry counts for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stream_app.checkpoints import checkpoint_reader, offline_writer, snapshot_file
from stream_app.checkpoints.design_in_force import in_force
from stream_app.checkpoints.design_line import line_of
from stream_app.deployment import (
    Deployment,
    new_replica,
)
from stream_app.errors import UserError
from stream_app.kafka import topic_follower
from stream_app.operations.growth import converted
from stream_app.operations.session import ProgressDisplay, each_shard, no_progress
from stream_app.replay.cut_history import history
from stream_app.replay.log_bounds import cuts, gone_before
from stream_app.replay.recompute import Replay, Replayed, begin
from stream_app.settings import Settings
from stream_app.state.design import Change, Way, changes, entry_of, following, merged
from stream_app.state.spec import StateSpec
from stream_app.wire import Contract, DesignEntry, encode_message
from stream_app.wire.limits import CONTRACT
from stream_app.wire.state_records import StateOrigin

REBUILDS = "beside", "checkpoint"
_WAITS, _PAUSE_SECONDS = 150, 0.2
_PASSES = 3  # over what the log gained meanwhile


@dataclass(frozen=True)
class Plan:
    """What putting own settings into force changes.

    `next_cut` is the first cut of which it holds, at the earliest; `memory` and `memory_after` are
    the bytes of the fixed parts of the state; `raises_contract`: older workers end.
    """

    deployment: Deployment
    before: StateSpec
    target: StateSpec
    changes: tuple[Change, ...]
    next_cut: int
    memory: int
    memory_after: int
    raises_contract: bool
    data_dir: Path

    @property
    def label(self) -> dict[str, int]:
        """Which of several shards it is of."""
        return {"shard": self.before.shard} if self.before.shards > 1 else {}

    @property
    def beside(self) -> bool:
        """Whether a second state is needed."""
        return any(change.way is Way.BESIDE for change in self.changes)

    @property
    def fixed(self) -> tuple[Change, ...]:
        """The changes that are impossible."""
        return tuple(change for change in self.changes if change.way is Way.FIXED)


def plans(settings: Settings) -> tuple[Plan, ...]:
    """Return the plan of each shard, whichever `shard` names: all follow one design."""
    every = each_shard(settings.model_copy(update={"shard": None}))
    return tuple(plan(each) for each in every)


def apply_all(
    planned: Sequence[Plan], rebuild: str = "", display: ProgressDisplay = no_progress
) -> None:
    """Put the target of each plan that changes something into force; refuses all where one would be
    refused. What an end in between leaves is done by the next call."""
    waiting = [each for each in planned if each.changes]
    for each in waiting:
        _refuse(each, rebuild)
    for each in waiting:
        apply(each, rebuild, display)


def plan(settings: Settings) -> Plan:
    """Compare the settings with the design in force; refuses a log without a cut: it has none."""
    deployment = Deployment.from_settings(settings)
    logged = history(deployment)
    if not logged.cuts:
        raise UserError(
            f"{deployment.topics.cuts} has no cut: no design is in force yet; the first worker "
            "that starts puts its settings into force"
        )
    before = in_force(deployment).newest
    try:
        target = merged(before, deployment.spec)
        found = tuple(changes(before, target))
    except ValueError as error:
        raise UserError(f"these settings do not go with those in force: {error}") from None
    now, after = (sum(new_replica(each).memory().values()) for each in (before, target))
    raises = logged.contract(logged.next_number) < CONTRACT
    return Plan(
        deployment, before, target, found, logged.next_number, now, after, raises,
        settings.data_dir,
    )  # fmt: skip


def apply(planned: Plan, rebuild: str = "", display: ProgressDisplay = no_progress) -> None:
    """Put the target of a plan into force; refuses fixed settings, and a second state that was not
    asked for (`rebuild`: one of `REBUILDS`). Returns when the broker has acknowledged the entry and
    no other one came first."""
    _refuse(planned, rebuild)
    deployment, current, target = planned.deployment, planned.before, planned.target
    if not planned.beside:
        _replace(planned, current, target)
        return
    # A withdrawal is of the log, not of the state, so it does not wait for one.
    if target.withdrawn != current.withdrawn:
        known = following(replace(current, withdrawn=target.withdrawn), current)
        behind = topic_follower.end_offset(deployment.connection, deployment.topics.cuts) or 0
        _replace(planned, current, known)
        _await_cut(deployment, behind)
        current, target = known, following(target, known)
        planned = replace(planned, target=target)
    build = _from_checkpoint if rebuild == "checkpoint" else _from_log
    built = _caught_up(deployment, build(planned, display))
    if built.replica.spec != target or in_force(deployment).newest != current:
        raise UserError(
            "the design in force changed while the state was computed, and nothing was written: "
            "run murmurec config plan, then apply it again"
        )
    with display("writing the checkpoint") as progress:
        total = sum(array.nbytes for array in built.replica.model_arrays().values())
        offline_writer.write_checkpoint(
            replace(deployment, spec=target), built.replica, built.cut_offset,
            "murmurec config apply", lambda done: progress(done, max(done, total)), built.tails,
            beside=True,
        )  # fmt: skip
    _replace(planned, current, target, built.replica.cut)


def _refuse(planned: Plan, rebuild: str) -> None:
    if planned.fixed:
        clauses = "; ".join(
            f"{c.setting} {c.before} -> {c.after}: {c.reason}" for c in planned.fixed
        )
        raise UserError(
            f"these settings are fixed for the life of a deployment ({clauses}): set them back, or "
            "start a new deployment (--prefix)"
        )
    if planned.before.shards > 1 and rebuild == "checkpoint":
        raise UserError(
            f"--rebuild checkpoint with shards = {planned.before.shards}: what is exchanged fits "
            "one layout; use --rebuild beside, or start a new deployment (--prefix)"
        )
    if planned.beside and not rebuild:
        named = ", ".join(c.setting for c in planned.changes if c.way is Way.BESIDE)
        raise UserError(
            f"{named}: the state has another layout with it, so a second one must be computed from "
            "the log while workers serve: murmurec config apply --rebuild beside"
        )


def _replace(
    planned: Plan, before: StateSpec, after: StateSpec, built_to: int | None = None
) -> None:
    """Append the entry; refuses if another one came first. What ends older workers comes just
    before it, so a refusal until then changes nothing."""
    deployment = planned.deployment
    if planned.raises_contract:
        _append(deployment, Contract(CONTRACT))
    entry = entry_of(before, after, built_to).sealed(deployment.seal)
    _append(deployment, entry)
    if in_force(deployment).newest != after:
        raise UserError(
            f"another change of the settings came first in {deployment.topics.cuts}, so this one "
            "has no effect: murmurec config plan shows what is in force now"
        )


def _append(deployment: Deployment, entry: DesignEntry | Contract) -> None:
    value = encode_message(entry)
    offline_writer.append(deployment.connection, deployment.topics.cuts, value)


def _from_log(planned: Plan, display: ProgressDisplay) -> Replayed:
    """Return the state of the target, computed from the origin of the present one."""
    deployment, target = planned.deployment, planned.target
    manifest = checkpoint_reader.read_manifest(deployment)
    origin = manifest.origin if manifest else StateOrigin(0, (0,) * deployment.partitions)
    _refuse_short_log(deployment, origin)
    line = line_of(deployment, origin.cut)
    contained = dict(line.contained) | {step.offset: step.spec.withdrawn for step in line.steps}
    begun = replace(line, base=replace(target, withdrawn=line.base.withdrawn), contained=contained)
    with display("computing the state") as progress:
        return Replay(deployment, progress, line=begun).from_origin(origin)


def _from_checkpoint(planned: Plan, display: ProgressDisplay) -> Replayed:
    """Return the state of the target with what the newest checkpoint holds; it begins from a file
    in the data directory, which `murmurec state verify --snapshot` needs."""
    deployment, target = planned.deployment, planned.target
    with display("reading the checkpoint") as progress:
        found = checkpoint_reader.read_checkpoint(deployment, progress)
    if found is None or found.replica.spec.withdrawn != target.withdrawn:
        raise UserError(
            f"{deployment.topics.state} holds no checkpoint of the settings in force: wait for one "
            "(murmurec doctor shows its age), or use --rebuild beside"
        )
    folder = planned.data_dir / "designs"
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / f"{deployment.topics.prefix}-cut-{found.manifest.cut}-{kind}.npz"
             for kind in ("before", "after")]  # fmt: skip
    try:
        snapshot_file.write(names[0], found.replica)
        replica, _ = converted(snapshot_file.read(names[0]), target)
    finally:
        names[0].unlink(missing_ok=True)
    snapshot_file.write(names[1], replica)
    carried, m = snapshot_file.read(names[1]), found.manifest
    origin = StateOrigin(
        m.cut, m.end_offsets, carried.digest, m.origin.truncated, m.origin.excluded, m.contract
    )
    return Replayed(begin(target, origin, carried), m.cut_offset, m.tails)


def _await_cut(deployment: Deployment, behind: int) -> None:
    """Return when the cut log has a cut from an offset on."""
    topic = deployment.topics.cuts
    for _ in range(_WAITS):
        if any(cuts(deployment.connection, topic, first=behind)):
            return
        time.sleep(_PAUSE_SECONDS)
    raise UserError(
        "mechanisms are withdrawn, and no worker has taken that up yet: start one, then run "
        "murmurec config apply again for the other settings"
    )


def _caught_up(deployment: Deployment, state: Replayed) -> Replayed:
    """Return the state at a cut that is nearly the newest one."""
    for _ in range(_PASSES):
        spec = state.replica.spec
        state = Replay(replace(deployment, spec=spec)).go_on(state, state.position)
    return state


def _refuse_short_log(deployment: Deployment, origin: StateOrigin) -> None:
    """Refuse a state that the log alone does not give: it began from a file, or records before the
    first checkpoint were deleted."""
    gone = gone_before(deployment, origin.end_offsets)
    reason = f"it began from the snapshot {origin.snapshot}" if origin.snapshot else gone
    if reason and deployment.spec.shards > 1:
        raise UserError(
            f"the state of a shard cannot be computed from its log alone ({reason}): set these "
            "settings back, or start a new deployment (--prefix)"
        )
    if reason:
        raise UserError(
            f"the state cannot be computed from the log alone ({reason}): --rebuild checkpoint "
            "carries over what the newest checkpoint holds; parts of another layout begin again"
        )
