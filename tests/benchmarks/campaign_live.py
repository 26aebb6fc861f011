"""A whole campaign of MovieLens-1M's 6,040 people over a real broker: two parties, a worker.

Each user's last fifth of the ratings is held out; the rest is what the devices have. Stages are
closed when the last device has contributed. Lists are made from the side that the worker has
published, and beside them from the same plan run in one process with seeded noise.
"""

from __future__ import annotations

import contextlib
import io
import time
from contextlib import ExitStack
from fractions import Fraction
from math import nan

import numpy as np

from producers.datasets.load import Dataset, load
from producers.fleet.campaigning import ScopedRatings
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.sealing import seal
from stream_app.cli.demo.campaign_run import CampaignRun, Campaigns
from stream_app.cli.demo.quality import HeldBack, K, Lists, device_lists, popular_gains
from stream_app.evaluation import ranking
from stream_app.evaluation.campaigns.campaign_lists import Run, run
from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.settings import load as settings_of
from tests.benchmarks.figure import Figure
from tests.fixtures.rating_files import folder, rating_files

_EPSILON = Fraction(2)
_TIMED = 200  # boxes whose sealing is measured


def measure() -> list[Figure]:
    """Return seconds, bytes, a device's work, and the quality of what the devices make of it."""
    files = rating_files()
    if "ml-1m" not in files:
        title = f"a campaign over a broker: skipped, no ml-1m in {folder()} (set MURMUREC_DATA)"
        return [Figure(title, nan, "")]
    dataset = load(files["ml-1m"]).in_time_order()
    return _of("together", dataset)


def _of(name: str, dataset: Dataset) -> list[Figure]:
    held, settings = HeldBack(dataset, users=None), settings_of(privacy_mode="split")
    with ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        made = Campaigns.begin(stack, settings, held, _EPSILON, scope=300)
        found = made.see_through(exact=False)
        people = len(found.demo.population.devices)
        assert {each.contributions for each in found.stages} == {people}
        name = f"split campaign of {people} devices, {name}"
        offline = _offline(found)
        figures = [
            *_times(name, found, _work(found, offline)),
            *_quality(name, held, found, offline.side),
        ]
    return figures


def _times(name: str, found: CampaignRun, work: float) -> list[Figure]:
    sending = sum(each.sending for each in found.stages)
    summing = sum(each.summing for each in found.stages)
    figures = [
        Figure(f"{name}: plan to published side", found.seconds, "s", "<= 240"),
        Figure(f"{name}: of which computing, sealing and sending", sending, "s"),
        Figure(f"{name}: of which summing", summing, "s"),
        Figure(f"{name}: a device's longest stage", work, "ms", "<= 30"),
    ]
    for kind in dict.fromkeys(each.kind for each in found.stages):
        size = max(each.bytes for each in found.stages if each.kind == kind) / 1000
        figures.append(Figure(f"{name}: a contribution, {kind}", size, "kB", "<= 190"))
    return figures


def _offline(found: CampaignRun) -> Run:
    """Return the same plan run in one process, under other noise."""
    ratings = ScopedRatings(found.demo.population, found.campaign)
    own = [ratings.rated(device) for device in found.demo.population.devices]
    return run(found.campaign, own, SeededSource(1))


def _work(found: CampaignRun, offline: Run) -> float:
    """Return the milliseconds of process time that a device's longest stage takes, on average."""
    campaign, people = found.campaign, len(found.demo.population.devices)
    longest = 0.0
    for index, (stage, seconds) in enumerate(zip(campaign.stages, offline.seconds, strict=True)):
        began = time.process_time()
        for _ in range(_TIMED):
            seal(campaign, index, bytes(16), np.zeros(stage.size, np.int32), SystemSource())
        sealing = (time.process_time() - began) / _TIMED
        longest = max(longest, seconds / people + sealing)
    return 1000 * longest


def _quality(name: str, held: HeldBack, found: CampaignRun, offline: PublicSide) -> list[Figure]:
    task, own = held.task(), held.published

    def ndcg(lists: Lists) -> float:
        return ranking.Mean.over(ranking.gains_by_key(task, lists, K)).value

    return [
        Figure(f"{name}: nDCG@10", ndcg(device_lists(own, task, found.published.side)), "nDCG"),
        Figure(f"{name}: the same in one process", ndcg(device_lists(own, task, offline)), "nDCG"),
        Figure(f"{name}: popular", ranking.Mean.over(popular_gains(task)).value, "nDCG"),
    ]
