"""Where a reader of the log of rounds may begin: it is kept without limit, and one campaign counts.

    log      plan 4 ... plan 5 ... plan 5' ... end        5' came second: it has no effect
    begin    here ^  the last plan whose number is below those of all plans after it

Read backwards in windows that double, so that the cost is that of the newest campaigns, whatever
came before. From there the state is that of the whole log where plans are written in the order of
their numbers, or two at a time. A writer of the log that forges plans can lead such a reader to one
of them until the next campaign begins; a device then meets keys that it has not pinned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from confluent_kafka import TopicPartition

from stream_app.kafka.topic_follower import Place, TopicFollower
from stream_app.wire.campaigns.round_log import Planned, decode_round
from stream_app.wire.reasons import WireError

_FIRST, _LARGEST = 16, 1024  # offsets of a window


def beginning(follower: TopicFollower, place: Place, low: int, high: int) -> tuple[int, int]:
    """Return the offset at which to begin, and the number of the campaign before it."""
    return first_needed(_backwards(follower, place, low, high), low)


def first_needed(plans: Iterable[tuple[int, int]], low: int) -> tuple[int, int]:
    """Return the offset at which to begin, and the number of the campaign before it.

    plans: (offset, number) of every plan of the log from `low`, the last one first; only as many
    are taken as decide.
    """
    least: int | None = None
    for offset, number in plans:
        if least is None:
            least = number
        elif number < least:
            return offset, number - 1
    return low, 0


def _backwards(
    follower: TopicFollower, place: Place, low: int, high: int
) -> Iterator[tuple[int, int]]:
    size = _FIRST
    while high > low:
        begin = max(low, high - size)
        follower.begin(TopicPartition(*place, begin))
        found = []
        for message in follower.up_to({place: high}):
            try:
                entry = decode_round(message.value())
            except WireError:
                continue
            if isinstance(entry, Planned):
                found.append((message.offset() or 0, entry.campaign.number))
        yield from reversed(found)
        high, size = begin, min(2 * size, _LARGEST)
