"""The broker connections that the publishing commands open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_app.cli.options import connection_from

if TYPE_CHECKING:
    from producers.device.item_table import ItemTable
    from producers.publishing import Publisher
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.settings import Settings


def publisher_for(settings: Settings) -> Publisher:
    """Return an open line to the rating topic.

    Refuses a broker that is absent, and a topic in which a report would be lost: an epsilon is not
    to be spent on that. How long the server keeps reports is no device's business.
    """
    from producers.publishing import Publisher
    from stream_app.kafka import clients
    from stream_app.kafka import topic_admin as topics
    from stream_app.wire import Topics

    connection = connection_from(settings)
    name = Topics(settings.topic_prefix).ratings
    clients.describe_cluster(connection)
    topics.check_intake(clients.admin(connection), name, settings.partitions)
    # No record is given up while later ones go: a server takes a device's events in their order.
    line = clients.producer(connection, linger_ms=20, message_timeout_ms=0)
    return Publisher(line, name)


def item_table_for(mechanism: Mechanism, settings: Settings) -> ItemTable:
    """Return the public item table where the mechanism asks over groups that it decides."""
    from producers.device import item_table
    from stream_app.kafka import clients
    from stream_app.wire import Topics

    if not mechanism.masks:
        return item_table.ItemTable()
    reader = clients.consumer(connection_from(settings), partition_eof=True)
    try:
        return item_table.read(reader, Topics(settings.topic_prefix).item_table)
    finally:
        reader.close()
