"""`murmurec gateway`: HTTP in front of Kafka, for browsers and other devices without a client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stream_app.cli.commands import option
from stream_app.cli.options import AllowOption, Cluster
from stream_app.errors import UserError

if TYPE_CHECKING:
    from stream_app.settings import Settings


def gateway(
    cluster: Cluster,
    allow: AllowOption = None,
    host: str | None = option(None, "Where to listen (env MURMUREC_GATEWAY_HOST).", "ADDRESS"),
    port: int | None = option(None, "0: any (env MURMUREC_GATEWAY_PORT).", "PORT"),
    origins: list[str] | None = option(
        None,
        "Origin whose pages may use it; repeatable (env MURMUREC_GATEWAY_ORIGINS).",
        "ORIGIN",
        "--origin",
    ),
    rate: float | None = option(
        None, "Events a second of a client; 0: no limit (env MURMUREC_TUNING_GATEWAY_RATE).", "N"
    ),
    relay_to: str | None = option(
        None, "Relay sealed requests to this gateway and do nothing else; no Kafka.", "URL"
    ),
    schemas: Path | None = option(
        None, "Write OpenAPI, AsyncAPI and JSON Schemas of all records there, and exit.", "FOLDER"
    ),
    demo: Path | None = option(None, "What a demo has measured.", "FILE", hidden=True),
) -> None:
    """Take events over HTTP, serve lists and the page; SIGTERM ends it cleanly.

    It learns nothing and holds no rating: what it accepts is in Kafka before the answer.

    Example: murmurec gateway --bootstrap localhost:9092 --allow rr:5:2
    """
    settings = cluster.settings(
        allow=allow,
        gateway_host=host,
        gateway_port=port,
        gateway_origins=tuple(origins) if origins else None,
        gateway_rate=rate,
    )
    if schemas is not None:
        _write_contract(schemas, settings)
        return
    import asyncio
    from functools import partial

    from stream_app.gateway.context import Gateway
    from stream_app.gateway.relayed.relay import Relay
    from stream_app.gateway.serving import end_in_time, run
    from stream_app.monitoring.log_setup import configure

    configure(settings.log_level, settings.log_format)
    made: Gateway | Relay = (
        Relay.to(relay_to, settings)
        if relay_to
        else Gateway.from_settings(settings, demo, _pinned(settings))
    )
    asyncio.run(run(made, typer.echo, partial(end_in_time, made)))


def _write_contract(folder: Path, settings: Settings) -> None:
    """Write the documents of the contract, the same that a gateway shows at /docs; no Kafka."""
    from stream_app.gateway.contract.documents import documents
    from stream_app.wire import Topics

    topics = Topics(settings.topic_prefix)
    made = documents(topics, settings.partitions, settings.query_partitions)
    try:
        for path, body in made.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(body)
    except OSError as error:
        raise UserError(f"--schemas {folder}: {error.strerror}") from None
    typer.echo(f"{len(made)} documents in {folder}")


def _pinned(settings: Settings) -> bytes | None:
    """Return what the page's device pins of campaigns, as JSON: the parties' keys, and the keys of
    the items in their order, how long a plan is public; None where there are no campaigns, or the
    settings name neither."""
    keys, scope = settings.campaign_keys, settings.campaign_scope
    if "campaigns" not in settings.features or not keys or scope is None:
        return None
    import json

    from producers.device.pinned_scope import read_ordered
    from stream_app.wire.limits import MAX_SCOPE

    items = [f"{item:016x}" for item in read_ordered(scope, MAX_SCOPE)[0].tolist()]
    notice = settings.campaign_notice_seconds
    return json.dumps({"keys": keys, "items": items, "notice_seconds": notice}).encode()
