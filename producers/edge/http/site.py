"""What every view of an edge is made from: the parts of the edge by what they do, and the pool in
which blocking calls run; and its metrics, of which no label holds a user, an item or an address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from producers.edge.catalogue.site_catalogue import Catalogue
from producers.edge.events.intake import MOST_WAITING, Intake
from producers.edge.http.contract.edge_bodies import ModelQuality, Quality
from producers.edge.http.contract.given import Bodies
from producers.edge.lists.maker import ListMaker
from producers.edge.lists.wishes import EdgeList
from producers.edge.reporting.users import Users
from producers.edge.site_terms import SiteTerms
from stream_app.web.connections import Connections, Limits

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
EVENT_ANSWERS = ("accepted", "repeated", "refused", "busy", "store")
LISTS = ("user", "users", "session", "similar", "popular", "latest", "because")
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class EdgeMetrics:
    """Everything that an edge publishes, in one registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = held = CollectorRegistry()

        def counter(name: str, text: str, label: str, values: tuple[str, ...]) -> Counter:
            made = Counter(f"murmurec_edge_{name}", text, [label], registry=held)
            for value in values:
                made.labels(value)
            return made

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"murmurec_edge_{name}", text, labels, registry=held)

        text = "Events of the site, by how they were answered."
        self._events = counter("events_total", text, "answer", EVENT_ANSWERS)
        self._lists = counter("lists_total", "Lists that were made, by kind.", "list", LISTS)
        self._seconds = {
            name: Histogram(f"murmurec_edge_{name}", text, buckets=_SECONDS, registry=held)
            for name, text in (
                ("durable_seconds", "Time from a body of events to its durable commit."),
                ("list_seconds", "Time from a request to its list."),
            )
        }
        self._gauges = {
            name: gauge(name, text)
            for name, text in (
                ("waiting_events", "Events that wait for their commit."),
                ("connections", "Open connections of clients."),
                ("ready", "1 while events are taken, else 0."),
                ("store", "1 while the store can be read and written, else 0."),
                ("accounts", "Users of the site that have an account."),
                ("exhausted", "Accounts whose budget holds no further report."),
                ("reports", "Reports that were paid for, of the books that this edge writes."),
                ("books", "Books of accounts that this edge writes."),
                ("connected", "1 once the recommender was reached, else 0."),
                ("waiting_bytes", "Sanitized bytes that the recommender has not confirmed."),
            )
        }
        self._by_model = {
            name: gauge(name, text, "model")
            for name, text in (
                ("shown_lists", "Lists that the site said were shown, by model."),
                ("clicked_lists", "Of those, lists with a click, by model."),
            )
        }

    def events(self, answer: str, count: int = 1) -> None:
        """Count events that were answered in one way."""
        self._events.labels(answer).inc(count)

    def durable(self, seconds: float) -> None:
        """Enter the time until a body was durable."""
        self._seconds["durable_seconds"].observe(seconds)

    def listed(self, kind: str, seconds: float) -> None:
        """Enter a list that was made."""
        self._lists.labels(kind).inc()
        self._seconds["list_seconds"].observe(seconds)

    def set(self, values: Mapping[str, float]) -> None:
        """Set gauges by name; what is no gauge is left out."""
        for name, value in values.items():
            if name in self._gauges:
                self._gauges[name].set(value)

    def quality(self, rows: Iterable[ModelQuality]) -> None:
        """Set what the lists of each model brought."""
        for row in rows:
            self._by_model["shown_lists"].labels(row.model).set(row.lists)
            self._by_model["clicked_lists"].labels(row.model).set(row.clicked)

    def render(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self.registry)


_THREADS = 4
T = TypeVar("T")
View = Callable[[web.Request], Any]


@dataclass(frozen=True)
class Site:
    """The parts of one edge. `shown`: takes a list that is counted. `status`: counts and what
    leaves; `quality`: figures by model; `problem`: what is missing for better lists; `writable`:
    whether the store can be written."""

    intake: Intake
    lists: ListMaker
    catalogue: Catalogue
    users: Users
    terms: SiteTerms
    shown: Callable[[EdgeList], None]
    status: Callable[[], Mapping[str, Any]]
    quality: Callable[[], Quality]
    problem: Callable[[], str | None]
    writable: Callable[[], bool]


@dataclass(frozen=True)
class Edge:
    """A site with what its interface needs. at_once: lists are made on the event loop, because
    they wait for no other process; half as many again a second as from the pool, whose threads
    share one lock."""

    site: Site
    names: frozenset[str] = frozenset()
    token: str | None = None
    at_once: bool = False
    limits: Limits = field(default_factory=Limits)
    metrics: EdgeMetrics = field(default_factory=EdgeMetrics)
    bodies: Bodies = field(default_factory=Bodies)
    pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, "murmurec-edge-http")
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "connections", Connections(self.limits))

    connections: Connections = field(init=False)

    async def run(self, call: Callable[..., T], *given: Any) -> T:
        """Return what a blocking call gives, made in the pool."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, call, *given)

    async def ready(self) -> bool:
        """Return whether events are taken now."""
        return self.site.intake.waiting < MOST_WAITING and await self.run(self.site.writable)


EDGE: Final = web.AppKey("edge", Edge)
