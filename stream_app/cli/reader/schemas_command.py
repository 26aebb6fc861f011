"""`murmurec schemas`: the contract of the topics and of the gateway as documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.commands import option
from stream_app.cli.options import ConfigOption, PrefixOption, settings_from
from stream_app.errors import UserError


def schemas(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Print this one; without it, their names."),
    ] = None,
    out: Path | None = option(None, "Write all of them into this folder.", "FOLDER"),
    config: ConfigOption = None,
    prefix: PrefixOption = None,
) -> None:
    """Print or write the JSON Schemas, the OpenAPI and the AsyncAPI document.

    They are made from the types that decode every record, and are those that a gateway shows at
    /docs. No Kafka is needed.

    Example: murmurec schemas event; murmurec schemas --out contract
    """
    from stream_app.gateway.contract.documents import documents
    from stream_app.wire import Topics

    settings = settings_from(config, None, prefix, None)
    topics = Topics(settings.topic_prefix)
    made = documents(topics, settings.partitions, settings.query_partitions)
    if out is not None:
        _write(out, made)
        typer.echo(f"{len(made)} documents in {out}")
    elif name is None:
        for path in made:
            typer.echo(_name(path))
    else:
        found = {_name(path): body for path, body in made.items()}.get(_name(name))
        if found is None:
            raise UserError(f"schemas: no document {name!r}; `murmurec schemas` prints their names")
        typer.echo(found.decode(), nl=False)


def _name(path: str) -> str:
    return path.removeprefix("schemas/").removesuffix(".json")


def _write(folder: Path, made: dict[str, bytes]) -> None:
    try:
        for path, body in made.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(body)
    except OSError as error:
        raise UserError(f"--out {folder}: {error.strerror}") from None
