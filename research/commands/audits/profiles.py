"""`murmurec audit profiles`: every reconstruction attack on the profiles of a file's users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import load
from producers.device.requests import item_keys
from research.attacks.attacks import ATTACKS
from research.attacks.knowledge import Knowledge
from research.attacks.trials import Plan, Trial, tried
from research.profile_quality import profiles_of
from stream_app.cli.output import Advance, plural, print_json, say, table
from stream_app.errors import UsageError, UserError
from stream_app.privacy.profiles import profile_registry as registry
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism
from stream_app.wire import parse_item

_LEAST_TRAINED = 2
_CAUTION = (
    "the attacker has the release, the catalogue and the clear profiles of the other users; a "
    "better attack may find more: epsilon bounds them all, per item and release"
)


class ProfileAuditOptions(NamedTuple):
    """The options of the command; epsilons: of each family in `mechanisms`."""

    file: Path
    mechanisms: tuple[str, ...]
    epsilons: tuple[str, ...]
    hashes: int | None
    length: int | None
    users: int
    seed: int


@dataclass(frozen=True)
class Shown:
    """The trials, and how they are shown."""

    trials: list[Trial]
    users: int
    trained: int
    items: int

    def show(self, *, as_json: bool) -> None:
        """Print the trials."""
        if as_json:
            print_json(asdict(self), indent=1)
            return
        rows = [
            (
                each.mechanism,
                "none" if each.epsilon is None else f"{each.epsilon:g}",
                each.attack,
                f"{each.measured.cosine:.3f}",
                f"{each.measured.low:.3f} .. {each.measured.high:.3f}",
                f"{each.measured.map_at_10:.3f}",
            )
            for each in self.trials
        ]
        columns = ("mechanism", "epsilon", "attack", "cosine", "10 % .. 90 %", "mAP@10")
        title = f"{self.users} profiles over {self.items:,} items, {self.trained:,} other users"
        table(columns, rows, title=title)
        say(_CAUTION)


def measured(options: ProfileAuditOptions, progress: Advance) -> Shown:
    """Return the trials; UsageError for options that name no attack, UserError for a file with too
    few users."""
    mechanisms = _mechanisms(options)
    if options.users < 1:
        raise UsageError(f"--users {options.users}: attack 1 or more")
    profiles, catalogue = _profiles(options.file)
    if len(profiles) < options.users + _LEAST_TRAINED:
        raise UserError(
            f"{options.file}: it has {plural(len(profiles), 'user')}, and --users {options.users} "
            f"attacked leave less than {_LEAST_TRAINED} for what the attacker knows: attack fewer"
        )
    order = np.random.default_rng(options.seed).permutation(len(profiles)).tolist()
    attacked = [profiles[row] for row in order[: options.users]]
    knowledge = Knowledge.of_training([profiles[row] for row in order[options.users :]], catalogue)
    done, whole = 0, len(mechanisms) * len(ATTACKS) * len(attacked)

    def add(count: int) -> None:
        nonlocal done
        done += count
        progress(done, whole)

    trials: list[Trial] = []
    try:
        for mechanism in mechanisms:
            trials += tried(attacked, knowledge, mechanism, Plan(seed=options.seed), add)
    except ValueError as error:
        raise UserError(str(error)) from None
    return Shown(trials, len(attacked), len(profiles) - len(attacked), len(catalogue))


def _profiles(file: Path) -> tuple[list[NDArray[np.uint64]], NDArray[np.uint64]]:
    dataset = load(file)
    _, users = np.unique(dataset.users, return_inverse=True)
    names, rows = np.unique(dataset.items, return_inverse=True)
    keys = item_keys([parse_item(str(name)) for name in names.tolist()])
    return profiles_of(users.astype(np.uint64), keys[rows])


def _mechanisms(options: ProfileAuditOptions) -> Sequence[ProfileMechanism]:
    found: list[ProfileMechanism] = []
    try:
        for name in options.mechanisms:
            if ":" in name:
                found.append(registry.parse(name))
                continue
            if options.hashes is not None and name != "blip":
                raise UsageError(f"--hashes {options.hashes}: only blip has hashes; leave it out")
            hashes = registry.DEVICE_HASHES if options.hashes is None else options.hashes
            found += [
                registry.mechanism(name, epsilon, length=options.length, hashes=hashes)
                for epsilon in options.epsilons
            ]
    except ValueError as error:
        raise UsageError(str(error)) from None
    return found
