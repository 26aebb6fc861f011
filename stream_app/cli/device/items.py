"""`murmurec items`: the public catalogue: what items are called, and which must not be
recommended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    KafkaOption,
    PrefixOption,
    connection_from,
    settings_from,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stream_app.settings import Settings
    from stream_app.wire import CatalogueEntry

app = typer.Typer(no_args_is_help=True, help="Name items, and take one down now.")

ItemArgument = Annotated[str, typer.Argument(metavar="ITEM", help="A number or a word.")]


@app.command()
def publish(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Ratings with titles beside them.")],
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
) -> None:
    """Publish the names and titles of a file's items; withdrawn ones come back."""
    from producers.catalogue import entries
    from producers.datasets.load import load

    settings = settings_from(config, bootstrap, prefix, kafka)
    data = load(file)
    sent = _send(settings, entries(set(data.items.tolist()), data.titles))
    typer.echo(f"{sent} entries published")


@app.command()
def put(
    item: ItemArgument,
    title: Annotated[str, typer.Option(help="What people call it.")] = "",
    category: Annotated[list[str] | None, typer.Option(help="A category; repeatable.")] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
) -> None:
    """Name an item, and bring a withdrawn one back."""
    settings = settings_from(config, bootstrap, prefix, kafka)
    _send(settings, [_entry(item, title, tuple(category or ()), False)])
    typer.echo(f"item {item} is in the catalogue")


@app.command()
def withdraw(
    item: ItemArgument,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
) -> None:
    """Take an item down now: no worker recommends it any more."""
    settings = settings_from(config, bootstrap, prefix, kafka)
    _send(settings, [_entry(item, "", (), True)])
    typer.echo(f"item {item} is withdrawn")


def _entry(item: str, title: str, categories: tuple[str, ...], withdrawn: bool) -> CatalogueEntry:
    from stream_app.errors import UserError
    from stream_app.wire import CatalogueEntry, WireError, decode_message, encode_message, key
    from stream_app.wire import parse_item as parse

    try:
        key(parse(item))
        made = CatalogueEntry(parse(item), title, categories, withdrawn)
        decode_message(CatalogueEntry, encode_message(made))  # the limits of the contract
    except ValueError as error:
        raise UserError(str(error)) from None
    except WireError:
        raise UserError(
            f"item {item[:40]}: a title has up to 500 characters, a category up to 100"
        ) from None
    return made


def _send(settings: Settings, made: Iterable[CatalogueEntry]) -> int:
    from producers.catalogue import publish as send
    from producers.publishing import Publisher
    from stream_app.errors import UserError
    from stream_app.kafka import clients
    from stream_app.wire import Topics

    connection, topic = connection_from(settings), Topics(settings.topic_prefix).items
    if topic not in clients.describe_cluster(connection).topics:
        raise UserError(f"topic {topic} does not exist: create it with murmurec topics apply")
    line = Publisher(clients.producer(connection, linger_ms=20), topic)
    return send(line, made)
