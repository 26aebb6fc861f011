"""A demo from start to end: set up, replay the ratings, compare with the log, report, stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from rich.console import Console

from producers.datasets import load as datasets
from producers.datasets import synthetic as world
from producers.device.requests import ReportSettings
from producers.fleet.replay import Pace, ReplayOptions, ReplayProgress, replay
from producers.publishing import OutboxRelay, Publisher
from stream_app.cli import output
from stream_app.cli.demo import report, view
from stream_app.cli.demo.ground_truth import GroundTruth, TrueRatings
from stream_app.cli.demo.query_load import QueryLoad
from stream_app.cli.demo.report import Figures
from stream_app.cli.demo.sample_answers import sample_answers
from stream_app.cli.demo.setup import DemoSetup, prepare
from stream_app.cli.device.mechanism_options import hides_presence, mechanism_from, scale_from
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.privacy import registry
from stream_app.privacy.adjacency import Adjacency
from stream_app.replay.recompute import recompute
from stream_app.settings import Settings
from stream_app.wire import EPOCH_SECONDS


@dataclass(frozen=True)
class DemoOptions:
    """The options of the command."""

    data: Path | None
    seconds: float
    mechanism: str
    epsilon: str | None
    scale: tuple[float, float, float] | None
    ratings: int
    plain: bool
    keep: bool
    json_file: Path | None


def run(options: DemoOptions, settings: Settings) -> None:
    """Run the demo; raises UserError when something the report claims does not hold."""
    console = output.console()
    with ExitStack() as stack:
        stack.enter_context(_terminated_like_interrupted())
        figures = Figures(index=settings.index)
        dataset = _dataset(options, figures)
        mechanism = mechanism_from(options.mechanism, options.epsilon, dataset.scale)
        if hides_presence(mechanism):
            showing = registry.families(Adjacency.VALUE, Adjacency.NOTHING)
            raise UserError(
                f"{mechanism.id} hides which items were rated, and the devices of a demo send when "
                f"they rate: choose {' or '.join(showing)} (murmurec replay --emission epoch "
                "sends whole epochs)"
            )
        figures.mechanism, figures.adjacency = mechanism.id, str(mechanism.adjacency)
        figures.epsilon = None if mechanism.epsilon is None else float(mechanism.epsilon)
        figures.data = dataset.name
        stage = prepare(stack, console, settings, dataset, mechanism)
        figures.rows = stage.population.rows + stage.population.unreadable
        _stream(stage, options, figures)
        _finish(stage, options, figures)
        if options.json_file is not None:
            figures.write(options.json_file)
            console.print(f"written to {options.json_file}")
        if options.keep:
            _wait(console, stage)
    if figures.model_digest != figures.log_digest:
        raise UserError("the worker's state is not that of the log: please report this as a defect")


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that no process is left running."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _dataset(options: DemoOptions, figures: Figures) -> datasets.Dataset:
    if options.data is not None:
        return datasets.load(options.data, scale_from(options.scale)).in_time_order()
    made = world.generate(
        seed=1,
        ratings=options.ratings,
        # About as many ratings a user and an item as MovieLens-1M has: taste can be learned.
        users=max(130, options.ratings // 150),
        items=max(320, min(2000, options.ratings // 375)),
        factors=3,
    )
    figures.rmse_best_possible = made.best_rmse
    return made.dataset.in_time_order()


def _stream(stage: DemoSetup, options: DemoOptions, figures: Figures) -> None:
    """Replay the ratings while one process sends queries and the live view refreshes."""
    truth = TrueRatings(stage.population, stage.dataset.ratings)
    follower = GroundTruth(stage.deployment, truth)
    # Every seventh device: neither the first to rate nor the last.
    queries = QueryLoad(stage.bootstrap, stage.topics.prefix, stage.population.devices[::7])
    line = Publisher(
        clients.producer(stage.connection, linger_ms=20, message_timeout_ms=0),
        stage.topics.ratings,
    )
    url = stage.worker.url
    stage.console.print(
        f"metrics {url}/metrics   state {url}/state   "
        f"queries {url}/recommendations/<pseudonym>?k=10   (while the demo runs)",
        soft_wrap=True,
    )
    follower.start()
    try:
        with view.opened(stage.console, options.plain) as shown, line:
            watched = 0.0
            began = time.monotonic()
            for progress in _rating(stage, options.seconds, line):
                _count(figures, progress, began)
                if time.monotonic() - watched >= 0.5:
                    watched = time.monotonic()
                    _watch(stage, follower, queries, figures)
                    shown.show(figures)
            line.close()
            figures.ratings_per_second = figures.published / (time.monotonic() - began)
            if line.failed:
                raise UserError(f"{line.failed} events were not accepted: {line.first_error}")
            state = stage.worker.wait_for(_log_ends(stage))
            follower.wait_for(state["cut"])
            time.sleep(1.1)  # one more round of the worker's one-second gauges
            _watch(stage, follower, queries, figures)
            shown.show(figures, final=True)
    finally:
        queries.stop()
        follower.stop()


def _rating(stage: DemoSetup, seconds: float, line: Publisher) -> Iterator[ReplayProgress]:
    try:
        courier = OutboxRelay(stage.journal, line)
        yield from replay(
            stage.population,
            ReportSettings(stage.topics.ratings, stage.mechanism),
            journal=stage.journal,
            send=courier.send,
            epoch=int(time.time()) // EPOCH_SECONDS,
            options=ReplayOptions(pace=Pace(stage.population.rows / seconds)),
            make_room=courier.make_room,
        )
    except ValueError as error:
        raise UserError(str(error)) from None


def _count(figures: Figures, progress: ReplayProgress, began: float) -> None:
    figures.published = progress.published
    figures.refused = progress.refused
    figures.ratings_per_second = progress.published / max(1e-9, time.monotonic() - began)


def _watch(stage: DemoSetup, follower: GroundTruth, queries: QueryLoad, figures: Figures) -> None:
    """Update the figures from /metrics, the ground truth and the query load."""
    stage.worker.check()
    if follower.failure is not None:
        raise follower.failure
    found = stage.worker.metrics()
    unit = follower.unit

    def sample(name: str) -> float:
        return found.get(name, nan)

    def count(name: str) -> int:
        return int(sample(name)) if isfinite(sample(name)) else 0

    figures.applied = count("ratings_total{outcome=learned}")
    figures.held_out = count("ratings_total{outcome=held_out}")
    figures.duplicates = count("ratings_total{outcome=duplicate}")
    figures.rejected = count("events_total{outcome=rejected}")
    figures.cut = count("cut_number")
    figures.rmse_reported = sample("prediction_rmse{kind=reported,window=all}") * unit
    figures.rmse_debiased = sample("prediction_rmse{kind=debiased,window=all}") * unit
    figures.kl_nats = sample("leakage_kl_nats")
    figures.worker_rss_mb = sample("process_resident_memory_bytes") / 1e6
    figures.rmse_true, figures.rmse_baseline = follower.rmse_true, follower.rmse_baseline
    figures.query_unanswered = queries.unanswered
    figures.query_p50_ms, figures.query_p99_ms = queries.quantile(0.5), queries.quantile(0.99)
    recalls = [value for name, value in found.items() if name.startswith("query_recall_ratio{")]
    figures.recall = recalls[0] if recalls else nan


def _log_ends(stage: DemoSetup) -> tuple[int, ...]:
    consumer = clients.consumer(stage.connection)
    try:
        return tuple(
            clients.offsets(consumer, TopicPartition(stage.topics.ratings, p))[1]
            for p in range(stage.settings.partitions)
        )
    finally:
        consumer.close()


def _finish(stage: DemoSetup, options: DemoOptions, figures: Figures) -> None:
    """Compare the worker with the log, and show what three users are recommended."""
    state: dict[str, Any] = stage.worker.state()
    with stage.console.status("recomputing the state from the log"):
        began = time.monotonic()
        replica = recompute(
            stage.deployment,
            state["cut"],
        )
        figures.rebuild_seconds = time.monotonic() - began
    figures.cut, figures.model_digest = state["cut"], state["model_digest"]
    figures.log_digest = replica.model_digest()
    figures.index = state["index"]
    plain = options.plain or not stage.console.is_terminal
    report.show_sample_answers(stage.console, sample_answers(stage), plain)
    report.show_figures(stage.console, figures)


def _wait(console: Console, stage: DemoSetup) -> None:
    """Keep everything running until Ctrl-C, and print commands to try."""
    user = str(stage.dataset.users[0])
    port = stage.worker.url.rsplit(":", 1)[1]
    scale, (family, _, epsilon) = stage.population.scale, stage.mechanism.id.split(":")[:3]
    console.print("\nbroker and worker stay up until Ctrl-C; in another terminal:")
    for command in (
        f"export MURMUREC_BOOTSTRAP_SERVERS={stage.bootstrap} "
        f"MURMUREC_TOPIC_PREFIX={stage.topics.prefix}",
        f"export MURMUREC_ADMIN_PORT={port} MURMUREC_MECHANISMS={stage.mechanism.id} "
        f"MURMUREC_MODEL={stage.settings.model}",
        f"murmurec ask --user {user} --journal {stage.folder}/device.journal -k 10",
        f"murmurec ask --device {stage.population.devices[0].hex()} -k 10 --http",
        f"curl {stage.worker.url}/state",
        f"murmurec publish --user me --item 1 --rating {scale.maximum:g} "
        f"--scale {scale.minimum:g} {scale.maximum:g} {scale.step:g} "
        f"--mechanism {family} --journal {stage.folder}/me.journal"
        + ("" if epsilon == "inf" else f" --epsilon {epsilon}"),
        "murmurec state digest",
    ):
        console.print(f"  {command}", soft_wrap=True)
    stage.journal.close()  # so that the commands above can open it
    try:
        while True:
            stage.worker.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        console.print(f"stopping (worker {stage.worker.process.pid}, this process {os.getpid()})")
