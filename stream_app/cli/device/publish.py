"""`murmurec publish`: one rating of one user, sanitized here and sent."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.device.connections import item_table_for, publisher_for
from stream_app.cli.device.mechanism_options import (
    BudgetOption,
    EmissionOption,
    EpsilonOption,
    JournalOption,
    MechanismOption,
    RepublishOption,
    ScaleOption,
    TrustClockOption,
    WindowOption,
    allowed,
    is_epoch_emission,
    journal_path,
    limits_from,
    mechanism_from,
    scale_from,
)
from stream_app.cli.device.wording import (
    AT_ONCE,
    PUBLIC,
    journal_notices,
    protection_claim,
    warnings,
)
from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    settings_from,
)
from stream_app.cli.output import printable
from stream_app.errors import UserError

if TYPE_CHECKING:
    from producers.device.requests import Encoder
    from producers.journal import Message
    from producers.publishing import RecordPosition
    from stream_app.privacy.mechanism import Mechanism
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
    budget: BudgetOption = None,
    window: WindowOption = None,
    emission: EmissionOption = "immediate",
    journal: JournalOption = None,
    republish: RepublishOption = False,
    trust_clock: TrustClockOption = False,
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
    from producers.device.rating import check_may_be_sent_at_once, rate
    from producers.device.requests import ReportSettings
    from producers.journal import Journal, Unwritable
    from producers.publishing import OutboxRelay
    from producers.scale import Scale
    from stream_app import wire

    if is_epoch_emission(emission):
        raise UserError(
            "--emission epoch: one rating is sent at once or not at all; whole epochs are sent by "
            "murmurec replay --emission epoch"
        )
    settings = settings_from(config, bootstrap, prefix, kafka)
    grid = scale_from(scale) or Scale()
    limits = limits_from(budget, window, trust_clock=trust_clock)
    chosen = mechanism_from(mechanism, epsilon, grid)
    named = _item(item)
    number = _number(sys.stdin.readline() if rating == "-" else rating)
    try:
        # What cannot be rated is refused before a broker is asked for or a journal is made.
        check_may_be_sent_at_once(chosen)
        allowed(chosen, settings)
        for sentence in warnings(chosen, 1):
            typer.echo(f"warning: {sentence}", err=True)
        grid.level(number)
        wire.key(named)
        line = publisher_for(settings)
        table = item_table_for(chosen, settings)
        with Journal.open(journal_path(settings, journal), limits=limits) as kept, line:
            for sentence in journal_notices(kept):
                typer.echo(sentence, err=True)
            courier = OutboxRelay(kept, line)
            left, _ = courier.resend({line.topic})
            if left:
                typer.echo(f"sending {left} events again that an earlier run has left", err=True)
            message = rate(
                user,
                named,
                number,
                ReportSettings(
                    line.topic, chosen, table=table, encode=_encoder(json_encoding, named)
                ),
                scale=grid,
                journal=kept,
                epoch=int(time.time()) // wire.EPOCH_SECONDS,
                republish=republish,
            )
            courier.send(message, kept=True)
    except Unwritable as error:
        raise UserError(f"{error}; the rating was not sent") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    place = courier.places.get(message.number)
    if place is None:
        raise UserError(
            f"the event was not accepted: {line.first_error}; it is kept in the journal, and the "
            "next publish or replay sends the same bytes"
        )
    _result(message, place, chosen, named, as_json)


def _encoder(as_json: bool, item: Item) -> Encoder:
    from stream_app import wire

    return (lambda event: wire.encode_json(event, [item])) if as_json else wire.encode


def _result(
    message: Message, place: RecordPosition, mechanism: Mechanism, item: Item, as_json: bool
) -> None:
    if as_json:
        row = {
            "topic": message.topic,
            "partition": place.partition,
            "offset": place.offset,
            "device": message.device.hex(),
            "seq": message.seq,
            "mechanism": mechanism.id,
            "adjacency": str(mechanism.adjacency),
            "epsilon": None if mechanism.epsilon is None else str(mechanism.epsilon),
        }
        typer.echo(json.dumps(row))
        return
    typer.echo(f"accepted   {message.topic}, partition {place.partition}, offset {place.offset}")
    typer.echo(f"protected  {protection_claim(mechanism)}")
    typer.echo(f"public     {PUBLIC}: device {message.device.hex()}, item {printable(str(item))}")
    typer.echo(f"sent       {AT_ONCE}")
    if mechanism.epsilon is not None:
        typer.echo(f"in sum     n ratings of a user spend n x {mechanism.epsilon}")


def _item(text: str) -> Item:
    """Return the item that was typed; a number that cannot be an item is not taken for text."""
    from stream_app.wire import parse_item

    item = parse_item(text)
    if isinstance(item, str) and re.fullmatch(r"[+-]?[0-9]+", text):
        raise UserError(f"item {text[:40]}: an integer item lies in 0 .. 2^63-1")
    return item


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError("--rating: is not a number") from None
