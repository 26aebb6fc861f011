"""Specification of the state: every setting that decides it besides the log, and its fingerprint.

Two replicas are comparable only where their specifications are equal: the allow-list, the sizes,
the learner and its constants, and the format of the state. Records carry the fingerprint; beside
it, in a header that earlier releases do not read, manifests and the cuts of checkpoints carry the
settings as text, so that a refusal names the setting that differs. The header explains and proves
nothing, and it leaves out the seed, which devices must not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from stream_app.models.cooccurrence.co_ratings import check_co_ratings
from stream_app.models.cooccurrence.item_head import MOST_ITEMS
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
UNNAMED = {"co_ratings": "False", "list_scope": "none"}
"""Settings with the value that a digest does not name: a state without them is that of before."""
GIVE_SCOPE = (
    "set list_scope to a file of the public items, one id a line (murmurec items list --ids "
    "prints those of the catalogue), and start once with --rebuild"
)
_HEADER, _SEED = "settings", "seed"
Header = tuple[str, bytes | str | None]
Headers = dict[str, bytes | str | None] | list[Header] | None
PARTIES = {"local": 0, "central": 1, "split": 2}
"""Privacy mode -> how many parties sum the contributions of campaigns; 0: there are none."""


@dataclass(frozen=True)
class StateSpec:
    """All that decides the state besides the log; replicas agree only with equal specifications."""

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
    co_ratings: bool = False
    list_scope: tuple[int, ...] = ()  # keys of public items, rising: co-ratings are of these alone
    items_most: int = 1 << 18
    seed: int = 1
    devices: str = "open"
    privacy_mode: str = "local"

    def __post_init__(self) -> None:
        check_model(self.model)
        if not self.mechanisms:
            raise ValueError("mechanisms: the allow-list is empty; allow at least one, e.g. rr:5:2")
        if len({m.id for m in self.mechanisms}) != len(self.mechanisms):
            raise ValueError("mechanisms: the allow-list names a mechanism twice")
        check_one_question(self.mechanisms)
        if not 0 <= self.held_out <= 0.5:
            raise ValueError(f"held_out {self.held_out}: the held-out fraction must be 0 .. 0.5")
        check_pairs(self.head_items, self.recent_items)
        if self.co_ratings:
            public = any(m.inputs == m.levels for m in self.mechanisms)
            check_co_ratings(self.head_items, public=public)
        self._check_scope()
        check_most(self.items_most)
        if self.devices not in DEVICES:
            raise ValueError(f"devices {self.devices}: must be one of {', '.join(DEVICES)}")
        if self.privacy_mode not in PARTIES:
            raise ValueError(
                f"privacy_mode {self.privacy_mode}: must be one of {', '.join(PARTIES)}"
            )

    def _check_scope(self) -> None:
        keys = self.list_scope
        if keys and not self.co_ratings:
            raise ValueError(
                "list_scope without co_ratings: its items are those of which co-ratings are "
                "counted; set co_ratings = true, or leave list_scope out"
            )
        if keys and not 2 <= len(keys) <= self.head_items:
            raise ValueError(
                f"list_scope has {len(keys):,} items: give 2 to {self.head_items:,} (head_items, "
                f"{MOST_ITEMS:,} at most)"
            )
        if any(a >= b for a, b in pairwise(keys)):
            raise ValueError("list_scope: its keys must rise")

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
        return Intake.of_mechanisms(self.mechanisms, self.partitions, self.accept_tests, signatures)

    @property
    def digest(self) -> str:
        """Fingerprint of the specification; only replicas with the same one are comparable."""
        return settings_digest(self.settings)

    @property
    def settings(self) -> dict[str, str]:
        """All that the digest covers, as text, so that two specs can be compared by setting."""
        listed = "mechanisms", "list_scope"
        fields = {name: str(value) for name, value in vars(self).items() if name not in listed}
        fields["list_scope"] = _named(self.list_scope)
        for name, value in UNNAMED.items():
            if fields[name] == value:
                del fields[name]
        return fields | {
            "mechanisms": ", ".join(m.id for m in self.mechanisms),
            "parameters": repr(Parameters(clip=self.clip)),
            "state_format": str(STATE_FORMAT),
        }

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """The headers of a record whose reader may have another specification."""
        lines = (f"{name}={value}" for name, value in self.settings.items() if name != _SEED)
        return [(_HEADER, "\n".join(lines).encode())]

    def difference(self, headers: Headers) -> str:
        """Return the settings that differ from those of a record's headers, with both values; the
        seed where all others agree; empty where the headers do not say."""
        text = dict(headers or ()).get(_HEADER) or b""
        lines = (text if isinstance(text, str) else text.decode(errors="replace")).split("\n")
        recorded = {
            name: value for name, equals, value in (line.partition("=") for line in lines) if equals
        }
        if not recorded:
            return ""
        own = {name: value for name, value in self.settings.items() if name != _SEED}
        return differing(recorded, own) or "hash_seed is another there"


def differing(recorded: Mapping[str, str], own: Mapping[str, str]) -> str:
    """Return a clause for each setting that differs between two specifications as text."""
    return "; ".join(
        f"{name} is {recorded.get(name, UNNAMED.get(name, 'unknown'))} there and "
        f"{own.get(name, UNNAMED.get(name, 'unknown'))} here"
        for name in sorted(recorded.keys() | own.keys())
        if recorded.get(name) != own.get(name)
    )


def _named(keys: tuple[int, ...]) -> str:
    """Return the name of a public scope: the number of its items and a digest of their keys."""
    joined = b"".join(key.to_bytes(8, "little") for key in keys)
    return f"{len(keys)} items, {blake2b(joined, digest_size=8).hexdigest()}" if keys else "none"


def settings_digest(settings: Mapping[str, str]) -> str:
    """Return the fingerprint of a specification from its settings as text."""
    return blake2b(repr(sorted(settings.items())).encode(), digest_size=16).hexdigest()
