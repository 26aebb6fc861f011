"""Scan of the state topic when a worker becomes its writer."""

from __future__ import annotations

from stream_app.checkpoints import reader
from stream_app.kafka.clients import Connection
from stream_app.wire import Topics, WireError
from stream_app.wire.authenticity.seal import OPEN, Seal
from stream_app.wire.state_records import Manifest, decode_manifest


def scan_state_topic(
    connection: Connection, topics: Topics, seal: Seal = OPEN
) -> tuple[list[bytes], list[Manifest]]:
    """Return every key that has a value, and every manifest that can be read
    and has this seal.

    The pages' bytes are dropped at once: only their keys are needed.
    """
    live: dict[bytes, Manifest | None] = {}

    def note(_: int, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return
        live.pop(key, None)
        if value is not None:
            live[key] = _manifest(value, seal) if key[:1] == b"M" else None

    reader.read(connection, topics, note)
    return list(live), [manifest for manifest in live.values() if manifest is not None]


def _manifest(value: bytes, seal: Seal) -> Manifest | None:
    try:
        return decode_manifest(value, seal)
    except WireError:
        return None
