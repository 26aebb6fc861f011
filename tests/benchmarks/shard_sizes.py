"""What shards send each other, and what the exchange takes of memory.

The population of `shard_capacity.py` with 10,000 and 100,000 items, eight shards; bytes of the
second half of 3 M ratings, as the topic holds them and as producers compress (zstd and lz4).
"""

from __future__ import annotations

import cramjam

from stream_app.models.factorization.joining import Meetings
from tests.benchmarks.figure import Figure
from tests.benchmarks.shard_capacity import STEP, USERS, generated, spec_of
from tests.fixtures.shards import Shards

_RATINGS, _SHARDS, _MIB = 3_000_000, 8, 1 << 20


def measure() -> list[Figure]:
    """Return bytes a rating, and MiB of one shard."""
    figures = []
    for items in (10_000, 100_000):
        stream = generated(items, _RATINGS)
        made = Shards(spec_of(), _SHARDS, USERS, Meetings())
        for _ in made.learn(stream.part(0, _RATINGS // 2), STEP):
            pass
        before = len(made.records)
        for _ in made.learn(stream.part(_RATINGS // 2, _RATINGS), STEP):
            pass
        sent, name = made.records[before:], f"exchange, {items:,} items"
        sizes = {"": sum(map(len, sent))}
        sizes[", zstd"] = sum(len(bytes(cramjam.zstd.compress(record, 3))) for record in sent)
        sizes[", lz4"] = sum(len(bytes(cramjam.lz4.compress(record))) for record in sent)
        figures += [
            Figure(f"{name}{how}", size / (_RATINGS / 2), "bytes/rating")
            for how, size in sizes.items()
        ]
        replica = made.replicas[0]
        memory, feed = replica.memory(), replica.pairs.rated
        assert feed is not None
        assert feed.base is not None
        base = feed.base.memory_bytes + feed.base.sums.memory_bytes
        devices = memory["marks"] + feed.lists.memory_bytes
        figures += [
            Figure(f"{name}, base of learner and counts", memory["shared"] / _MIB, "MiB"),
            Figure(f"{name}, base of pairs", base / _MIB, "MiB"),
            Figure(f"{name}, item side", (memory["items"] + memory["pairs"]) / _MIB, "MiB"),
            Figure(f"{name}, devices of a shard", devices / _MIB, "MiB"),
        ]
        del made, replica
    return figures
