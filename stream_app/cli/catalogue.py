"""The public catalogue, read from its topic."""

from __future__ import annotations

from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import records
from stream_app.serving.catalogue import Catalogue
from stream_app.wire import Topics


def catalogue_from(connection: Connection, prefix: str) -> Catalogue:
    """Return the catalogue as it stands now; UserError where it may not be read."""
    catalogue = Catalogue()
    for message in records(connection, Topics(prefix).items):
        catalogue.learn(message.key(), message.value())
    return catalogue
