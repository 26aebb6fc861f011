"""`murmurec items`: the public catalogue of titles, genres, years and withdrawn items."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_app.cli.commands import Commands, option
from stream_app.cli.options import Cluster, JsonOption, connection_from
from stream_app.cli.output import described, print_json, printable, say
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stream_app.settings import Settings
    from stream_app.wire import CatalogueEntry

app = Commands(
    help="Edit the public catalogue. Example: murmurec items put 1193 --title 'A Film'",
)

ItemArgument = Annotated[str, typer.Argument(metavar="ITEM", help="A number or a word.")]


@app.command()
def publish(
    cluster: Cluster,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or Parquet with a header, or ml-1m.zip.")
    ],
) -> None:
    """Publish names, titles, genres and years of a file's items; withdrawn ones return.

    A column is known by its name: item_id, title, genres, year, or what else shops write. Nothing
    is published of a file with a wrong row.

    Example: murmurec items publish books.csv
    """
    from producers.catalogue_reader import file_entries

    settings = cluster.settings()
    found, columns = file_entries(file.expanduser())
    if columns:
        say(printable(f"{file.name}: {columns}"))
    sent = _send(settings, found)
    say(f"{sent:,} {'entry' if sent == 1 else 'entries'} published")


@app.command()
def put(
    cluster: Cluster,
    item: ItemArgument,
    title: str | None = option(None, "The title."),
    genre: list[str] | None = option(None, "A genre; repeatable."),
    year: int | None = option(None, "The year it is from."),
    withdraw: bool = option(False, "No worker recommends it any more."),
) -> None:
    """Set title, genres and year of an item, and restore a withdrawn one; or withdraw it.

    What is not given stays as it is; `--title ""` empties the title.

    Example: murmurec items put 1193 --title "A Film" --genre Drama --year 1995
    """
    from msgspec.structs import replace

    settings = cluster.settings()
    about = {"title": title, "genres": genre and tuple(genre), "year": year}
    given = {field: value for field, value in about.items() if value is not None}
    made = _entry(item, **given, withdrawn=withdraw)
    _check_topic(settings)
    before = _known(settings, made)
    _send(settings, [made if before is None else replace(before, **given, withdrawn=withdraw)])
    say(f"item {printable(item)} is {_outcome(known=before is not None, withdrawn=withdraw)}")


def _outcome(*, known: bool, withdrawn: bool) -> str:
    if not withdrawn:
        return "in the catalogue"
    # It may have ratings: a worker also recommends items without a title.
    return "withdrawn" if known else "withdrawn, but was not in the catalogue (is the id right?)"


@app.command("list")
def list_items(
    cluster: Cluster,
    ids: bool = option(False, "One id a line, without withdrawn ones, as for a scope."),
    as_json: JsonOption = False,
) -> None:
    """List the items of the catalogue; withdrawn ones are marked.

    Example: murmurec items list --ids
    """
    from stream_app.cli.catalogue_titles import catalogue_from

    settings = cluster.settings()
    _check_topic(settings, "READ")
    entries = catalogue_from(connection_from(settings), settings.topic_prefix).entries.values()
    rows = sorted(entries, key=lambda entry: (isinstance(entry.item, str), entry.item))
    if ids:
        rows = [entry for entry in rows if not entry.withdrawn]
    if as_json:
        print_json([_listed(entry) for entry in rows])
        return
    for entry in rows:
        if ids:
            name = str(entry.item)
            if "\n" in name or name.endswith("\r"):
                raise UserError(
                    f"item {printable(name[:40])}: an id with a line break is no line; take --json"
                )
            print(printable(name) if sys.stdout.isatty() else name)
            continue
        shown = described(entry.title, entry.genres, entry.year)
        gone = "  withdrawn" if entry.withdrawn else ""
        say(printable(f"{entry.item}  {shown}").rstrip() + gone)


def _listed(entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "item": entry.item,
        "title": entry.title,
        "genres": list(entry.genres),
        "year": entry.year,
        "withdrawn": entry.withdrawn,
    }


def _entry(item: str, **published: Any) -> CatalogueEntry:
    from stream_app.wire import CatalogueEntry, WireError, decode_message, encode_message, key
    from stream_app.wire.limits import MAX_TITLE, MAX_YEAR

    try:
        key(item)
        made = CatalogueEntry(item, **published)
        decode_message(CatalogueEntry, encode_message(made))  # the limits of the contract
    except ValueError as error:
        raise UsageError(str(error)) from None
    except WireError:
        raise UsageError(
            f"item {item[:40]}: a title has up to {MAX_TITLE} characters, a year is 1 to {MAX_YEAR}"
        ) from None
    return made


def _send(settings: Settings, entries: Iterable[CatalogueEntry]) -> int:
    from producers.catalogue_reader import publish as send
    from producers.publishing import Publisher
    from stream_app.kafka import clients

    topic = _check_topic(settings)
    producer = clients.producer(connection_from(settings), linger_ms=20)
    return send(Publisher(producer, topic), entries)


def _check_topic(settings: Settings, operation: str = "WRITE") -> str:
    """Return the name of the catalogue's topic; refuses one that does not exist."""
    from stream_app.kafka import clients
    from stream_app.kafka.topic_admin import missing
    from stream_app.wire import Topics

    connection, topic = connection_from(settings), Topics(settings.topic_prefix).items
    if topic not in clients.describe_cluster(connection).topics:
        raise missing(clients.admin(connection), topic, operation)
    return topic


def _known(settings: Settings, entry: CatalogueEntry) -> CatalogueEntry | None:
    """Return the entry that the catalogue has for the item of `entry`, None without one."""
    from stream_app.cli.catalogue_titles import catalogue_from
    from stream_app.wire import key

    catalogue = catalogue_from(connection_from(settings), settings.topic_prefix)
    return catalogue.entries.get(key(entry.item))
