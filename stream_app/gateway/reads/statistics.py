"""A worker's public numbers, as the stream shows them; aggregates alone, without a person or item.

    /metrics    the numbers of `monitoring/metric_table.py`; one that is not known yet is null
    /readyz     what the worker waits for

    ratings            learned and held out since the worker started
    rmse               debiased, over the newest 10,000 ratings; baseline: the running item means
    ndcg               nDCG@10 of the served list at later visits, beside the most popular items
    ndcg_error         standard error of the served lists' nDCG@10
    list_devices       by how many people's later visits the lists are measured
    lag_records, lag_seconds    what is published and not yet applied, and the age of the oldest
    kl_nats            between the errors on learned and on held-out ratings
    drift              rmse minus the debiased RMSE over all ratings, in stars: above 0 the newest
                       ratings are predicted worse than those before

/state is not read: a worker hashes its whole state for it.
"""

from __future__ import annotations

import asyncio
from collections import deque

import aiohttp
import msgspec

from stream_app.gateway.contract.bodies import StreamStatus
from stream_app.monitoring.exposition import Exposition

_SECONDS = 2.0
_MOST_BYTES = 1 << 20
_RATE_SECONDS = 5.0
_MOST_SENTENCE = 240
NAMES = {
    f"murmurec_{name}"
    for name in (
        *("ready", "cut_number", "ratings_total", "devices", "prediction_rmse"),
        *("prediction_rmse_baseline", "list_ndcg_ratio", "list_method", "leakage_kl_nats"),
        *("list_devices", "list_ndcg_error_ratio", "consumer_lag_records", "consumer_lag_seconds"),
        "privacy_mode_info",
    )
}


class NotAWorker(ValueError):
    """A reply that no worker gives."""


class Numbers(Exposition):
    """The samples of a worker's /metrics page that the stream shows; raises `NotAWorker` for
    another page."""

    def __init__(self, text: str) -> None:
        try:
            super().__init__(text, NAMES)
        except ValueError as error:
            raise NotAWorker(str(error)) from None
        if self.number("ready") is None:
            raise NotAWorker("the page has no murmurec_ready")


class Rate:
    """How many ratings a second were learned over the newest seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def per_second(self, ratings: int | None, now: float) -> float | None:
        """Enter a count at a time in seconds; None for the first one, and after a restart."""
        if ratings is None or (self._seen and ratings < self._seen[-1][1]):
            self._seen.clear()
        if ratings is None:
            return None
        self._seen.append((now, ratings))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _RATE_SECONDS:
            self._seen.popleft()
        began, first = self._seen[0]
        return round((ratings - first) / (now - began), 1) if now > began else None


def status_of(
    numbers: Numbers, kafka: bool, waiting_for: str | None, rate: float | None
) -> StreamStatus:
    """Return what the stream shows of a worker's numbers."""
    rmse = numbers.number("prediction_rmse", window="recent", kind="debiased")
    longer = numbers.number("prediction_rmse", window="all", kind="debiased")
    return StreamStatus(
        kafka=kafka,
        worker=True,
        ready=waiting_for is None and numbers.number("ready") == 1,
        waiting_for=waiting_for,
        cut=numbers.whole("cut_number"),
        ratings_per_second=rate,
        ratings=ratings_of(numbers),
        devices=numbers.whole("devices"),
        rmse=rmse,
        rmse_baseline=numbers.number("prediction_rmse_baseline", kind="debiased"),
        ndcg=numbers.number("list_ndcg_ratio", list="served"),
        ndcg_popular=numbers.number("list_ndcg_ratio", list="popular"),
        ndcg_error=numbers.number("list_ndcg_error_ratio"),
        list_devices=numbers.whole("list_devices"),
        list_method=numbers.label("list_method", "method"),
        kl_nats=numbers.number("leakage_kl_nats"),
        lag_records=numbers.whole("consumer_lag_records"),
        lag_seconds=numbers.number("consumer_lag_seconds"),
        drift=None if rmse is None or longer is None else rmse - longer,
        privacy=numbers.label("privacy_mode_info", "privacy_mode"),
    )


def ratings_of(numbers: Numbers) -> int | None:
    """Return how many ratings the worker has applied; None where it counts none."""
    counts = [numbers.whole("ratings_total", outcome=each) for each in ("learned", "held_out")]
    return None if None in counts else sum(each for each in counts if each is not None)


class WorkerPages:
    """Reads the two pages of a worker; `url` without a slash at the end."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url
        self._headers = {"Accept-Encoding": "identity"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    async def read(self, session: aiohttp.ClientSession) -> tuple[Numbers, str | None]:
        """Return the numbers and what the worker waits for.

        Raises aiohttp.ClientError, OSError, TimeoutError or ValueError where no worker answers.
        """
        async with asyncio.timeout(_SECONDS):
            ready = await self._page(session, "/readyz", (200, 503))
            metrics = await self._page(session, "/metrics", (200,))
        waiting_for = msgspec.json.decode(ready, type=_Ready).waiting_for
        return Numbers(metrics.decode()), waiting_for and waiting_for[:_MOST_SENTENCE]

    async def _page(
        self, session: aiohttp.ClientSession, path: str, expected: tuple[int, ...]
    ) -> bytes:
        async with session.get(
            self._url + path,
            headers=self._headers,
            allow_redirects=False,  # the token is for this address
        ) as reply:
            if reply.status not in expected:
                raise NotAWorker(f"{path} answers {reply.status}")
            body = bytearray()
            async for chunk in reply.content.iter_any():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise NotAWorker(f"{path} is longer than {_MOST_BYTES} bytes")
            return bytes(body)


class _Ready(msgspec.Struct, frozen=True):
    """The body of /readyz."""

    waiting_for: str | None
