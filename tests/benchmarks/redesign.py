"""Changes of settings on a running deployment: what readers and devices notice.

    in place   two workers of default size, RATE ratings and 25 queries a second; `config apply`
               adds a mechanism, makes the head longer and changes the clip, one after the other
    beside     two workers with a state of MURMUREC_STATE_GIB GiB (default 1) that a log has filled,
               under the same load; `config apply --rebuild beside` gives them other factors

A query without a reply of any status is lost; so is a rating that was confirmed and is neither
applied nor rejected in the state that the log alone gives.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from stream_app.agents.warmup import warm_up
from stream_app.broker.local import free_ports
from stream_app.broker.resolve import running as broker_running
from stream_app.cli.demo.demo_processes import WorkerProcess, running
from stream_app.deployment import spec_from_settings
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.operations import redesign
from stream_app.operations.session import Session
from stream_app.operations.verify import verify
from stream_app.settings import Settings, load
from stream_app.wire import Topics
from tests.benchmarks.durability import environment
from tests.benchmarks.figure import Figure
from tests.benchmarks.large_state import MECHANISM, ratings_at
from tests.benchmarks.pipeline import Load, messages, publish
from tests.fixtures.attacked import Probe, log_ends
from tests.fixtures.query_load import QueryLoad
from tests.fixtures.waiting import until

RATE, WINDOW_SECONDS = 1000, 15.0
_GIB = 1 << 30
_FILLING = 6_000_000  # ratings, which touch every page of a GiB


def measure() -> list[Figure]:
    """Return every figure."""
    with ExitStack() as stack:
        settings = load()
        broker = stack.enter_context(broker_running(None, settings.cache_dir))
        figures = list(_in_place(broker.bootstrap))
        return [*figures, *_beside(broker.bootstrap)]


def _in_place(bootstrap: str) -> Iterator[Figure]:
    with _Pair(bootstrap, "place", {}) as pair:
        pair.window("no ratings")
        with ratings_at(bootstrap, pair.topics.ratings, RATE):
            pair.window("ratings")
            changed = {"mechanisms": (MECHANISM, "rr:5:2")}
            pair.apply("mechanism", **changed)
            pair.apply("head", **changed, head_items=4000)
            pair.apply("clip", **changed, head_items=4000, clip=4.0)
        yield from pair.figures("in place", "ratings")


def _beside(bootstrap: str) -> Iterator[Figure]:
    gib = float(os.environ.get("MURMUREC_STATE_GIB", "1"))
    sizes = {
        "MURMUREC_TUNING_SKETCH_BYTES": str(int(gib * _GIB / 2)),
        "MURMUREC_TUNING_SEEN_BYTES": str(int(gib * _GIB / 4)),
        "MURMUREC_TUNING_SCALARS_BYTES": str(int(gib * _GIB * 7 / 32)),
    }
    filling = Load(200, _FILLING, MECHANISM, "")
    with _Pair(bootstrap, "beside", sizes, filling) as pair:
        size = sum(pair.workers[0].state()["memory_bytes"].values())
        yield Figure(f"{gib:g} GiB beside: resident before", pair.resident("VmRSS") / size, "x")
        with ratings_at(bootstrap, pair.topics.ratings, RATE):
            pair.window("ratings")
            with Probe(pair.workers[0]) as probe:
                pair.apply("beside", beside=True, factors=16)
        yield from pair.figures(f"{gib:g} GiB beside", "ratings")
        yield Figure(
            f"{gib:g} GiB beside: most memory", pair.resident("VmHWM") / size, "x", "<= 2.2"
        )
        yield Figure(
            f"{gib:g} GiB beside: loop silent at most", 1e3 * probe.longest, "ms", "<= 100"
        )


class _Pair:
    """Two workers, and the queries to them; `window(name)` collects the times of replies."""

    def __init__(
        self, bootstrap: str, name: str, sizes: dict[str, str], filling: Load | None = None
    ) -> None:
        self._bootstrap, self._sizes, self._filling = bootstrap, sizes, filling
        self.topics = Topics(f"bench-{name}-{os.getpid()}")
        self._stack, self.workers = ExitStack(), list[WorkerProcess]()
        self._spans: dict[str, tuple[float, float]] = {}
        self._apply_seconds: dict[str, float] = {}

    def __enter__(self) -> _Pair:
        enter, connection = self._stack.enter_context, Connection(self._bootstrap)
        enter(environment(**self._sizes, MURMUREC_MECHANISMS=MECHANISM))
        create(clients.admin(connection), self.topics.table())
        if self._filling is not None:
            publish(
                self._bootstrap, self.topics.ratings, messages(self._filling, self.topics.ratings)
            )
        warm_up(spec_from_settings(load()))
        place = ["--bootstrap", self._bootstrap, "--prefix", self.topics.prefix]
        for _ in range(2):
            folder = Path(enter(tempfile.TemporaryDirectory()))
            self.workers.append(enter(running(place, free_ports(1)[0], folder)))
        for worker in self.workers:
            worker.wait_until_ready()
        self.queries = enter(QueryLoad(connection, self.topics.prefix))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def settings(self, **changed: object) -> Settings:
        """Return the settings of an operator."""
        own = load(bootstrap_servers=self._bootstrap, topic_prefix=self.topics.prefix)
        return own.model_copy(update=changed)

    def window(self, name: str) -> None:
        """Let time pass, and keep it under a name."""
        began = time.monotonic()
        time.sleep(WINDOW_SECONDS)
        self._spans[name] = began, time.monotonic()

    def apply(self, name: str, *, beside: bool = False, **changed: object) -> None:
        """Put settings into force, until both workers follow them."""
        began = time.monotonic()
        planned = redesign.plan(self.settings(**changed))
        redesign.apply(planned, "beside" if beside else "")
        wanted = planned.target.digest
        until(
            lambda: all(w.state()["design_digest"] == wanted for w in self.workers),
            f"both workers follow {name}", 600.0,
        )  # fmt: skip
        self._apply_seconds[name] = time.monotonic() - began
        self.window("after")
        self._spans[name] = began, time.monotonic()

    def resident(self, field: str) -> float:
        """Return a figure of the memory of the first worker, in bytes."""
        status = Path(f"/proc/{self.workers[0].process.pid}/status").read_text()
        return 1024.0 * next(int(r.split()[1]) for r in status.splitlines() if r.startswith(field))

    def figures(self, name: str, idle: str) -> Iterator[Figure]:
        """Yield what was lost, the times of replies against those of a window, and whether both
        workers, and the log alone, give one state."""
        counts = self.queries.settled()
        yield Figure(f"{name}: queries", counts["sent"], "")
        yield Figure(f"{name}: queries lost", counts["lost"], "", "<= 0")
        usual = self._p99(idle)
        for span in self._spans:
            if span in self._apply_seconds:
                ratio = self._p99(span) / usual
                yield Figure(f"{name}, {span}: p99 of replies", ratio, "x", "<= 3")
                yield Figure(f"{name}, {span}: until followed", self._apply_seconds[span], "s")
            elif span != "after":
                yield Figure(f"{name}, {span}: p99 of replies", 1e3 * self._p99(span), "ms")
        ends = log_ends(Connection(self._bootstrap), self.topics.ratings)
        until(
            lambda: all(sum(w.state()["positions"]) == sum(ends) for w in self.workers),
            "both workers have applied every record", 600.0,
        )  # fmt: skip
        state = self.workers[0].state()
        held = (
            state["counts"]["applied"] + state["counts"]["duplicate"] + state["counts"]["rejected"]
        )
        yield Figure(f"{name}: ratings messages lost", sum(ends) - held, "", "<= 0")
        yield Figure(f"{name}: rejected", state["counts"]["rejected"], "", "<= 0")
        urls = tuple(worker.url for worker in self.workers)
        found = verify(Session.from_settings(self.settings()), urls)
        yield Figure(f"{name}: differences from the log", len(found.differences), "", "<= 0")

    def _p99(self, span: str) -> float:
        first, last = self._spans[span]
        taken = [
            seconds
            for each, seconds in dict(self.queries.seconds).items()
            if first <= self.queries.asked[each] < last
        ]
        return float(np.quantile(taken, 0.99))
