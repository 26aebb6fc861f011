"""`murmurec gateway`: HTTP in front of Kafka, for browsers and other devices without a client."""

from __future__ import annotations

from pathlib import Path

import typer

from stream_app.cli.commands import option
from stream_app.cli.options import AllowOption, Cluster


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
    demo_side: Path | None = option(None, "Item side of a demo.", "FILE", hidden=True),
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
    import asyncio
    from functools import partial

    from stream_app.gateway.context import Gateway
    from stream_app.gateway.serving import end_in_time, run
    from stream_app.monitoring.log_setup import configure

    configure(settings.log_level, settings.log_format)
    made = Gateway.from_settings(settings, demo_side)
    asyncio.run(run(made, typer.echo, partial(end_in_time, made)))
