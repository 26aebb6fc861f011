"""What is told of records that were set aside: position, reason and size, never the payload.

A record set aside by decoding, by a jump of its sequence number or because its device is forgotten
gives one `Rejection`; a duplicate gives none. A replay gives the same ones again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_app.log.ledger import DUPLICATE
from stream_app.state.replica import Outcome
from stream_app.wire import REASONS, Batch, Rejection


def rejected(topic: str, batch: Batch, outcome: Outcome) -> Iterator[Rejection]:
    """Yield what is to be told of a batch of a topic, in the order of its offsets."""
    for i in np.flatnonzero(outcome.records > DUPLICATE):
        reason = REASONS[outcome.reasons[i]]
        offset, size = int(batch.offsets[i]), int(batch.sizes[i])
        yield Rejection(topic, batch.partition, offset, reason, size)
