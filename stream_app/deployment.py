"""Builds a deployment and a replica from settings, and reports invalid settings as `UserError`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.privacy import registry
from stream_app.settings import Settings
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import Intake, Topics
from stream_app.wire.authenticity.seal import MIN_SECRET, OPEN, Seal
from stream_app.wire.signatures.envelope import Verify
from stream_app.wire.state_records import StateOrigin

_DERIVED = "mechanisms", "items_most", "shard"
_AS_THEY_ARE = [
    each.name
    for each in fields(StateSpec)
    if each.name in Settings.model_fields and each.name not in _DERIVED
]


@dataclass(frozen=True)
class Deployment:
    """The cluster, the topic names, the spec that, with the log, determines the state, and the seal
    of its records."""

    connection: Connection
    topics: Topics
    spec: StateSpec
    seal: Seal = OPEN

    @property
    def partitions(self) -> int:
        """The number of rating partitions."""
        return self.spec.partitions

    def intake_with(self, verify: Verify) -> Intake:
        """Return the conditions under which a record of the rating topic is accepted; signatures
        are checked by `verify`."""
        intake = self.spec.intake
        signatures = replace(intake.signatures, topic=self.topics.ratings, verify=verify)
        return replace(intake, signatures=signatures)

    @classmethod
    def from_settings(cls, settings: Settings) -> Deployment:
        """Return the deployment; refuses settings without a broker or with an unknown mechanism."""
        connection = Connection(settings.servers, settings.kafka)
        spec, seal = spec_from_settings(settings), seal_from_settings(settings)
        topics = Topics(settings.topic_prefix, spec.shards, spec.shard)
        return cls(connection, topics, spec, seal)


def seal_from_settings(settings: Settings) -> Seal:
    """Return the seal of the deployment; refuses two secrets, a short one, and a file without."""
    secret, path = settings.state_secret or "", settings.state_secret_file
    if path is not None:
        if secret:
            raise UserError("state_secret and state_secret_file: give only one of them")
        try:
            secret = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
        except (OSError, UnicodeDecodeError):
            secret = ""
        if len(secret) < MIN_SECRET:
            raise UserError(
                f"state_secret_file = {path}: it must be a readable file with a secret of at least "
                f"{MIN_SECRET} characters, such as from openssl rand -hex 32"
            )
    return Seal(secret, settings.topic_prefix)


def spec_from_settings(settings: Settings) -> StateSpec:
    """Return the spec of the state; refuses an unknown mechanism, and a model that is not
    served."""
    try:
        return StateSpec(
            mechanisms=tuple(registry.parse(name) for name in settings.mechanisms),
            items_most=settings.most_items,
            seed=settings.hash_seed,
            shard=settings.shard or 0,
            **{name: getattr(settings, name) for name in _AS_THEY_ARE},
        )
    except ValueError as error:
        raise UserError(str(error)) from None


def settings_in_force(settings: Settings, spec: StateSpec) -> Settings:
    """Return the settings with those that the log decides."""
    named = "clip", "held_out", "head_items", "recent_items"
    decided: dict[str, object] = {name: getattr(spec, name) for name in named}
    decided["mechanisms"] = tuple(each.id for each in spec.allowed)
    return settings.model_copy(update=decided)


def new_replica(spec: StateSpec, origin: StateOrigin | None = None) -> Replica:
    """Return an empty replica that starts from `origin`; refuses incompatible sizes."""
    try:
        return Replica(spec, origin)
    except ValueError as error:
        raise UserError(str(error)) from None
