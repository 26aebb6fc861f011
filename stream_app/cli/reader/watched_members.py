"""Looks at workers and broker again and again, each in a thread of its own.

A member that hangs delays no other: what is shown of it is that it has not answered.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from http.client import HTTPException
from typing import Generic, TypeVar

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.broker_answers import ends
from stream_app.kafka.clients import Connection
from stream_app.monitoring.exposition import Exposition
from stream_app.monitoring.live_frame import NAMES, BrokerLook, Frame, Watched, WorkerLook, frame
from stream_app.monitoring.standing_alerts import standing
from stream_app.operations.watching.workers import page
from stream_app.replay.log_bounds import cuts
from stream_app.wire import Topics

EVERY_SECONDS = 1.0
_PAGE_SECONDS = 3.0
_OLD_SECONDS = 5.0
_NEWEST = 50  # entries of the cut log among which the newest cut is sought
_NO_ANSWER = "no answer"
Seen = TypeVar("Seen")


class _Source(Generic[Seen]):
    """One member: what was seen of it in the newest two looks, and when."""

    def __init__(self, look: Callable[[], Seen], stopped: threading.Event) -> None:
        self._look, self._stopped = look, stopped
        self._seen: tuple[tuple[float, Seen], ...] = ()  # the newest first; replaced whole
        # It may wait for a member that hangs: nobody waits for it.
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            found = self._look()
            self._seen = ((time.time(), found), *self._seen[:1])
            self._stopped.wait(EVERY_SECONDS)

    def seen(self) -> list[Seen]:
        """Return what was seen, the newest first; nothing of a member that does not answer."""
        seen = self._seen
        old = not seen or time.time() - seen[0][0] > _OLD_SECONDS
        return [] if old else [found for _, found in seen]


class Sources:
    """The workers at `urls` and the broker, if there is one; close it in the end."""

    def __init__(
        self, urls: Sequence[str], token: str | None, connection: Connection | None, names: Topics
    ) -> None:
        self._stopped = threading.Event()
        self._workers = {
            url: _Source(partial(look_at_worker, url, token), self._stopped)
            for url in dict.fromkeys(urls)
        }
        self._broker = _Source(partial(look_at_broker, connection, names), self._stopped)

    def frame(self) -> Frame:
        """Return what is shown of the newest looks."""
        now = time.time()
        away = WorkerLook(now, None, _NO_ANSWER)
        workers = {url: Watched(*(each.seen() or [away])) for url, each in self._workers.items()}
        broker = self._broker.seen() or [BrokerLook(now, None, _NO_ANSWER)]
        return frame(workers, standing(workers), *broker)

    def looked(self, times: int) -> bool:
        """Return whether every member was looked at so often; 2 times at most are known."""
        known = len(self._broker.seen()), *(len(each.seen()) for each in self._workers.values())
        return min(known) >= times

    def close(self) -> None:
        """Begin no further look."""
        self._stopped.set()


def look_at_worker(url: str, token: str | None) -> WorkerLook:
    """Return the numbers of a worker, or why there are none."""
    try:
        text = page(url, "/metrics", token, _PAGE_SECONDS).decode(errors="replace")
        numbers = Exposition(text, NAMES)
        if numbers.number("ready") is None:
            return WorkerLook(time.time(), None, "no worker: its page has no murmurec_ready")
        waiting = ""
        if not numbers.number("ready"):
            reply = json.loads(page(url, "/readyz", token, _PAGE_SECONDS, also=(503,)))
            waiting = str(reply.get("waiting_for") or "")
    except UserError as refused:
        return WorkerLook(time.time(), None, str(refused))
    except (OSError, HTTPException, ValueError):
        return WorkerLook(time.time(), None, _NO_ANSWER)
    return WorkerLook(time.time(), numbers, waiting)


def look_at_broker(connection: Connection | None, names: Topics) -> BrokerLook:
    """Return how long the log is and how much of it no cut covers, or why that is not known."""
    if connection is None:
        return BrokerLook(time.time(), None, "no Kafka is configured")
    reached: list[int] = []
    try:
        clients.describe_cluster(connection, _PAGE_SECONDS)
        for shard in names.of_shards():
            newest: tuple[int, ...] = ()
            for cut, _ in cuts(connection, shard.cuts, newest=_NEWEST):
                newest = cut.end_offsets
            reached += [0] * (len(newest) - len(reached))
            own = slice(shard.shard, len(newest), shard.shards)
            reached[own] = newest[own]
        with closing(clients.consumer(connection)) as consumer:
            last = [place.offset for place in ends(consumer, names.ratings)]
    except UserError as fault:
        return BrokerLook(time.time(), None, str(fault))
    covered = sum(min(end, at) for end, at in zip(last, reached, strict=False))
    return BrokerLook(time.time(), sum(last), waiting=sum(last) - covered)
