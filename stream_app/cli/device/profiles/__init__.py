"""`murmurec profiles`: publish the set of items of each user as one noised profile per epoch.

named_mechanism  the mechanism that the command line names
profile_run      one run over a population, its notices and its outcome
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.cli.commands import Commands, option
from stream_app.cli.device import mechanism_options
from stream_app.cli.options import Cluster, JsonOption

if TYPE_CHECKING:
    from producers.journal import PersonBudget
    from producers.scale import Scale
    from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism

app = Commands(
    help="Publish noised profiles: sets of items, not ratings. Example: murmurec profiles publish "
    "ml-1m.zip"
)


@dataclass(frozen=True)
class ProfileCommandOptions:
    """The data, the mechanism and the accounts of a run."""

    file: mechanism_options.RatingsArgument
    family: str = option(
        "blip",
        "blip (Bloom filter with flipped bits), jlt (projection with Gaussian noise), "
        "jltpaper (the thesis' own), or an id such as blip:5000:2:8.",
        "FAMILY",
        "--mechanism",
    )
    epsilon: str | None = option(None, "Privacy loss per item: 8 or 1/2 (default 2).", "E")
    length: int | None = option(None, "Bits or projections (default 5000 or 1000).", "L")
    hashes: int | None = option(None, "Bits per item of a blip (default 2).", "K")
    delta: str | None = option(None, "Probability that epsilon fails, for jlt (default 1e-6).", "D")
    items_most: int | None = option(
        None,
        "Items of a profile that are released at most, the first in a public order: it "
        "bounds what a person spends (default: as many as a budget of 20 holds; 16384: all).",
        "N",
    )
    scope: Path | None = option(None, "Public items that a profile may hold, one per line.", "FILE")
    reproduction: bool = option(
        False, "Allow a delta above 1/1000, as of jltpaper: for synthetic data only."
    )
    given_scale: mechanism_options.ScaleOption = None
    given_budget: mechanism_options.BudgetOption = None
    journal: mechanism_options.SimulationJournalOption = None
    test: mechanism_options.TestOption = False
    trust_clock: mechanism_options.TrustClockOption = False

    @property
    def scale(self) -> Scale | None:
        """The scale of the ratings, None where the file tells it."""
        return mechanism_options.scale_from(self.given_scale)

    @property
    def budget(self) -> PersonBudget:
        """The budget of users that are not enrolled."""
        return mechanism_options.population_budget(self.given_budget)

    def mechanism(self, allowed: tuple[str, ...]) -> ProfileMechanism:
        """Return the mechanism; refuses one that protects nothing or that workers reject."""
        from stream_app.cli.device.profiles.named_mechanism import (
            check_allowed,
            check_delta,
            mechanism_of,
        )

        found = mechanism_of(
            self.family, self.epsilon, self.length, self.hashes, self.delta, self.items_most
        )
        check_delta(found, reproduction=self.reproduction)
        check_allowed(found, allowed)
        return found


@app.command()
def publish(cluster: Cluster, options: ProfileCommandOptions, as_json: JsonOption = False) -> None:
    """Publish the profile of every user of a file once.

    A profile holds the items that the user has rated, whatever the rating, --items-most of them at
    most. A device publishes one profile per epoch (a day) and spends epsilon on each.

    Example: murmurec profiles publish ml-1m.zip --epsilon 8
    """
    from stream_app.cli.device.profiles.profile_run import publish_file

    publish_file(options, cluster.settings(), as_json=as_json)
