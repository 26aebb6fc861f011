"""A demo from start to end: set up, replay the ratings, compare with the log, report, stop."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from math import isfinite, nan

import numpy as np
from confluent_kafka import TopicPartition

from producers.datasets import load as datasets
from producers.datasets import synthetic
from producers.fleet.replay import Pace, ReplayOptions, ReplayProgress, replay
from producers.publishing import OutboxRelay, Publisher
from producers.scale import Scale
from stream_app.cli.demo import campaign_run as campaign
from stream_app.cli.demo.demo_options import DemoOptions
from stream_app.cli.demo.demo_processes import open_page, terminated_like_interrupted
from stream_app.cli.demo.figures import Figures, live_view, show_accounts
from stream_app.cli.demo.ground_truth import GroundTruth
from stream_app.cli.demo.quality import HeldBack
from stream_app.cli.demo.query_load import QueryLoad
from stream_app.cli.demo.sample_lists import DemoLists, Tastes, show_sample_answers
from stream_app.cli.demo.setup import DemoSetup, prepare
from stream_app.cli.device.mechanism_options import (
    hides_presence,
    mechanism_from,
    positive_fraction,
    scale_from,
    today,
)
from stream_app.cli.output import notice, refusing, say
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.monitoring.metric_table import LISTED_BY
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.replay.recompute import Replay
from stream_app.settings import Settings

_WATCH_SECONDS = 0.5


def _page_is_up(options: DemoOptions, url: str) -> None:
    say(f"the page: {url}   ({'until Ctrl-C' if options.stays else 'while the demo runs'})")
    if options.open_page:
        open_page(url)


def run_sums(options: DemoOptions, settings: Settings) -> None:
    """Run the demo of a campaign; raises UserError when something does not add up."""
    with ExitStack() as stack:
        stack.enter_context(terminated_like_interrupted())
        say("no page: it is for ratings, and a campaign sends none")
        dataset, _, _ = _dataset(options)
        epsilon = positive_fraction("--epsilon", options.epsilon or "2")
        figures = campaign.run_campaign(stack, settings, dataset, epsilon)
        campaign.show(figures)
        if options.json_file is not None:
            options.json_file.write_text(json.dumps(asdict(figures), indent=1) + "\n")
            say(f"written to {options.json_file}")


def run(options: DemoOptions, settings: Settings) -> None:
    """Run the demo; raises UserError when something the report claims does not hold."""
    plain = options.plain or not sys.stdout.isatty()
    with ExitStack() as stack:
        stack.enter_context(terminated_like_interrupted())
        dataset, best_rmse, tastes = _dataset(options)
        mechanism = _mechanism(options, dataset.scale)
        held = HeldBack(dataset)
        opened = partial(_page_is_up, options)
        demo = prepare(stack, settings, held.published, mechanism, opened=opened)
        figures = Figures(
            rows=demo.population.rows + demo.population.unreadable,
            mechanism=mechanism.id,
            epsilon=None if mechanism.epsilon is None else float(mechanism.epsilon),
            adjacency=str(mechanism.adjacency),
            rmse_best_possible=best_rmse,
            data=dataset.name,
        )
        lists = DemoLists(demo, tastes)
        stack.callback(lists.close)
        _stream(demo, lists, held, options.seconds, figures, plain)
        show_sample_answers(demo)
        show_accounts(figures)
        if options.json_file is not None:
            figures.write(options.json_file)
            say(f"written to {options.json_file}")
        if not options.stays:
            say("the page ends with the demo; --keep keeps it up")
        say(f"list quality {figures.list_quality}")
        if options.stays:
            _wait(demo)
    if figures.model_digest != figures.log_digest:
        raise UserError("the worker's state is not that of the log: please report this as a defect")
    if figures.quality is not None:
        figures.quality.check()


def _dataset(options: DemoOptions) -> tuple[datasets.Dataset, float, Tastes]:
    """Return the ratings in time order, and where they are known the RMSE of the best predictor and
    the tastes."""
    if options.data is not None:
        found = datasets.load(options.data, scale_from(options.scale))
        for warning in found.warnings:
            notice(f"warning: {warning}")
        return found.in_time_order(), nan, Tastes({})
    generated = synthetic.generate(
        seed=1,
        ratings=options.ratings,
        # As many ratings a user as in MovieLens-1M, and enough items of each genre that no user has
        # rated them all: taste can be learned, and lists have what to offer.
        users=max(130, options.ratings // 150),
        items=max(320, min(2000, options.ratings // 150)),
        factors=3,
    )
    tastes = Tastes(generated.favourites())
    return generated.dataset.in_time_order(), generated.best_rmse, tastes


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


def _stream(
    demo: DemoSetup,
    lists: DemoLists,
    held: HeldBack,
    seconds: float,
    figures: Figures,
    plain: bool,
) -> None:
    """Replay the ratings while one process sends queries and the live view refreshes; then
    recompute the state from the log."""
    # Every seventh device: neither the first to rate nor the last.
    devices = demo.population.devices[::7]
    queries = QueryLoad(demo.bootstrap, demo.topics.prefix, devices, demo.folder)
    line = Publisher(
        clients.producer(demo.connection, linger_ms=20, message_timeout_ms=0), demo.topics.ratings
    )
    url = demo.worker.url
    say(f"metrics {url}/metrics   state {url}/state   (while the demo runs)")
    try:
        with live_view(plain=plain) as show, line:
            watched, began = 0.0, time.monotonic()
            for step in _replay(demo, seconds, line):
                figures.published, figures.refused = step.published, step.refused
                now = time.monotonic()
                figures.ratings_per_second = step.published / max(1e-9, now - began)
                if now - watched >= _WATCH_SECONDS:
                    watched = now
                    _watch(demo, queries, figures)
                    lists.update(figures, min(step.rows, demo.population.rows))
                    show(figures)
            line.close()
            figures.ratings_per_second = figures.published / (time.monotonic() - began)
            if line.failed:
                raise UserError(f"{line.failed} events were not accepted: {line.first_error}")
            demo.worker.wait_for(_end_offsets(demo))
            time.sleep(1.1)  # one more round of the worker's one-second gauges
            _watch(demo, queries, figures)
            _recompute(demo, figures)
            lists.finish(figures)
            try:
                figures.quality = held.measured(demo, lists.twin)
            except ValueError as error:
                figures.quality_absent = str(error)
            show(figures)
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


def _wait(demo: DemoSetup) -> None:
    """Keep everything running until Ctrl-C, and print commands to try."""
    url, scale, population = demo.worker.url, demo.dataset.scale, demo.population
    page = "" if demo.gateway is None else demo.gateway.url
    family, _, epsilon = demo.mechanism.id.split(":")[:3]
    print(
        f"""
broker, worker and page stay up until Ctrl-C: {page}; in another terminal:
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
    demo.journal.close()  # so that the commands above can open it
    try:
        while True:
            demo.worker.check()
            if demo.gateway is not None:
                demo.gateway.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        say(f"stopping (worker {demo.worker.process.pid}, this process {os.getpid()})")
