"""`murmurec worker`: the server that learns from the stream and answers queries."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    KafkaOption,
    PrefixOption,
    servers_of,
    settings_from,
)


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
) -> None:
    """Learn from the stream, answer queries, serve /metrics; ends cleanly on SIGTERM.

    The state is rebuilt from the log at every start; /readyz says how far that is.

    Example: murmurec worker --bootstrap localhost:9092 --allow rr:5:2
    """
    import asyncio

    from stream_app import clients, topics
    from stream_app.broker.local import free_ports
    from stream_app.logs import configure
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
    )
    servers = servers_of(settings)
    configure(settings.log_level, settings.log_format)
    clients.reach(servers, settings.kafka)
    topics.check_deployment(
        servers, settings.kafka, Topics(settings.topic_prefix), settings.partitions
    )
    from stream_app.agents import application
    from stream_app.design import design_of
    from stream_app.warmup import warm_up

    warm_up(design_of(settings), settings.index, settings.code_bits)
    port = settings.admin_port or free_ports(1)[0]
    asyncio.run(application.run(settings, servers, port))
