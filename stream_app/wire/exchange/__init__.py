"""The records of the exchange topic, by which shards learn of each other."""

from stream_app.wire.exchange.shard_change import (
    COLUMNS,
    FEEDS,
    FITS,
    FREQUENCY_SHAPE,
    MAX_CHANGE_BYTES,
    MOMENT_SHAPE,
    TABLES,
    Change,
    decode_change,
    encode_change,
)

__all__ = [
    "COLUMNS", "FEEDS", "FITS", "FREQUENCY_SHAPE", "MAX_CHANGE_BYTES", "MOMENT_SHAPE", "TABLES",
    "Change", "decode_change", "encode_change",
]  # fmt: skip
