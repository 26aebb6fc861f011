"""The items in the topic of the public catalogue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.cli.catalogue import catalogue_from
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.wire import Topics


def catalogue(connection: Connection, prefix: str) -> NDArray[np.uint64]:
    """Return the sorted keys of the items that are not withdrawn; refuses an empty catalogue."""
    entries = catalogue_from(connection, prefix).entries
    keys = [key for key, entry in entries.items() if not entry.withdrawn]
    if not keys:
        topic = Topics(prefix).items
        raise UserError(f"{topic}: the catalogue is empty; give the public items with --scope FILE")
    return np.sort(np.array(keys, np.uint64))
