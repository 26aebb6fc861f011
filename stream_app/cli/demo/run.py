"""A demo from start to end: set up, replay the ratings, compare with the log, report, stop."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np
from confluent_kafka import TopicPartition

from producers.fleet.replay import Pace, ReplayOptions, ReplayProgress, replay
from producers.publishing import OutboxRelay, Publisher
from stream_app.cli.demo import story
from stream_app.cli.demo.demo_options import DemoOptions
from stream_app.cli.demo.demo_processes import terminated_like_interrupted
from stream_app.cli.demo.quality import HeldBack, judged, server_lists
from stream_app.cli.demo.setup import DemoSetup, generated_ratings, prepare
from stream_app.cli.demo.story import write_facts
from stream_app.cli.device.mechanism_options import mechanism_from, today
from stream_app.cli.output import progress, refusing, say, status
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.replay.recompute import Replay
from stream_app.settings import Settings
from stream_app.wire import Batch


@dataclass
class Figures:
    """Counts of ratings: of the population, published, refused by devices, of visitors of the page,
    and by what the worker did with them; digests of the worker's state and of the log's."""

    rows: int = 0
    published: int = 0
    refused: int = 0
    visitors: int = 0
    applied: int = 0
    duplicates: int = 0
    held_out: int = 0
    model_digest: str = ""
    log_digest: str = ""
    rebuild_seconds: float = 0.0

    @property
    def is_accounted_for(self) -> bool:
        """Whether every rating is found at the worker or was refused."""
        arrived = self.applied + self.duplicates + self.held_out
        whole = self.published + self.refused == self.rows
        return whole and arrived == self.published + self.visitors

    def check(self) -> None:
        """Raise UserError if a rating is lost, or if the state is not that of the log."""
        if not self.is_accounted_for:
            raise UserError(
                f"not every rating is accounted for ({self.accounts()}): please report it"
            )
        if self.model_digest != self.log_digest:
            raise UserError(
                "the worker's state is not that of the log: please report this as a defect"
            )

    def accounts(self) -> str:
        """Return where every rating is."""
        return (
            f"rows {self.rows:,} = published {self.published:,} + refused {self.refused:,}; "
            f"published + {self.visitors:,} of visitors of the page = applied {self.applied:,} + "
            f"held out {self.held_out:,} + duplicate {self.duplicates:,}"
        )

    def recomputed(self) -> str:
        """Return whether the worker has the state of the log."""
        equal = "equal" if self.model_digest == self.log_digest else f"DIFFERENT: {self.log_digest}"
        return f"state recomputed from the log in {self.rebuild_seconds:.1f} s: {equal}"


def run_reports(options: DemoOptions, settings: Settings) -> None:
    """Run the demo; raises UserError when something the report claims does not hold."""
    with ExitStack() as stack:
        stack.enter_context(terminated_like_interrupted())
        dataset = generated_ratings(options)
        mechanism = mechanism_from("rr", options.epsilon, dataset.scale)
        held = HeldBack(dataset)
        demo = prepare(stack, settings, held.published, mechanism, options)
        figures = Figures(rows=demo.population.rows + demo.population.unreadable)
        count, devices = demo.population.rows, len(demo.population.devices)
        show = partial(write_facts, demo.folder, "local", devices, count)
        show(None)
        _stream(demo, options, figures)
        found = judged(held, demo.population, partial(server_lists, demo))
        show(found.quality)
        say(story.of_reports(figures.published, devices, mechanism))
        say(story.of_lists(found))
        say(figures.recomputed())
        if options.stays:
            _wait(demo)
    figures.check()
    found.check()


def _stream(demo: DemoSetup, options: DemoOptions, figures: Figures) -> None:
    """Replay the ratings; then recompute the state from the log."""
    line = Publisher(
        clients.producer(demo.connection, linger_ms=20, message_timeout_ms=0), demo.topics.ratings
    )
    with progress("ratings sent") as advance, line:
        for step in _replay(demo, options.seconds, line):
            demo.worker.check()
            figures.published, figures.refused = step.published, step.refused
            advance(step.rows, step.total)
        line.close()
        if line.failed:
            raise UserError(f"{line.failed} events were not accepted: {line.first_error}")
    with status("recomputing the state from the log"):
        demo.worker.wait_for(_end_offsets(demo))
        time.sleep(1.1)  # one more round of the worker's one-second gauges
        _count(demo, figures)
        _recompute(demo, figures)


def _replay(demo: DemoSetup, seconds: float, line: Publisher) -> Iterator[ReplayProgress]:
    relay = OutboxRelay(demo.journal, line)
    with refusing(UserError):
        yield from replay(
            demo.population,
            demo.reporting,
            journal=demo.journal,
            send=relay.send,
            epoch=today(),
            options=ReplayOptions(pace=Pace(demo.population.rows / seconds)),
            make_room=relay.make_room,
        )


def _count(demo: DemoSetup, figures: Figures) -> None:
    """Take from /metrics what the worker did with the ratings."""
    found = demo.worker.metrics()
    figures.applied, figures.held_out, figures.duplicates = (
        int(found.get(f"ratings_total{{outcome={outcome}}}", 0))
        for outcome in ("learned", "held_out", "duplicate")
    )


def _end_offsets(demo: DemoSetup) -> tuple[int, ...]:
    """Return the end offset of every partition of the rating topic."""
    consumer = clients.consumer(demo.connection)
    try:
        return tuple(
            clients.offsets(consumer, TopicPartition(demo.topics.ratings, partition))[1]
            for partition in range(demo.settings.partitions)
        )
    finally:
        consumer.close()


def _recompute(demo: DemoSetup, figures: Figures) -> None:
    """Recompute the worker's state from the log and record both digests; count the ratings of
    others than the population, who are visitors of the page."""
    halves = b"".join(device[:8] for device in demo.population.devices)
    population = np.frombuffer(halves, "<u8")

    def count_visitors(batch: Batch, _: object) -> None:
        others = ~np.isin(batch.devices[:, 0], population)
        figures.visitors += int(batch.counts[others].sum())

    state, began = demo.worker.state(), time.monotonic()
    replica = (
        Replay(demo.deployment, each_batch=count_visitors).from_origin(at_cut=state["cut"]).replica
    )
    figures.rebuild_seconds = time.monotonic() - began
    figures.model_digest, figures.log_digest = state["model_digest"], replica.model_digest()


def _wait(demo: DemoSetup) -> None:
    """Keep everything running until Ctrl-C."""
    say("broker, worker and page stay up until Ctrl-C")
    demo.journal.close()  # for commands of another terminal
    try:
        while True:
            demo.worker.check()
            if demo.gateway is not None:
                demo.gateway.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        say(f"stopping (worker {demo.worker.process.pid}, this process {os.getpid()})")
