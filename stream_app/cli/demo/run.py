"""A demo from start to end: set up, replay the ratings, compare with the log, report, stop."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from math import isfinite, nan
from pathlib import Path

import numpy as np
from confluent_kafka import TopicPartition

from producers.fleet.replay import Pace, ReplayOptions, ReplayProgress, replay
from producers.publishing import OutboxRelay, Publisher
from producers.scale import Scale
from stream_app.cli.demo.demo_options import DemoOptions
from stream_app.cli.demo.demo_processes import terminated_like_interrupted
from stream_app.cli.demo.figures import Figures, accounts, line_of, recomputed, rows_of
from stream_app.cli.demo.ground_truth import GroundTruth, guessed_right
from stream_app.cli.demo.lists import story
from stream_app.cli.demo.lists.page_facts import LiveLists, PageFacts
from stream_app.cli.demo.lists.people import People
from stream_app.cli.demo.lists.privacy_off import PrivacyOffTwin
from stream_app.cli.demo.lists.quality import HeldBack, judged, server_lists
from stream_app.cli.demo.query_load import QueryLoad
from stream_app.cli.demo.setup import DemoSetup, Ratings, prepare
from stream_app.cli.device.mechanism_options import hides_presence, mechanism_from, today
from stream_app.cli.output import progress, refusing, say, status
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.monitoring.metric_table import LISTED_BY
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.replay.recompute import Replay
from stream_app.settings import Settings

_WATCH_SECONDS, _LINE_SECONDS = 0.5, 5.0


def run_reports(options: DemoOptions, file: Path | None, settings: Settings) -> None:
    """Run the demo; raises UserError when something the report claims does not hold."""
    with ExitStack() as stack:
        stack.enter_context(terminated_like_interrupted())
        ratings = Ratings.given(options, file)
        mechanism = _mechanism(options, ratings.dataset.scale)
        held = HeldBack(ratings.dataset)
        demo = prepare(stack, settings, held.published, mechanism, options)
        figures = Figures(
            rows=demo.population.rows + demo.population.unreadable,
            mechanism=mechanism.id,
            epsilon=None if mechanism.epsilon is None else float(mechanism.epsilon),
            adjacency=str(mechanism.adjacency),
            rmse_best_possible=ratings.best_rmse,
            data=ratings.dataset.name,
        )
        facts = PageFacts(demo.folder, file is None)
        count, devices = demo.population.rows, len(demo.population.devices)
        facts.update(mode="local", people=devices, ratings=count)
        people = People(held.published, ratings.favourites)
        twin = PrivacyOffTwin(demo.population, people.stars)
        lists = LiveLists(demo, people, twin, facts)
        stack.callback(lists.close)
        _stream(demo, lists, options, figures)
        found = judged(held, people, twin, partial(server_lists, demo))
        figures.quality, figures.quality_absent = found.quality, found.absent
        figures.genres = found.genres
        if right := guessed_right(people.keys, held.published.levels, mechanism):
            figures.attacker = {"with": right[1], "without": right[0]}
        facts.judged(found, figures.attacker)
        if options.verbose:
            for line in (*rows_of(figures), accounts(figures)):
                say(line)
        say(story.of_reports(figures.published, devices, mechanism))
        for line in story.of_lists(found):
            say(line)
        if right:
            say(story.of_attacker(right))
        if options.json_file is not None:
            figures.write(options.json_file)
            say(f"written to {options.json_file}")
        say(recomputed(figures))
        if options.stays:
            _wait(demo, options)
    figures.check()


def _mechanism(options: DemoOptions, scale: Scale) -> Mechanism:
    """Return the mechanism; refuses one that hides presence, which immediate messages reveal."""
    mechanism = mechanism_from(options.mechanism, options.epsilon, scale)
    if hides_presence(mechanism):
        families = registry.families(Adjacency.VALUE, Adjacency.NOTHING)
        raise UserError(
            f"{mechanism.id} hides which items were rated, and the devices of a demo send when "
            f"they rate: choose {' or '.join(families)} (murmurec replay --emission epoch sends "
            "whole epochs)"
        )
    return mechanism


def _stream(demo: DemoSetup, lists: LiveLists, options: DemoOptions, figures: Figures) -> None:
    """Replay the ratings while one process sends queries; then recompute the state from the log."""
    # Every seventh device: neither the first to rate nor the last.
    devices = demo.population.devices[::7]
    queries = QueryLoad(demo.bootstrap, demo.topics.prefix, devices, demo.folder)
    line = Publisher(
        clients.producer(demo.connection, linger_ms=20, message_timeout_ms=0), demo.topics.ratings
    )
    if options.verbose:
        url = demo.worker.url
        say(f"metrics {url}/metrics   state {url}/state   (while the demo runs)")
    try:
        with progress("ratings sent") as advance, line:
            watched, printed, began = 0.0, 0.0, time.monotonic()
            for step in _replay(demo, options.seconds, line):
                figures.published, figures.refused = step.published, step.refused
                now = time.monotonic()
                figures.ratings_per_second = step.published / max(1e-9, now - began)
                advance(step.rows, step.total)
                if now - watched >= _WATCH_SECONDS:
                    watched = now
                    _watch(demo, queries, figures)
                    lists.update(min(step.rows, demo.population.rows))
                if options.verbose and now - printed >= _LINE_SECONDS:
                    printed = now
                    say(line_of(figures))
            line.close()
            figures.ratings_per_second = figures.published / (time.monotonic() - began)
            if line.failed:
                raise UserError(f"{line.failed} events were not accepted: {line.first_error}")
        with status("recomputing the state from the log"):
            demo.worker.wait_for(_end_offsets(demo))
            time.sleep(1.1)  # one more round of the worker's one-second gauges
            _watch(demo, queries, figures)
            _recompute(demo, figures)
    finally:
        queries.stop()


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


def _watch(demo: DemoSetup, queries: QueryLoad, figures: Figures) -> None:
    """Update the figures from /metrics and the query load."""
    demo.worker.check()
    found = demo.worker.metrics()

    def sample(name: str) -> float:
        return found.get(name, nan)

    def count(name: str) -> int:
        return int(sample(name)) if isfinite(sample(name)) else 0

    figures.applied = count("ratings_total{outcome=learned}")
    figures.held_out = count("ratings_total{outcome=held_out}")
    figures.duplicates = count("ratings_total{outcome=duplicate}")
    figures.rejected = count("events_total{outcome=rejected}")
    figures.cut = count("cut_number")
    figures.rmse_reported = sample("prediction_rmse{kind=reported,window=all}") * demo.unit
    figures.rmse_debiased = sample("prediction_rmse{kind=debiased,window=all}") * demo.unit
    figures.kl_nats = sample("leakage_kl_nats")
    figures.worker_rss_mb = sample("process_resident_memory_bytes") / 1e6
    serving = (name for name in LISTED_BY if found.get(f"list_method{{method={name}}}") == 1.0)
    figures.list_method = next(serving, "")
    times = queries.milliseconds()
    answered = times[np.isfinite(times)]
    figures.query_unanswered = len(times) - len(answered)
    if len(answered):
        p50, p99 = np.quantile(answered, (0.5, 0.99), method="higher").tolist()
        figures.query_p50_ms, figures.query_p99_ms = p50, p99


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
    """Recompute the worker's state from the log, record both digests, and compare the predictions
    on the way with the true ratings."""
    truth = GroundTruth(demo.population, demo.dataset.ratings)
    state, began = demo.worker.state(), time.monotonic()
    replica = (
        Replay(demo.deployment, each_batch=truth.compare).from_origin(at_cut=state["cut"]).replica
    )
    figures.rebuild_seconds = time.monotonic() - began
    figures.cut = state["cut"]
    figures.model_digest, figures.log_digest = state["model_digest"], replica.model_digest()
    figures.visitors = truth.visitors
    figures.rmse_true, figures.rmse_baseline = truth.rmse, truth.rmse_baseline


def _wait(demo: DemoSetup, options: DemoOptions) -> None:
    """Keep everything running until Ctrl-C."""
    say("broker, worker and page stay up until Ctrl-C")
    if options.verbose:
        _show_commands(demo)
    demo.journal.close()  # so that the commands above can open it
    try:
        while True:
            demo.worker.check()
            if demo.gateway is not None:
                demo.gateway.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        say(f"stopping (worker {demo.worker.process.pid}, this process {os.getpid()})")


def _show_commands(demo: DemoSetup) -> None:
    """Print commands to try in another terminal."""
    url, scale, population = demo.worker.url, demo.dataset.scale, demo.population
    family, _, epsilon = demo.mechanism.id.split(":")[:3]
    print(
        f"""\
  export MURMUREC_BOOTSTRAP_SERVERS={demo.bootstrap} MURMUREC_TOPIC_PREFIX={demo.topics.prefix}
  export MURMUREC_ADMIN_PORT={url.rsplit(":", 1)[1]} MURMUREC_MODEL={demo.settings.model}
  export MURMUREC_MECHANISMS={",".join(demo.settings.mechanisms)}
  murmurec ask --user {demo.dataset.users[0]} --journal {demo.folder}/device.journal -k 10
  murmurec ask --device {population.devices[0].hex()} -k 10
  curl {url}/state
  murmurec device enrol --user me --journal {demo.folder}/me.journal
  murmurec publish --user me --item 1 --rating {scale.maximum:g} \
--scale {scale.minimum:g} {scale.maximum:g} {scale.step:g} --mechanism {family} \
--journal {demo.folder}/me.journal{"" if epsilon == "inf" else f" --epsilon {epsilon}"}
  murmurec state digest""",
        flush=True,
    )
