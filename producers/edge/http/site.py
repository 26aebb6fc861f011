"""What every view of an edge is made from: the parts of the edge by what they do, and the pool in
which blocking calls run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from aiohttp import web

from producers.edge.catalogue.site_catalogue import Catalogue
from producers.edge.events.intake import MOST_WAITING, Intake
from producers.edge.http.contract.edge_bodies import Quality
from producers.edge.http.contract.given import Bodies
from producers.edge.http.edge_metrics import EdgeMetrics
from producers.edge.lists.maker import ListMaker
from producers.edge.lists.wishes import EdgeList
from producers.edge.reporting.users import Users
from producers.edge.site_terms import SiteTerms
from stream_app.web.connections import Connections, Limits

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
