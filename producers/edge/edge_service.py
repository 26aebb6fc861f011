"""An edge put together: one store, and every part over it, started and ended in order.

start   store, intake | tables, lists | reporter      what a later one asks for is there
end     in the other order: nothing is taken that could not be written
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from sqlalchemy import func, select

from producers.daemon.conditions import Notice
from producers.edge.catalogue.site_catalogue import Catalogue
from producers.edge.events.intake import Intake
from producers.edge.events.topic_source import TopicSource
from producers.edge.http.contract.edge_bodies import Quality
from producers.edge.http.site import Site
from producers.edge.lists.maker import ListMaker
from producers.edge.lists.models import AskWorkers
from producers.edge.lists.newest_tables import READ_SECONDS, PublicTables
from producers.edge.quality.impressions import Impressions
from producers.edge.quality.model_figures import quality
from producers.edge.reporting.reporter import Reporter
from producers.edge.reporting.users import Users
from producers.edge.reporting.ways_out import ReportingOptions
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts
from producers.ranking.published import Source

_QUALITY_SECONDS, _PROBE_SECONDS = 30.0, 1.0


class _Part(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass
class Service:
    """An edge, running for the length of its block; `site` is what the interface shows of it.

    source: the deployment whose public tables are read, every `table_seconds`. reporting: what
    leaves. server: asks the workers. topic_source: reads events of the site's own topic. beside:
    what the recommender waits for, where that is known here. notice: takes sentences for the
    operator.
    """

    store: str
    terms: SiteTerms
    source: Callable[[], Source]
    reporting: ReportingOptions = field(default_factory=ReportingOptions)
    privacy_mode: str = "local"
    table_seconds: float = READ_SECONDS
    server: AskWorkers | None = None
    topic_source: Callable[[Database, SiteTerms], TopicSource] | None = None
    beside: Callable[[], str | None] = lambda: None
    notice: Notice = lambda _: None

    def __enter__(self) -> Service:
        self._topic_source: TopicSource | None = None
        self._measuring, self._measured_at = threading.Lock(), -float("inf")
        self._probing, self._probed_at = threading.Lock(), -float("inf")
        with ExitStack() as stack:
            self._open(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, stack: ExitStack) -> None:
        terms = self.terms
        self._database = database = stack.enter_context(Database(self.store))
        catalogue, intake = Catalogue(database), Intake(database, terms)
        stack.callback(intake.close)
        self._tables = PublicTables(self.source, None, self.privacy_mode, self.table_seconds)
        lists = ListMaker(database, catalogue, self._tables, terms, server=self.server)
        impressions = Impressions(database)
        self._reporter = Reporter(database, terms, self.reporting, notice=self.notice)
        parts: list[_Part] = [self._tables, lists, impressions, self._reporter]
        if self.topic_source is not None:
            self._topic_source = self.topic_source(database, terms)
            parts.append(self._topic_source)
        for part in parts:
            part.start()
            stack.callback(part.stop)
        self.site = Site(
            intake=intake,
            lists=lists,
            catalogue=catalogue,
            users=Users(database, self._reporter, terms),
            terms=terms,
            shown=impressions.shown,
            status=self._status,
            quality=self._quality,
            problem=self._problem,
            writable=self._writable,
        )

    def failure(self) -> str | None:
        """Return why this process cannot go on, None while it can."""
        error = self._reporter.failure
        return None if error is None else f"the reporter has ended ({type(error).__name__})"

    def _quality(self) -> Quality:
        """Return what the lists bring, at most `_QUALITY_SECONDS` old: every scrape asks for it."""
        with self._measuring:
            if time.monotonic() - self._measured_at >= _QUALITY_SECONDS:
                models, now_ms = self.terms.models, int(1000 * time.time())
                self._measured = quality(self._database, models, now_ms)
                self._measured_at = time.monotonic()
            return self._measured

    def _writable(self) -> bool:
        """Return whether the store can be written, as of the last second: anybody may ask."""
        with self._probing:
            if time.monotonic() - self._probed_at >= _PROBE_SECONDS:
                self._is_writable = self._database.probe()
                self._probed_at = time.monotonic()
            return self._is_writable

    def _status(self) -> Mapping[str, Any]:
        with self._database.reading() as connection:
            wanted = select(func.count()).where(accounts.c.removed.is_(None))
            count = connection.execute(wanted).scalar_one()
        found = {
            **asdict(self._reporter.status()),
            "accounts": count,
            "terms": shown_terms(self.terms),
        }
        if (source := self._topic_source) is not None:
            found["from_topic"] = {
                "taken": source.taken,
                "repeated": source.repeated,
                "refused": dict(source.refused),
                "problem": source.problem,
            }
        return found

    def _problem(self) -> str | None:
        return self.beside() or self._tables.problem or None


def shown_terms(terms: SiteTerms) -> dict[str, Any]:
    """Return the terms of accounts as an operator reads them."""
    budget = terms.budget
    window = "for life" if budget.window is None else f"in any {budget.window} days"
    return {
        "mechanism": terms.mechanism.id,
        "protected": terms.mechanism.protected,
        "public": terms.mechanism.observed,
        "budget_of_a_user": f"epsilon {budget.epsilon}, delta {budget.delta}, {window}",
        "models": list(terms.models),
    }
