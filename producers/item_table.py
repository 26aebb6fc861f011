"""The public item table as a device reads it: the mean rating of every item, and of none known.

    mean = 1 + code / 50      on the internal scale 1 .. 5; an item that is not in it: 3.5

A device may choose by it how it reports (over which groups of levels), because it is public and the
same for everybody. It need not be true: every choice has the same epsilon.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from numpy.typing import NDArray

from stream_app.errors import Refusal
from stream_app.wire import MEAN_CODES_PER_STAR, ItemTablePage, WireError, decode_message

UNKNOWN_MEAN = 3.5
_LOWEST, _HIGHEST = 1.0, 5.0
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Item keys in order, (n,) uint64, and their mean ratings beside them, (n,) float64."""

    items: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    known_means: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, pages: Iterable[ItemTablePage]) -> ItemTable:
        """Return the table of these pages; a page that is not in order is passed over."""
        items, codes = [np.empty(0, np.uint64)], [np.empty(0, np.uint8)]
        for page in pages:
            if len(page.items) == 8 * len(page.means):
                items.append(np.frombuffer(page.items, "<u8").astype(np.uint64))
                codes.append(np.frombuffer(page.means, np.uint8))
        keys, first = np.unique(np.concatenate(items), return_index=True)
        means = _LOWEST + np.concatenate(codes)[first] / MEAN_CODES_PER_STAR
        return cls(keys, np.minimum(means, _HIGHEST))

    def __len__(self) -> int:
        return len(self.items)

    def means(self, items: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the public mean of each item (n,), `UNKNOWN_MEAN` where there is none."""
        if not len(self.items):
            return np.full(len(items), UNKNOWN_MEAN)
        places = np.minimum(np.searchsorted(self.items, items), len(self.items) - 1)
        return np.where(self.items[places] == items, self.known_means[places], UNKNOWN_MEAN)


def read(consumer: Consumer, topic: str) -> ItemTable:
    """Return the table as it stands in the topic now; empty where there is no topic yet.

    The consumer reports ends (`clients.consumer(partition_eof=True)`) and is assigned, never
    subscribed: it joins no group. Raises `Refusal` where the broker falls silent.
    """
    place = TopicPartition(topic, 0)
    try:
        low, high = consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECONDS)
    except KafkaException as error:
        if error.args[0].code() in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
        ):
            return ItemTable()
        raise Refusal(f"{topic}: cannot be read ({error.args[0].str()})") from None
    pages: dict[int, ItemTablePage] = {}
    consumer.assign([TopicPartition(topic, 0, low)])
    deadline, here = time.monotonic() + _PATIENCE_SECONDS, low
    while here < high:
        message = consumer.poll(0.2)
        failed = None if message is None else message.error()
        if message is not None and failed is None:
            here = (message.offset() or 0) + 1
            try:
                page = decode_message(ItemTablePage, message.value())
            except WireError:
                continue
            pages[page.page] = page
        elif failed is not None and failed.code() == KafkaError._PARTITION_EOF:
            break
        elif time.monotonic() > deadline:
            raise Refusal(f"{topic}: could not be read to its end in {_PATIENCE_SECONDS:g} seconds")
    consumer.unassign()
    return ItemTable.of(pages.values())
