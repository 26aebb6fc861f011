"""Rejections of a batch: position, reason and size of each rejected record, never its payload.

A record rejected by decoding, for a jump of its sequence number or because its device is erased
gives one `Rejection`; a duplicate gives none. A replay gives the same ones again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_app.log.ledger import DUPLICATE
from stream_app.state.replica import BatchOutcome
from stream_app.wire import REASONS, Batch, Rejection


def rejected(topic: str, batch: Batch, outcome: BatchOutcome) -> Iterator[Rejection]:
    """Yield the rejections of a batch of a topic, in the order of their offsets."""
    for i in np.flatnonzero(outcome.records > DUPLICATE):
        reason = REASONS[outcome.reasons[i]]
        offset, size = int(batch.offsets[i]), int(batch.sizes[i])
        yield Rejection(topic, batch.partition, offset, reason, size)
