"""The design in force: that of the newest checkpoint, and of the entries of the cut log behind it.

    newest manifest --its headers, proved by its digest--> design at its cut --entries--> now
    no manifest     --the whole cut log--> the design that opened it, or own settings

The manifest of a state that was built beside counts only once its design has taken over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from confluent_kafka import Message

from stream_app.checkpoints.cut_log_scan import CutLogScan
from stream_app.checkpoints.design_line import DesignLine, entries_after, followed_by, line_of
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka.topic_follower import TopicReader
from stream_app.state.design import changes, fixed, merged, recorded_spec
from stream_app.state.spec import Headers, StateSpec
from stream_app.wire import WireError
from stream_app.wire.state_records import Manifest, decode_manifest

BESIDE = "beside"
"""A header of the manifest of a state that was built beside."""
_HINTS = (64, 512, 4096)
"""How many records before the end the newest manifest is looked for, in turn."""


@dataclass(frozen=True)
class InForce:
    """The design of the state from which a worker starts, and the newest one, which that state
    reaches."""

    first: StateSpec
    newest: StateSpec


def in_force(deployment: Deployment) -> InForce:
    """Return the design in force; own settings decide where neither log nor checkpoint does."""
    found = _newest_manifest(deployment)
    if found is None:
        line = line_of(deployment)
        return InForce(line.taken_over or line.base, line.newest)
    manifest, spec = found
    if spec is None:
        # Equal settings, or a refusal that names what differs.
        return InForce(deployment.spec, deployment.spec)
    entries = entries_after(deployment, manifest.cut_offset, manifest.cut)
    steps = tuple(followed_by(deployment, spec, entries))
    line = DesignLine(spec, steps=steps)
    return InForce(line.taken_over or spec, line.newest)


def refuse_fixed(in_force: StateSpec, own: StateSpec, where: str) -> None:
    """Refuse settings that differ from the design in force in what cannot change."""
    if clauses := fixed(in_force, own):
        raise UserError(
            f"{where}: the deployment has other settings ({clauses}): set them back, or start a "
            "new deployment (--prefix)"
        )


def with_design(deployment: Deployment) -> Deployment:
    """Return the deployment with the newest design in force; refuses own settings that differ from
    it in what cannot change."""
    newest = in_force(deployment).newest
    refuse_fixed(newest, deployment.spec, deployment.topics.cuts)
    return replace(deployment, spec=newest)


def differences(in_force: StateSpec, own: StateSpec) -> str:
    """Return a clause for each own setting that differs from the design in force."""
    try:
        found = changes(in_force, merged(in_force, own))
    except ValueError as error:
        return f"they do not go with those in force: {error}"
    return "; ".join(f"{c.setting} is {c.before} in force and {c.after} here" for c in found)


def is_beside(headers: Headers) -> bool:
    """Return whether the headers of a manifest say that its state was built beside."""
    return BESIDE in dict(headers or ())


def _newest_manifest(deployment: Deployment) -> tuple[Manifest, StateSpec | None] | None:
    """Return the newest readable manifest of a state that was not built beside, of those whose
    headers prove their design, and the design; the newest of all, and None, where none do."""
    seed = deployment.spec.seed
    scan = CutLogScan(deployment.connection, deployment.topics.cuts)
    with TopicReader(deployment.connection, deployment.topics.state) as topic:
        for start in (*map(topic.before_end, _HINTS), topic.low):
            batches = topic.batches(start)
            every = (each for batch in batches for each in _manifests(deployment, batch))
            counting = (each for each in every if not scan.superseded(each[0]))
            found = sorted(counting, key=lambda f: (f[0].generation, f[0].number), reverse=True)
            for manifest, headers in found:
                spec = recorded_spec(headers, seed)
                if spec is not None and spec.digest == manifest.design:
                    return manifest, spec
            if start == topic.low:
                return (found[0][0], None) if found else None
    return None


def _manifests(
    deployment: Deployment, batch: Iterable[Message]
) -> Iterable[tuple[Manifest, Headers]]:
    for message in batch:
        key, headers = message.key(), message.headers()
        if key is None or key[:1] != b"M" or is_beside(headers):
            continue
        try:
            yield decode_manifest(message.value() or b"", deployment.seal), headers
        except WireError:
            continue
