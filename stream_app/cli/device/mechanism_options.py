"""What the publishing commands share: the mechanism's options, and what it protects in words.

One file past the usual length: an option and the sentence that says what it gives away are changed
together.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import servers_of
from stream_app.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from producers.device.item_table import ItemTable
    from producers.journal import Journal, Limits
    from producers.publishing import Publisher
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.settings import Settings

LARGE_PER_RATING = 4
LARGE_PER_USER = 20

MechanismOption = Annotated[
    str,
    typer.Option(
        "--mechanism",
        metavar="FAMILY",
        envvar="MURMUREC_DEVICE_MECHANISM",
        help="rr or partition (the rating is protected); cell, ternary or laplace (that it exists, "
        "too); none (nothing is protected).",
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
ShareOption = Annotated[
    str | None,
    typer.Option(
        "--share",
        metavar="S",
        envvar="MURMUREC_DEVICE_SHARE",
        help="With cell, ternary or laplace: the share of the reports that is kept, as 1/4; free.",
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
ClockOption = Annotated[
    bool,
    typer.Option(
        "--clock-is-right",
        help="Believe a clock that is more than 366 days after the last release.",
    ),
]
AgainOption = Annotated[
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
        raise Refusal(f"--mechanism {printable(family[:60])}: give --mechanism {name}{more}")
    default = None if family == "none" else "2"
    try:
        return registry.mechanism(
            family, scale.levels, default if epsilon is None else epsilon, share
        )
    except ValueError as error:
        raise Refusal(str(error)) from None


def allowed(mechanism: Mechanism, settings: Settings) -> Mechanism:
    """Return a mechanism that may be published with; refuses one that a worker would set aside."""
    if mechanism.id not in settings.mechanisms:
        raise Refusal(
            f"{mechanism.id} is not allowed ({', '.join(settings.mechanisms)}): nothing was sent; "
            "set MURMUREC_MECHANISMS here and for the workers to allow it"
        )
    return mechanism


def by_epoch(emission: str) -> bool:
    """Return whether whole epochs are sent; refuses a word that is neither."""
    if emission not in ("immediate", "epoch"):
        raise Refusal(f"--emission {emission[:40]}: choose immediate or epoch")
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
        raise Refusal(str(error)) from None


def limits_from(budget: str | None, window: int | None, *, clock_is_right: bool = False) -> Limits:
    """Return what each user may spend."""
    from producers.journal import Limits

    if budget is None and window is not None:
        raise Refusal(f"--window {window}: it goes with --budget; give both")
    try:
        epsilon = None if budget is None else exactly("--budget", budget)
        return Limits(epsilon, window, clock_is_right=clock_is_right)
    except ValueError as error:
        raise Refusal(f"--{error}") from None


def exactly(option: str, text: str) -> Fraction:
    """Return the number above 0 that was typed, exactly."""
    from fractions import Fraction

    # Not whatever Fraction reads: 1e999999999 would take the memory of the machine.
    found = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}|/0*[1-9][0-9]{0,8})?", text.strip())
    if found is None or not Fraction(text.strip()):
        raise Refusal(f"{option} {text[:40]}: give a number above 0, as 20, 0.5 or 1/2")
    return Fraction(text.strip())


def journal_path(settings: Settings, given: Path | None) -> Path:
    """Return where the device journal is."""
    return given or settings.data_dir / "device.journal"


def publisher_for(settings: Settings) -> Publisher:
    """Return an open line to the rating topic.

    Refuses a broker that is absent, and a topic in which a report would be lost: an epsilon is not
    to be spent on that. How long the server keeps reports is no device's business.
    """
    from producers.publishing import Publisher
    from stream_app.kafka import clients
    from stream_app.kafka import topic_admin as topics
    from stream_app.wire import Topics

    servers = servers_of(settings)
    name = Topics(settings.topic_prefix).ratings
    clients.reach(servers, settings.kafka)
    topics.check_intake(clients.admin(servers, settings.kafka), name, settings.partitions)
    # No record is given up while later ones go: a server takes a device's events in their order.
    line = clients.producer(servers, settings.kafka, linger_ms=20, message_timeout_ms=0)
    return Publisher(line, name)


def item_table_for(mechanism: Mechanism, settings: Settings) -> ItemTable:
    """Return the public item table where the mechanism asks over groups that it decides."""
    from producers.device import item_table
    from stream_app.kafka import clients
    from stream_app.wire import Topics

    if not mechanism.masks:
        return item_table.ItemTable()
    reader = clients.consumer(servers_of(settings), settings.kafka, partition_eof=True)
    try:
        return item_table.read(reader, Topics(settings.topic_prefix).item_table)
    finally:
        reader.close()


def printable(text: str) -> str:
    """Return a text without characters that a terminal obeys."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def times(epsilon: Fraction) -> str:
    """Return e^epsilon as people write numbers."""
    import math

    factor = math.exp(epsilon)
    return f"{factor:,.0f}" if 1000 <= factor < 1e12 else f"{factor:.3g}"


def opened(journal: Journal) -> Iterator[str]:
    """Yield what somebody should know who has just opened a journal."""
    if journal.made:
        yield (
            f"journal    {journal.path} is new: new pseudonyms, nothing known of what was "
            "published before"
        )
    if journal.cut:
        yield f"journal    {journal.path}: a write was torn by a crash, its {journal.cut} bytes cut"


def protected(mechanism: Mechanism) -> str:
    """Return in a sentence what this mechanism protects."""
    if mechanism.epsilon is None:
        return f"nothing: the ratings themselves are sent ({mechanism.id})"
    what, than = "the value of each rating", "one value than under another"
    if hides_presence(mechanism):
        what = "whether each item was rated, and how"
        than = "one rating, or none, than under another"
    return (
        f"{what}: no report is more than e^{mechanism.epsilon} = "
        f"{times(mechanism.epsilon)} times likelier under {than} "
        f"({mechanism.id}, adjacency: {mechanism.adjacency})"
    )


PUBLIC = "that the ratings exist, their items, the day, and that one pseudonym made them"
PUBLIC_SCOPE = (
    "the scope of items, and that a pseudonym reports on all of it that it has not reported on "
    "before"
)
AT_ONCE = (
    "at once: when messages come and how large they are tells when somebody rates and how much"
)
AT_THE_END = "at the epoch's end: when a message comes tells nothing of when anybody rated"


def public_sample(reports: int) -> str:
    """Return in a sentence what is public where a device reports on some items of the scope."""
    return (
        f"the scope of items, and that a pseudonym reports on {reports} items of it that a key of "
        "the device picks, but for those that it has reported on before"
    )


def spent(mechanism: Mechanism, most: int, before: Fraction | None = None) -> str:
    """Return in a sentence what the user with the most reports spends at most in sum, and what
    the user who has spent the most has spent before."""
    if mechanism.epsilon is None:
        return "no epsilon is claimed, so none adds up"
    total = mechanism.epsilon * most
    earlier = ""
    if before:
        earlier = f"; the one who has spent the most has spent {float(before):g} before"
    return (
        f"a user's reports add up: {most} x {mechanism.epsilon} = {float(total):g} for the user "
        f"with the most in this run{earlier}"
    )


def warnings(mechanism: Mechanism, most: int, whole: Fraction | None = None) -> list[str]:
    """Return what a careful person would say before publishing; `whole`: what one user will have
    spent at most, with what was spent before."""
    from fractions import Fraction

    said = []
    if whole is None:
        whole = (mechanism.epsilon or Fraction(0)) * most
    if mechanism.epsilon is None:
        said.append("nothing is protected: whoever reads the topic reads the ratings")
    elif mechanism.epsilon > LARGE_PER_RATING:
        said.append(
            f"epsilon {mechanism.epsilon} is above {LARGE_PER_RATING} per rating: a report nearly "
            "always is the rating"
        )
    if whole > LARGE_PER_USER:
        said.append(
            f"above {LARGE_PER_USER} in sum a user's taste as a whole is weakly protected; the "
            "guarantee holds for each single rating"
        )
    return said
