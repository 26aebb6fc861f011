"""Speed of a device: reports drawn, releases through the journal, and ratings replayed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from producers.datasets.synthetic import generate
from producers.device import requests as device
from producers.fleet.epoch_emission import emit
from producers.fleet.epoch_requests import EmissionOptions
from producers.fleet.population import Population, populate
from producers.fleet.replay import ReplayOptions, replay
from producers.journal import Journal, PersonBudget, Request
from producers.journal.release import debits_of
from stream_app.privacy import registry
from stream_app.privacy.randomness import SystemSource
from stream_app.privacy.ticket import TicketIssuer
from tests.benchmarks.figure import Figure
from tests.producers.journals import at

REPORTS = 1_000_000
REPEATS = 5
TOPIC = "murmurec.ratings.v1"
GROUP = 256
RELEASES = 10_000


def measure() -> list[Figure]:
    """Return rates per processor second, the best of several runs; syncs in wall-clock seconds."""
    return [*_drawn(), *_admission(), *_journal(), *_replayed(), *_emitted()]


def _drawn() -> list[Figure]:
    mechanism, issuer = registry.parse("rr:5:2"), TicketIssuer(SystemSource())
    issuer.admit(mechanism)
    raw_levels = np.arange(REPORTS, dtype=np.int64).astype(np.uint8) % np.uint8(5)
    drawn = _best(lambda: mechanism.release(raw_levels, issuer.ticket(mechanism, REPORTS)))
    compiled = _best(lambda: registry.parse("rr:5:2"))
    return [
        Figure("device: reports of rr:5:2 released", REPORTS / drawn / 1e6, "M/s", ">= 10"),
        Figure("device: compile and certify rr:5:2", compiled * 1e3, "ms", "<= 20"),
    ]


def _admission() -> list[Figure]:
    """The check of one release against the person's budget, with 10,000 releases on record, each in
    an epoch of its own."""
    line = device.ReportSettings(TOPIC, registry.parse("rr:5:1/2"))
    account, level = bytes(16), np.zeros(1, np.uint8)
    with tempfile.TemporaryDirectory() as folder, Journal.open(Path(folder) / "journal") as journal:
        journal.enrol([account], PersonBudget(Fraction(10**6), window=20_000, plan="adaptive"), 1)

        def request(item: int, epoch: int) -> Request:
            key = np.array([item], np.uint64)
            return device.request(level, key, line, device=account, epoch=epoch)

        for start in range(0, RELEASES, 500):
            for item in range(start, start + 500):
                for message in journal.commit([request(item, 20_000 + item)]):
                    journal.acknowledge(message.number)
        state, limits = journal._state, journal.limits
        asked = [request(RELEASES + item, 30_000 + item // 3) for item in range(1000)]
        debits_of(state, limits, asked[:1])
        started = time.perf_counter()
        for each in asked:
            debits_of(state, limits, [each])
        taken = (time.perf_counter() - started) / len(asked)
    return [Figure("device: admission after 10,000 releases", taken * 1e6, "us", "<= 200")]


def _journal() -> list[Figure]:
    """One release by itself, and 256 together: request, budget, ticket, draw, record and sync."""
    line = device.ReportSettings(TOPIC, registry.parse("rr:5:2"))
    level, devices = np.zeros(1, np.uint8), [i.to_bytes(16, "big") for i in range(1, GROUP + 1)]
    with tempfile.TemporaryDirectory() as folder, at(Path(folder) / "journal") as journal:

        def release(devices: list[bytes], item: int) -> float:
            started = time.perf_counter()
            requests = [
                device.request(
                    level, np.array([item], np.uint64), line, device=device_id, epoch=20_000
                )
                for device_id in devices
            ]
            messages = journal.commit(requests)
            taken = time.perf_counter() - started
            for message in messages:
                journal.acknowledge(message.number)
            return taken

        rounds = [
            sorted(release(devices[:1], 200 * r + i) for i in range(200)) for r in range(REPEATS)
        ]
        group = min(release(devices, 10_000 + item) for item in range(100))
    return [
        Figure("device: one release, synced, p50", min(r[100] for r in rounds) * 1e3, "ms", "<= 3"),
        Figure("device: one release, synced, p99", min(r[198] for r in rounds) * 1e3, "ms"),
        Figure("device: 256 events, one sync", GROUP / group / 1e3, "k events/s", ">= 40"),
    ]


def _replayed() -> list[Figure]:
    figures = []
    line = device.ReportSettings(TOPIC, registry.parse("rr:5:2"))
    world = generate(1)
    with tempfile.TemporaryDirectory() as folder, at(Path(folder) / "journal") as journal:
        population = populate(world.dataset, journal.key)
        # A chunk of 8 ratings per user and message on average, as a busy service would see it,
        # cannot fill messages; whole histories can.
        for most, chunk, target in ((1, 16_384, ">= 100"), (200, 10**9, ">= 500")):

            def publish(most: int = most, chunk: int = chunk) -> None:
                for _ in replay(
                    population,
                    line,
                    journal=journal,
                    send=lambda message: journal.acknowledge(message.number),
                    epoch=20_000,
                    options=ReplayOptions(republish=True, ratings_per_message=most, chunk=chunk),
                ):
                    pass

            rate = len(world.dataset) / _best(publish) / 1e3
            figures.append(
                Figure(f"device: replay, {most} per message", rate, "k ratings/s", target)
            )
    return figures


def _emitted() -> list[Figure]:
    """Whole epochs: 2000 items of 3000 devices, presence protected."""
    world, scope = generate(1), np.arange(1, 2001, dtype=np.uint64)
    line = device.ReportSettings(TOPIC, registry.parse("cell:5:2"))

    def publish(population: Population, journal: Journal) -> None:
        for _ in emit(
            population,
            line,
            journal=journal,
            send=lambda message: journal.acknowledge(message.number),
            epoch=20_000,
            options=EmissionOptions(scope, republish=True),
        ):
            pass

    with tempfile.TemporaryDirectory() as folder, at(Path(folder) / "journal") as journal:
        population = populate(world.dataset, journal.key)
        journal.meet(population.devices)
        taken = _best(lambda: publish(population, journal), 2)
    cells = len(scope) * len(population.devices)
    return [Figure("device: cells of whole epochs", cells / taken / 1e6, "M reports/s")]


def _best(run: Callable[[], object], repeats: int = REPEATS) -> float:
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best
