"""The options that the publishing commands share, and the values that they make."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.output import printable
from stream_app.errors import UserError

if TYPE_CHECKING:
    from fractions import Fraction

    from producers.journal import Limits
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.settings import Settings


def _families() -> list[str]:
    from stream_app.privacy import registry

    return list(registry.families())


MechanismOption = Annotated[
    str,
    typer.Option(
        "--mechanism",
        metavar="FAMILY",
        envvar="MURMUREC_DEVICE_MECHANISM",
        help="A family of PRIVACY.md: rr protects the rating, cell also hides that it exists, none "
        "protects nothing. An unknown name lists all.",
        autocompletion=_families,
    ),
]
EpsilonOption = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        metavar="E",
        envvar="MURMUREC_DEVICE_EPSILON",
        help="Privacy loss per rating, as 2, 0.5 or 1/2; smaller is safer. \\[default: 2]",
    ),
]
ThinningOption = Annotated[
    str | None,
    typer.Option(
        "--share",
        metavar="S",
        envvar="MURMUREC_DEVICE_SHARE",
        help="With a mechanism that hides presence: the part of the reports that is sent, as "
        "1/4; costs no epsilon.",
    ),
]
ScaleOption = Annotated[
    tuple[float, float, float] | None,
    typer.Option("--scale", metavar="MIN MAX STEP", help="The ratings there are, as 1 5 1."),
]
JournalOption = Annotated[
    Path | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        envvar="MURMUREC_DEVICE_JOURNAL",
        help="The device journal: key, spent budget, what is sent. \\[default: in the data folder]",
    ),
]
BudgetOption = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="E",
        envvar="MURMUREC_DEVICE_BUDGET",
        help="Most epsilon that one user may spend in sum, on ratings and profiles, as 20. "
        "\\[default: no limit]",
    ),
]
WindowOption = Annotated[
    int | None,
    typer.Option(
        "--window",
        metavar="EPOCHS",
        envvar="MURMUREC_DEVICE_WINDOW",
        help="The budget holds for any so many epochs (days) in a row. \\[default: for life]",
    ),
]
EmissionOption = Annotated[
    str,
    typer.Option(
        "--emission",
        metavar="WHEN",
        envvar="MURMUREC_DEVICE_EMISSION",
        help="immediate (a message when somebody rates, which tells so) or epoch (all at its end).",
    ),
]
TrustClockOption = Annotated[
    bool,
    typer.Option(
        "--clock-is-right",
        help="Believe a clock that is more than 366 days after the last release.",
    ),
]
RepublishOption = Annotated[
    bool,
    typer.Option("--again", help="Publish again what was published; its epsilon is spent again."),
]


def mechanism_from(
    family: str, epsilon: str | None, scale: Scale, share: str | None = None
) -> Mechanism:
    """Return the mechanism that was asked for; epsilon 2 where none was given."""
    from stream_app.privacy import registry

    if ":" in family:
        name, _, cost, kept, *_ = [*printable(family[:60]).split(":"), "", "", ""]
        more = f" and --epsilon {cost}" if cost and name != "none" else ""
        more += f" and --share {kept}" if kept else ""
        raise UserError(f"--mechanism {printable(family[:60])}: give --mechanism {name}{more}")
    default = None if family == "none" else "2"
    try:
        return registry.mechanism(
            family, scale.levels, default if epsilon is None else epsilon, share
        )
    except ValueError as error:
        raise UserError(str(error)) from None


def allowed(mechanism: Mechanism, settings: Settings) -> Mechanism:
    """Return a mechanism that may be published with; refuses one that a worker would set aside."""
    if mechanism.id not in settings.mechanisms:
        raise UserError(
            f"{mechanism.id} is not allowed ({', '.join(settings.mechanisms)}): nothing was sent; "
            "set MURMUREC_MECHANISMS here and for the workers to allow it"
        )
    return mechanism


def is_epoch_emission(emission: str) -> bool:
    """Return whether whole epochs are sent; refuses a word that is neither."""
    if emission not in ("immediate", "epoch"):
        raise UserError(f"--emission {emission[:40]}: choose immediate or epoch")
    return emission == "epoch"


def hides_presence(mechanism: Mechanism) -> bool:
    """Return whether the mechanism protects that a rating exists."""
    from stream_app.privacy.adjacency import Adjacency

    return mechanism.adjacency is Adjacency.CELL


def scale_from(given: tuple[float, float, float] | None) -> Scale | None:
    """Return the scale that was given, None where none was."""
    from producers.scale import Scale

    try:
        return None if given is None else Scale(*given)
    except ValueError as error:
        raise UserError(str(error)) from None


def limits_from(budget: str | None, window: int | None, *, trust_clock: bool = False) -> Limits:
    """Return what each user may spend."""
    from producers.journal import Limits

    if budget is None and window is not None:
        raise UserError(f"--window {window}: it goes with --budget; give both")
    try:
        epsilon = None if budget is None else positive_fraction("--budget", budget)
        return Limits(epsilon, window, trust_clock=trust_clock)
    except ValueError as error:
        raise UserError(f"--{error}") from None


def positive_fraction(option: str, text: str) -> Fraction:
    """Return the number above 0 that was typed, exactly."""
    from fractions import Fraction

    # Not whatever Fraction reads: 1e999999999 would take the memory of the machine.
    found = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}|/0*[1-9][0-9]{0,8})?", text.strip())
    if found is None or not Fraction(text.strip()):
        raise UserError(f"{option} {text[:40]}: give a number above 0, as 20, 0.5 or 1/2")
    return Fraction(text.strip())


def journal_path(settings: Settings, given: Path | None) -> Path:
    """Return where the device journal is."""
    return given or settings.data_dir / "device.journal"
