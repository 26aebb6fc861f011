"""What the publishing commands share: the mechanism's options, and what it protects in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import servers_of
from stream_app.errors import Refusal

if TYPE_CHECKING:
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
        help="rr (randomized response) or none (nothing is protected).",
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
ScaleOption = Annotated[
    tuple[float, float, float] | None,
    typer.Option("--scale", metavar="MIN MAX STEP", help="The ratings there are, as 1 5 1."),
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="FILE",
        envvar="MURMUREC_DEVICE_STORE",
        help="The device store: key, numbers, what was published. \\[default: in the data folder]",
    ),
]
AgainOption = Annotated[
    bool,
    typer.Option("--again", help="Publish again what was published; its epsilon is spent again."),
]


def mechanism_from(family: str, epsilon: str | None, scale: Scale) -> Mechanism:
    """Return the mechanism that was asked for; epsilon 2 where none was given."""
    from stream_app.privacy import registry

    default = None if family == "none" else "2"
    try:
        return registry.mechanism(family, scale.levels, default if epsilon is None else epsilon)
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


def scale_from(given: tuple[float, float, float] | None) -> Scale | None:
    """Return the scale that was given, None where none was."""
    from producers.scale import Scale

    try:
        return None if given is None else Scale(*given)
    except ValueError as error:
        raise Refusal(str(error)) from None


def store_path(settings: Settings, given: Path | None) -> Path:
    """Return where the device store is."""
    return given or settings.data_dir / "device.sqlite"


def publisher_for(settings: Settings) -> Publisher:
    """Return an open line to the rating topic.

    Refuses a broker that is absent, and a topic that a worker would refuse: an epsilon is not to be
    spent on a report that is lost.
    """
    from producers.publishing import Publisher
    from stream_app import clients, topics
    from stream_app.wire import Topics

    servers = servers_of(settings)
    name = Topics(settings.topic_prefix).ratings
    clients.reach(servers, settings.kafka)
    reader = clients.consumer(servers, settings.kafka)
    try:
        topics.check_ratings_topic(
            clients.admin(servers, settings.kafka), reader, name, settings.partitions
        )
    finally:
        reader.close()
    line = clients.producer(servers, settings.kafka, linger_ms=20)
    return Publisher(line, name)


def protected(mechanism: Mechanism) -> str:
    """Return in a sentence what this mechanism protects."""
    if mechanism.epsilon is None:
        return f"nothing: the ratings themselves are sent ({mechanism.id})"
    import math

    return (
        f"the value of each rating: no report is more than e^{mechanism.epsilon} = "
        f"{math.exp(mechanism.epsilon):.3g} times likelier under one value than under another "
        f"({mechanism.id}, adjacency: {mechanism.adjacency})"
    )


PUBLIC = "that the ratings exist, their items, the day, and that one pseudonym made them"


def spent(mechanism: Mechanism, most: int) -> str:
    """Return in a sentence what the user with the most ratings spends in sum."""
    if mechanism.epsilon is None:
        return "no epsilon is claimed, so none adds up"
    total = mechanism.epsilon * most
    return (
        f"a user's ratings add up: {most} x {mechanism.epsilon} = {float(total):g} for the user "
        "with the most in this run"
    )


def warnings(mechanism: Mechanism, most: int) -> list[str]:
    """Return what a careful person would say before publishing."""
    said = []
    if mechanism.epsilon is None:
        said.append("nothing is protected: whoever reads the topic reads the ratings")
    elif mechanism.epsilon > LARGE_PER_RATING:
        said.append(
            f"epsilon {mechanism.epsilon} is above {LARGE_PER_RATING} per rating: a report nearly "
            "always is the rating"
        )
    elif mechanism.epsilon * most > LARGE_PER_USER:
        said.append(
            f"above {LARGE_PER_USER} in sum a user's taste as a whole is weakly protected; the "
            "guarantee holds for each single rating"
        )
    return said
