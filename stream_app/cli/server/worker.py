"""`murmurec worker`: the server that learns from the stream and answers queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    KafkaOption,
    PrefixOption,
    connection_from,
    settings_from,
)
from stream_app.errors import UserError


def worker(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="A mechanism that devices may use, such as rr:5:2; repeatable. "
            "\\[env: MURMUREC_MECHANISMS]"
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="sketch, literal, dense or hashing. \\[env: MURMUREC_MODEL]")
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="auto, exact or qolsh. \\[env: MURMUREC_INDEX]")
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(help="Port of /metrics, /state, ...; 0: any. \\[env: MURMUREC_ADMIN_PORT]"),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Consumer group of the workers. \\[env: MURMUREC_GROUP]")
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            help="Name that this worker keeps over restarts: back at once. "
            "\\[env: MURMUREC_INSTANCE]"
        ),
    ] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option(
            "--from-snapshot",
            metavar="FILE",
            help="Begin from a state that murmurec state export wrote, at the newest cut; once: a "
            "file that was adopted before goes on. Again: state rebuild --at-newest-cut.",
        ),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Begin from the log, whatever the checkpoints say.")
    ] = False,
    accept_gap: Annotated[
        bool,
        typer.Option(
            "--accept-gap",
            help="Go on where neither checkpoint nor log is whole; the state says so ever after.",
        ),
    ] = False,
    place: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="With --accept-gap: earliest, latest, ts=2026-11-01T00:00:00Z or last=1000; a "
            "state that began behind a gap goes on.",
        ),
    ] = "",
) -> None:
    """Learn from the stream, answer queries, serve /metrics; ends cleanly on SIGTERM.

    It begins from the newest checkpoint and replays what came after it; /readyz says how far that
    is. Without a checkpoint it replays the whole log.

    Example: murmurec worker --bootstrap localhost:9092 --allow rr:5:2
    """
    if sum(map(bool, (snapshot, rebuild, accept_gap))) > 1:
        raise UserError("--from-snapshot, --rebuild and --accept-gap are three ways: choose one")
    if place and not accept_gap:
        raise UserError(f"--from {place} gives up what lies before: say so with --accept-gap")
    import asyncio
    import threading
    from importlib import import_module

    from stream_app.broker.local import free_ports
    from stream_app.kafka import acls as rights
    from stream_app.kafka import clients
    from stream_app.kafka import topic_admin as topics
    from stream_app.monitoring.log_setup import configure
    from stream_app.wire import Topics

    settings = settings_from(
        config,
        bootstrap,
        prefix,
        kafka,
        mechanisms=tuple(allow) if allow else None,
        model=model,
        index=index,
        admin_port=admin_port,
        group=group,
        instance=instance,
    )
    connection = connection_from(settings)
    configure(settings.log_level, settings.log_format)
    # A second of imports, while the broker is asked this and that.
    importing = threading.Thread(
        target=import_module, args=("stream_app.agents.application",), daemon=True
    )
    importing.start()
    clients.describe_cluster(connection)
    rights.check(connection, rights.of_a_worker(Topics(settings.topic_prefix)))
    topics.check_deployment(
        connection,
        Topics(settings.topic_prefix),
        settings.partitions,
        settings.ratings_retention_seconds,
    )
    if snapshot or rebuild or accept_gap:
        from stream_app.operations import adopt as beginning
        from stream_app.operations.session import Session

        session = Session.from_settings(settings)
        if snapshot:
            beginning.from_snapshot(session, snapshot)
        elif rebuild:
            beginning.from_the_log(session)
        else:
            beginning.over_a_gap(session, place)
    importing.join()
    from stream_app.agents import application

    port = settings.admin_port or free_ports(1)[0]
    asyncio.run(application.run(settings, settings.servers, port))
