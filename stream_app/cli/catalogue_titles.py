"""The public catalogue, read from its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import records
from stream_app.serving.catalogue import Catalogue
from stream_app.wire import Topics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def catalogue_from(connection: Connection, prefix: str) -> Catalogue:
    """Return the catalogue as it stands now; UserError where it may not be read."""
    catalogue = Catalogue()
    for message in records(connection, Topics(prefix).items):
        catalogue.learn(message.key(), message.value())
    return catalogue


def recommendable(connection: Connection, prefix: str) -> NDArray[np.uint64]:
    """Return the sorted keys of the items that are not withdrawn; refuses an empty catalogue."""
    import numpy as np

    entries = catalogue_from(connection, prefix).entries
    keys = [key for key, entry in entries.items() if not entry.withdrawn]
    if not keys:
        topic = Topics(prefix).items
        raise UserError(f"{topic}: the catalogue is empty; give the public items with --scope FILE")
    return np.sort(np.array(keys, np.uint64))
