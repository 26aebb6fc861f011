"""`murmurec publish`: one rating of one user, sanitized here and sent."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    settings_from,
)
from stream_app.cli.protection import (
    PUBLIC,
    AgainOption,
    EpsilonOption,
    MechanismOption,
    ScaleOption,
    StoreOption,
    allowed,
    mechanism_from,
    protected,
    publisher_for,
    scale_from,
    store_path,
    warnings,
)
from stream_app.errors import Refusal

if TYPE_CHECKING:
    from stream_app.wire import Item


def publish(
    user: Annotated[str, typer.Option("--user", metavar="ID", help="Who rates; never sent.")],
    item: Annotated[str, typer.Option("--item", metavar="ID", help="What is rated; public.")],
    rating: Annotated[
        str,
        typer.Option(
            "--rating", metavar="R", help="The rating; - reads it from standard input instead."
        ),
    ],
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    scale: ScaleOption = None,
    store: StoreOption = None,
    again: AgainOption = False,
    json_encoding: Annotated[
        bool, typer.Option("--json-encoding", help="Send JSON instead of MessagePack.")
    ] = False,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish one rating: murmurec publish --user ann --item 1193 --rating 4"""
    from producers.rating import rate
    from producers.scale import Scale
    from producers.store import Store
    from stream_app import wire
    from stream_app.privacy.randomness import SystemSource

    settings = settings_from(config, bootstrap, prefix, kafka)
    grid = scale_from(scale) or Scale()
    chosen = allowed(mechanism_from(mechanism, epsilon, grid), settings)
    named = _item(item)
    number = _number(sys.stdin.readline() if rating == "-" else rating)
    for sentence in warnings(chosen, 1):
        typer.echo(f"warning: {sentence}", err=True)
    try:
        # What cannot be rated is refused before a broker is asked for or a store is made.
        grid.level(number)
        wire.key(named)
        line = publisher_for(settings)
        with Store.open(store_path(settings, store)) as kept:
            event = rate(
                user,
                named,
                number,
                scale=grid,
                mechanism=chosen,
                store=kept,
                source=SystemSource(),
                epoch=int(time.time()) // wire.EPOCH_SECONDS,
                again=again,
            )
    except ValueError as error:
        raise Refusal(str(error)) from None
    with line:
        value = wire.encode_json(event, [named]) if json_encoding else wire.encode(event)
        line.send(event.key, value)
    if line.last is None:
        raise Refusal(
            f"the event was not accepted: {line.first_error}; its epsilon counts as spent, "
            "--again publishes another report"
        )
    if as_json:
        row = {
            "topic": line.topic,
            "partition": line.last.partition,
            "offset": line.last.offset,
            "device": event.device.hex(),
            "seq": event.seq,
            "mechanism": chosen.id,
            "adjacency": str(chosen.adjacency),
            "epsilon": None if chosen.epsilon is None else str(chosen.epsilon),
        }
        typer.echo(json.dumps(row))
        return
    place = line.last
    typer.echo(f"accepted   {line.topic}, partition {place.partition}, offset {place.offset}")
    typer.echo(f"protected  {protected(chosen)}")
    typer.echo(f"public     {PUBLIC}: device {event.device.hex()}, item {named}")
    if chosen.epsilon is not None:
        typer.echo(f"in sum     n ratings of a user spend n x {chosen.epsilon}")


def _item(text: str) -> Item:
    """Return the item that was typed; a number that cannot be an item is not taken for text."""
    from stream_app.wire import parse_item

    item = parse_item(text)
    if isinstance(item, str) and re.fullmatch(r"[+-]?[0-9]+", text):
        raise Refusal(f"item {text[:40]}: an integer item lies in 0 .. 2^63-1")
    return item


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refusal("--rating: is not a number") from None
