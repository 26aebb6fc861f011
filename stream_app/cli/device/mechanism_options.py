"""The options that the publishing commands share, and the values made from them.

Each option with a default for all commands also reads `MURMUREC_DEVICE_<OPTION>`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from stream_app.cli.options import SHARED, ConfigOption, settings_from, shared
from stream_app.cli.output import printable, refusing
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from fractions import Fraction

    from producers.journal import PersonBudget
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.settings import Settings


def _option(name: str, metavar: str | None, help: str, **more: Any) -> Any:
    """Return an option with a default from the environment."""
    variable = f"MURMUREC_DEVICE_{name.removeprefix('--').upper().replace('-', '_')}"
    return typer.Option(
        name, metavar=metavar, help=help, envvar=variable, show_envvar=False, **more
    )


def _families() -> list[str]:
    from stream_app.privacy import registry

    return list(registry.families())


def person(name: str | None) -> str | None:
    """Return the one form of a name that a person types: with a blank more it is no other person
    with another budget."""
    from producers.pseudonyms import normalised

    return None if name is None else normalised(name)


MechanismOption = Annotated[
    str,
    _option(
        "--mechanism",
        "FAMILY",
        "A family of docs/privacy.md: rr protects the rating, cell also hides that it exists, like "
        "too and reports only likes, none protects nothing. An unknown name lists all.",
        autocompletion=_families,
    ),
]
RelayOption = Annotated[
    str | None,
    _option(
        "--relay",
        "URL#KEY",
        "Send through this relay, sealed to the gateway's key, and not to Kafka.",
    ),
]
MechanismOrDefaultOption = Annotated[
    str | None,
    _option(
        "--mechanism",
        "FAMILY",
        "A family of docs/privacy.md (default: partition, or rr where a scale has too many levels "
        "for it). An unknown name lists all.",
        autocompletion=_families,
    ),
]
EpsilonOption = Annotated[
    str | None, _option("--epsilon", "E", "Privacy loss per rating: 2, 0.5 or 1/2 (default 2).")
]
ThinningOption = Annotated[
    str | None,
    _option(
        "--thinning",
        "T",
        "Publish this part of the reports where presence is hidden, e.g. 1/4.",
    ),
]
ScaleOption = Annotated[
    tuple[float, float, float] | None,
    shared("Rating scale: minimum, maximum, step, e.g. 1 5 1.", "MIN MAX STEP", "--scale"),
]
JournalOption = Annotated[
    Path | None,
    _option(
        "--journal",
        "FILE",
        "Device journal (default: device.journal in the data folder).",
        rich_help_panel=SHARED,
    ),
]
SimulationJournalOption = Annotated[
    Path | None,
    _option(
        "--journal",
        "FILE",
        "Journal of the population (default: simulation.journal in the data folder).",
        rich_help_panel=SHARED,
    ),
]
BudgetOption = Annotated[
    str | None,
    _option(
        "--budget",
        "E",
        "Epsilon of the whole person for users that are not enrolled yet (default: no limit, for a "
        "simulation).",
    ),
]
TestOption = Annotated[
    bool,
    shared(
        "Name a new journal a test: for good; all its events are marked as tests.", None, "--test"
    ),
]
EmissionOption = Annotated[
    str,
    _option(
        "--emission", "WHEN", "immediate: each when rated, which shows; epoch: all at its end."
    ),
]
UserOption = Annotated[str, shared("The user's own id; never sent.", "ID", callback=person)]
WindowOption = Annotated[
    int | None, shared("In any so many days (default 365; 0: in all).", "DAYS", min=0)
]
TrustClockOption = Annotated[
    bool,
    shared(
        "Accept a clock more than 366 days after the last release.",
        None,
        "--trust-clock",
        rich_help_panel=SHARED,
    ),
]
TrustJournalOption = Annotated[
    bool,
    shared("Go on where a newer copy is known.", None, "--trust-journal", rich_help_panel=SHARED),
]
RepublishOption = Annotated[
    bool, shared("Publish again and spend the epsilon again.", None, "--republish")
]
RatingsArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="ml-1m.zip, ratings.dat, u.data, ratings.csv, or any .csv or .npz."
    ),
]


@dataclass(frozen=True)
class DeviceJournal:
    """The journal of a device, without a broker."""

    panel: ClassVar = SHARED

    journal: JournalOption = None
    config: ConfigOption = None

    @property
    def settings(self) -> Settings:
        """The settings of this call."""
        return settings_from(self.config)

    @property
    def path(self) -> Path:
        """The path of the journal."""
        return journal_path(self.settings, self.journal)


def mechanism_from(
    family: str, epsilon: str | None, scale: Scale, thinning: str | None = None
) -> Mechanism:
    """Return the mechanism of these options; epsilon is 2 by default.

    An id is accepted only with a threshold of likes, which has no option of its own.
    """
    from stream_app.privacy import registry

    if family.startswith("like:") and family.count(":") == 3:
        return mechanism_of_id(family, epsilon, scale, thinning)
    if ":" in family:
        name, _, loss, rate, *_ = [*printable(family[:60]).split(":"), "", "", ""]
        more = f" and --epsilon {loss}" if loss and name != "none" else ""
        more += f" and --thinning {rate}" if rate else ""
        raise UsageError(f"--mechanism {printable(family[:60])}: give --mechanism {name}{more}")
    default = None if family == "none" else "2"
    with refusing(UsageError):
        return registry.mechanism(
            family, scale.levels, default if epsilon is None else epsilon, thinning
        )


def mechanism_of_id(id: str, epsilon: str | None, scale: Scale, thinning: str | None) -> Mechanism:
    """Return the mechanism of an id, which leaves nothing to other options."""
    from stream_app.privacy import registry

    if epsilon is not None or thinning is not None:
        raise UsageError(
            f"--mechanism {printable(id[:60])}: the id contains epsilon and thinning; leave "
            "--epsilon and --thinning out"
        )
    with refusing(UsageError):
        found = registry.parse(id)
    if found.levels != scale.levels:
        raise UsageError(f"{found.id}: the ratings have {scale.levels} levels ({scale})")
    return found


def check_relay(relay: str | None, mechanism: Mechanism, *, more: bool = False) -> None:
    """Refuse a relay of another form, and one where something is read from Kafka: the item table of
    a mechanism, or `more`, the catalogue."""
    if relay is None:
        return
    from producers.device.sealed_gateway import is_key

    if re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?#[0-9a-f]{64}", relay) is None:
        raise UsageError(
            f"--relay {relay[:200]!r}: give the address of the relay, #, and the gateway's public "
            "key of 64 hex digits, which its operator has from the log of its start"
        )
    if not is_key(bytes.fromhex(relay.partition("#")[2])):
        raise UsageError(
            f"--relay {relay[:200]!r}: nothing can be sealed to this key, which is no gateway's; "
            "take it from the log of the gateway's start"
        )
    if mechanism.masks or more:
        raise UsageError(
            "--relay: a catalogue and the item table of a mechanism with masks are in Kafka, which "
            "would see the address: leave --trust-catalogue out, and give another --mechanism"
        )


def allowed(mechanism: Mechanism, settings: Settings) -> Mechanism:
    """Return the mechanism; refuses one that a worker with these settings would reject."""
    if mechanism.id not in settings.mechanisms:
        raise UserError(
            f"{mechanism.id} is not allowed ({', '.join(settings.mechanisms)}): nothing was sent; "
            "set MURMUREC_MECHANISMS here and for the workers to allow it"
        )
    return mechanism


def given_by_user(context: typer.Context, name: str) -> bool:
    """Return whether an option stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def is_campaign(mode: str | None, settings: Settings) -> bool:
    """Return whether contributions to campaigns are sent, and no ratings; refuses other words than
    local, split and central."""
    chosen = settings.privacy_mode if mode is None else mode
    if chosen not in ("local", "split", "central"):
        raise UsageError(f"--mode {printable(chosen[:40])}: choose local, split or central")
    return chosen != "local"


def is_epoch_emission(emission: str) -> bool:
    """Return whether whole epochs are sent; refuses words other than immediate and epoch."""
    if emission not in ("immediate", "epoch"):
        raise UsageError(f"--emission {emission[:40]}: choose immediate or epoch")
    return emission == "epoch"


def hides_presence(mechanism: Mechanism) -> bool:
    """Return whether the mechanism protects that a rating exists."""
    from stream_app.privacy.privacy_map import Adjacency

    return mechanism.adjacency is Adjacency.CELL


def scale_from(given: tuple[float, float, float] | None) -> Scale | None:
    """Return the scale of the option, None without it."""
    from producers.scale import Scale

    with refusing(UsageError):
        return None if given is None else Scale(*given)


def person_budget(
    budget: str | None, delta: str | None = None, window: int | None = None, plan: str = ""
) -> PersonBudget:
    """Return the budget of a whole person that these options state; the default is (20, 1e-6) in
    any 365 days."""
    from dataclasses import replace

    from producers.journal import PersonBudget

    default = PersonBudget()
    with refusing(UsageError, "--{}".format):
        if budget is not None:
            default = replace(default, epsilon=positive_fraction("--budget", budget))
        if delta is not None:
            default = replace(default, delta=_probability(delta))
        if window is not None:
            default = replace(default, window=window or None)
        return replace(default, plan=plan)


def population_budget(budget: str | None) -> PersonBudget:
    """Return the budget of each user of a simulated population: no limit, unless one is stated."""
    from producers.person.enrolment import NO_LIMIT

    return NO_LIMIT if budget is None else person_budget(budget, window=0)


def _probability(text: str) -> Fraction:
    from fractions import Fraction

    found = re.fullmatch(r"(0|[1-9](?:\.[0-9]{1,9})?)(?:e-([0-9]{1,2}))?", text.strip())
    if found is None:
        raise UsageError(f"--delta {printable(text[:40])}: give a probability, as 1e-6 or 0")
    return Fraction(found[1]) / Fraction(10 ** int(found[2] or 0))


def positive_fraction(option: str, text: str) -> Fraction:
    """Return the number above 0 in the text, exactly."""
    from fractions import Fraction

    # A stricter grammar than Fraction's: 1e999999999 would fill the memory.
    found = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}|/0*[1-9][0-9]{0,8})?", text.strip())
    if found is None or not Fraction(text.strip()):
        raise UsageError(
            f"{option} {text[:40]}: give a number above 0, of at most 9 digits, as 20, 0.5 or 1/2"
        )
    return Fraction(text.strip())


def pseudonym_in(path: Path, user: str, settings: Settings) -> bytes:
    """Return the pseudonym of a user by the key of a journal."""
    from producers.identities import Identities
    from producers.journal import read_key

    with refusing(UserError):
        return Identities(read_key(path), signed=settings.signed).pseudonym(user)


def today() -> int:
    """Return the epoch of now: days since 1970."""
    from stream_app.wire import EPOCH_SECONDS

    return int(time.time()) // EPOCH_SECONDS


def check_user(user: str) -> None:
    """Refuse a user id that can have no pseudonym, before a journal is made or a broker asked."""
    from producers.identities import Identities

    with refusing(UserError):
        Identities(bytes(32)).pseudonym(user)


def journal_path(settings: Settings, given: Path | None) -> Path:
    """Return the path of the device journal; UserError for what is there and is no journal."""
    return _checked(given or settings.data_dir / "device.journal")


def simulation_path(settings: Settings, given: Path | None) -> Path:
    """Return the path of the journal of a population that is played from a file, as
    `journal_path`."""
    return _checked(given or settings.data_dir / "simulation.journal")


def _checked(path: Path) -> Path:
    from producers.journal import read_key
    from producers.siblings import is_journal

    place = path.expanduser()
    if place.exists() and place.stat().st_size and not is_journal(place):
        read_key(place)  # raises
    return path
