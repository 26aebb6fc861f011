"""How fast a device is: reports drawn, and ratings replayed into encoded events, per second."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from producers.replay import populate, replay
from producers.store import Store
from producers.world import generate
from stream_app.privacy import registry
from stream_app.privacy.randomness import SystemSource
from tests.benchmarks.figure import Figure

REPORTS = 1_000_000
REPEATS = 5


def measure() -> list[Figure]:
    """Return rates per processor second, the best of several runs."""
    mechanism, source = registry.parse("rr:5:2"), SystemSource()
    raw_levels = np.arange(REPORTS, dtype=np.int64).astype(np.uint8) % np.uint8(5)
    drawn = _best(lambda: mechanism.release(raw_levels, source))
    compiled = _best(lambda: registry.parse("rr:5:2"))
    figures = [
        Figure("device: reports of rr:5:2 released", REPORTS / drawn / 1e6, "M/s", ">= 10"),
        Figure("device: compile and certify rr:5:2", compiled * 1e3, "ms", "<= 20"),
    ]
    world = generate(1)
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store") as store:
        population = populate(world.dataset, store.key)
        # A chunk of 8 ratings per user and message on average, as a busy service would see it,
        # cannot fill messages; whole histories can.
        for most, chunk, target in ((1, 16_384, ">= 100"), (200, 10**9, ">= 500")):

            def publish(most: int = most, chunk: int = chunk) -> None:
                for _ in replay(
                    population,
                    mechanism=mechanism,
                    store=store,
                    source=source,
                    send=lambda key, value: None,
                    epoch=20_000,
                    again=True,
                    ratings_per_message=most,
                    chunk=chunk,
                ):
                    pass

            rate = len(world.dataset) / _best(publish) / 1e3
            figures.append(
                Figure(f"device: replay, {most} per message", rate, "k ratings/s", target)
            )
    return figures


def _best(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best
