"""Specification of the state: every setting that decides it besides the log, and its fingerprint.

Two replicas are comparable only where their specifications are equal: the allow-list, the sizes,
the learner and its constants, and the format of the state. Records carry the fingerprint; beside
it, in a header that earlier releases do not read, manifests and the cuts of checkpoints carry the
settings as text, so that a refusal names the setting that differs, and so that a reader with the
same seed can take the specification from them: their digest proves it. The seed is left out, since
devices must not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from stream_app.models.cooccurrence.item_pairs import check_pairs
from stream_app.models.factorization.factory import check_model
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.like import check_one_question
from stream_app.state.known_items import check_most
from stream_app.wire import Intake
from stream_app.wire.signatures import Signatures

# Raised with every change of the state that a log produces, or of its layout.
STATE_FORMAT = 10
DEVICES = "open", "signed"
UNNAMED = {
    "withdrawn": "",
    "revision": "0",
    "shards": "1",
    "shard": "0",
}
"""Settings with the value that a digest does not name: a state without them is that of before."""
_ALONE = "it is not exchanged between shards; leave it out, or set shards to 1"
_HEADER, _SEED = "settings", "seed"
Header = tuple[str, bytes | str | None]
Headers = dict[str, bytes | str | None] | list[Header] | None
PARTIES = {"local": 0, "central": 1, "split": 2}
"""Privacy mode -> how many parties sum the contributions of campaigns; 0: there are none."""


@dataclass(frozen=True)
class StateSpec:
    """All that decides the state besides the log; replicas agree only with equal specifications.

    `mechanisms` has an order, which numbers them in the state. The `withdrawn` ones (ids) keep
    their number and what was learned from them, and their later reports are rejected.
    `revision` counts the changes by entries of the log, so that no specification comes back.
    Of `shards`, this state is that of `shard`: of the ratings in its partitions, and of what the
    others exchange with it.
    """

    mechanisms: tuple[Mechanism, ...]
    partitions: int = 4
    accept_tests: bool = False
    model: str = "hybrid"
    factors: int = 32
    depth: int = 4
    sketch_bytes: int = 16 << 20
    scalars_bytes: int = 8 << 20
    seen_bytes: int = 16 << 20
    presence_bytes: int = 4 << 20
    clip: float = float("inf")
    held_out: float = 0.05
    head_items: int = 2048
    recent_items: int = 256
    items_most: int = 1 << 18
    seed: int = 1
    devices: str = "open"
    privacy_mode: str = "local"
    withdrawn: tuple[str, ...] = ()
    revision: int = 0
    shards: int = 1
    shard: int = 0

    def __post_init__(self) -> None:
        check_model(self.model)
        if not self.mechanisms:
            raise ValueError("mechanisms: the allow-list is empty; allow at least one, e.g. rr:5:2")
        if len({m.id for m in self.mechanisms}) != len(self.mechanisms):
            raise ValueError("mechanisms: the allow-list names a mechanism twice")
        check_one_question(self.mechanisms)
        if not self.allowed:
            raise ValueError("mechanisms: all are withdrawn; allow at least one, e.g. rr:5:2")
        if not 0 <= self.held_out <= 0.5:
            raise ValueError(f"held_out {self.held_out}: the held-out fraction must be 0 .. 0.5")
        check_pairs(self.head_items, self.recent_items)
        check_most(self.items_most)
        if self.devices not in DEVICES:
            raise ValueError(f"devices {self.devices}: must be one of {', '.join(DEVICES)}")
        if self.privacy_mode not in PARTIES:
            raise ValueError(
                f"privacy_mode {self.privacy_mode}: must be one of {', '.join(PARTIES)}"
            )

        self._check_shards()

    def _check_shards(self) -> None:
        if not (self.shards >= 1 and self.partitions % self.shards == 0):
            raise ValueError(
                f"shards {self.shards}: it must divide partitions, {self.partitions}, so that each "
                "shard has as many"
            )
        if not 0 <= self.shard < self.shards:
            raise ValueError(f"shard {self.shard}: of {self.shards} shards it is 0 to shards - 1")
        if self.shards == 1:
            return
        for setting, alone in (
            (f"privacy_mode = {self.privacy_mode}", self.parties > 0),
            (f"model = {self.model}", self.model != "hybrid"),
        ):
            if alone:
                raise ValueError(f"{setting} with shards = {self.shards}: {_ALONE}")
        for each in self.mechanisms:
            if each.inputs > each.levels and each.family != "like":
                raise ValueError(f"mechanism {each.id} with shards = {self.shards}: {_ALONE}")

    @property
    def owned(self) -> tuple[int, ...]:
        """The rating partitions of this shard."""
        return tuple(range(self.shard, self.partitions, self.shards))

    @property
    def allowed(self) -> tuple[Mechanism, ...]:
        """The mechanisms whose reports are accepted, in their order."""
        return tuple(each for each in self.mechanisms if each.id not in self.withdrawn)

    @property
    def signed(self) -> bool:
        """Whether every event must be signed by its device."""
        return self.devices == "signed"

    @property
    def parties(self) -> int:
        """How many parties sum the contributions of campaigns; 0: there are no campaigns."""
        return PARTIES[self.privacy_mode]

    @property
    def intake(self) -> Intake:
        """The conditions under which a record is accepted."""
        signatures = Signatures(required=self.signed)
        rules = Intake.of_mechanisms(
            self.mechanisms, self.partitions, self.accept_tests, signatures
        )
        return replace(rules, withdrawn=frozenset(self.withdrawn)) if self.withdrawn else rules

    @property
    def digest(self) -> str:
        """Fingerprint of the specification; only replicas with the same one are comparable."""
        return settings_digest(self.settings)

    @property
    def settings(self) -> dict[str, str]:
        """All that the digest covers, as text, so that two specs can be compared by setting."""
        fields = {name: str(value) for name, value in vars(self).items() if name != "mechanisms"}
        fields["withdrawn"] = ", ".join(self.withdrawn)
        for name, value in UNNAMED.items():
            if fields[name] == value:
                del fields[name]
        return fields | {
            "mechanisms": ", ".join(m.id for m in self.mechanisms),
            "parameters": repr(Parameters(clip=self.clip)),
            "state_format": str(STATE_FORMAT),
        }

    @property
    def public_settings(self) -> dict[str, str]:
        """The settings without the seed, which devices must not know."""
        return {name: value for name, value in self.settings.items() if name != _SEED}

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """The headers of a record whose reader may have another specification."""
        lines = (f"{name}={value}" for name, value in self.public_settings.items())
        return [(_HEADER, "\n".join(lines).encode())]

    def difference(self, headers: Headers) -> str:
        """Return the settings that differ from those of a record's headers, with both values; the
        seed where all others agree; empty where the headers do not say."""
        recorded = recorded_settings(headers)
        if not recorded:
            return ""
        apart = {"revision": ""}  # no array depends on it
        return (
            differing(recorded | apart, self.public_settings | apart)
            or "hash_seed is another there"
        )


def recorded_settings(headers: Headers) -> dict[str, str]:
    """Return the settings in a record's headers, without the seed; empty where it has none."""
    text = dict(headers or ()).get(_HEADER) or b""
    lines = (text if isinstance(text, str) else text.decode(errors="replace")).split("\n")
    parts = (line.partition("=") for line in lines)
    return {name: value for name, equals, value in parts if equals}


def differing(recorded: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Return a clause for each setting that differs between two specifications as text."""
    return "; ".join(
        f"{name} is {recorded.get(name, UNNAMED.get(name, 'unknown'))} there and "
        f"{own.get(name, UNNAMED.get(name, 'unknown'))} here"
        for name in sorted(recorded.keys() | own.keys())
        if recorded.get(name) != own.get(name)
    )


def settings_digest(settings: Mapping[str, str]) -> str:
    """Return the fingerprint of a specification from its settings as text."""
    return blake2b(repr(sorted(settings.items())).encode(), digest_size=16).hexdigest()
