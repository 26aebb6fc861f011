"""`murmurec demo --mode split|central`: one campaign of a population, from its plan to lists.

Set up, contribute, sum, learn, rank on the devices, check, report. Each user's last fifth of the
ratings is held out; a device's history is the rest, the same that it has contributed with, and its
list is the one of `murmurec recommend --local`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from murmurec.ratings import item_keys, user_keys
from producers.campaign.terms import Pinned
from producers.datasets.load import Dataset
from producers.fleet.campaigning import Fleet
from producers.journal import PersonBudget
from producers.publishing import OutboxRelay
from producers.ranking import RatedItem, campaign_side
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.in_scope import LIKED_STARS
from stream_app import wire
from stream_app.aggregation import keys
from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.keys import Role
from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
from stream_app.campaigns.planning import TOGETHER_ITEMS, Outline, certificate, plan
from stream_app.campaigns.public_side import PublicSide, PublishedSide
from stream_app.cli.demo import demo_processes as services
from stream_app.cli.demo.campaign_stages import Check, StageRun, conduct, published_side
from stream_app.cli.demo.setup import DemoSetup, prepare
from stream_app.cli.device.mechanism_options import today
from stream_app.cli.device.publishers import contributions_publisher_for
from stream_app.cli.output import plural, progress, refusing, say
from stream_app.errors import UserError
from stream_app.evaluation import ranking
from stream_app.privacy.registry import parse
from stream_app.settings import Settings
from stream_app.wire import Item
from stream_app.wire.campaigns.plan import Campaign

K = 10
ROLES = {"central": (Role.CENTRAL,), "split": (Role.A, Role.B)}
SCOPE = 200
DELTA = Fraction(1, 10**6)
_UNREPORTED = parse("rr:5:2")  # the worker's allow-list needs a mechanism; no rating is sent


@dataclass(frozen=True)
class CampaignFigures:
    """What a demo has measured; `seconds` from its start to its end."""

    mode: str
    data: str
    people: int
    scope: int
    epsilon: float
    delta: float
    stages: tuple[StageRun, ...]
    ndcg: float
    ndcg_popular: float
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class CampaignRun:
    """A campaign that was seen through: `seconds` from its plan to the published side."""

    demo: DemoSetup
    campaign: Campaign
    stages: tuple[StageRun, ...]
    published: PublishedSide
    seconds: float


def run_campaign(
    stack: ExitStack, settings: Settings, dataset: Dataset, epsilon: Fraction
) -> CampaignFigures:
    """Run one campaign over the people of a data set and return the figures.

    Raises UserError where a device did not count once, the noise is not what the plan states, or a
    device has spent more than the campaign costs.
    """
    began = time.monotonic()
    judge = Judge(dataset)
    found = campaign_of(stack, settings, judge, epsilon)
    people = len(found.demo.population.devices)
    for done, stage in zip(found.stages, found.campaign.stages, strict=True):
        done.check(people, stage.size)
    _check_spending(found.demo)
    lists, popular = judge.lists(found.published.side), judge.popular()
    return CampaignFigures(
        settings.privacy_mode,
        dataset.name,
        people,
        len(found.campaign.scope),
        float(certificate(found.campaign.stages).epsilon(DELTA)),
        float(DELTA),
        found.stages,
        lists.ndcg,
        popular.ndcg,
        time.monotonic() - began,
    )


def campaign_of(
    stack: ExitStack,
    settings: Settings,
    judge: Judge,
    epsilon: Fraction,
    *,
    scope: int = SCOPE,
    kinds: tuple[str, ...] = ("together",),
    exact: bool = True,
) -> CampaignRun:
    """See one campaign through, over the most rated items of what the devices have.

    scope: most items; exact: measure the noise of every sum.
    """
    budget = PersonBudget(epsilon, DELTA, None)
    demo = prepare(stack, settings, judge.learned, _UNREPORTED, budget)
    public, check = _start_parties(stack, demo, ROLES[settings.privacy_mode])
    campaign = _plan(judge.scope(scope), epsilon, kinds, public, signed=demo.settings.signed)
    began = time.monotonic()
    stages = tuple(_conducted(stack, demo, campaign, check, exact=exact))
    found = published_side(demo.connection, demo.topics.prefix, campaign, check)
    return CampaignRun(demo, campaign, stages, found, time.monotonic() - began)


def _start_parties(
    stack: ExitStack, demo: DemoSetup, roles: Sequence[Role]
) -> tuple[tuple[str, ...], Check]:
    """Run an aggregator for each role, with fresh keys, until the stack ends; return the public
    halves in hex, and a function that raises UserError if a process of the demo has ended."""
    public, checks = [], [demo.worker.check]
    for role in roles:
        log = demo.folder / f"{role}.log"
        public.append(keys.make(demo.folder, role).public.hex())
        arguments = ["aggregate", "--party", role, "--folder", str(demo.folder)]
        arguments += ["--bootstrap", demo.bootstrap, "--prefix", demo.topics.prefix]
        process = stack.enter_context(services.started(arguments, log))
        checks.append(partial(services.check, process, f"party {role}", log))

    def check() -> None:
        for each in checks:
            each()

    return tuple(public), check


def _plan(
    scope: list[Item],
    epsilon: Fraction,
    kinds: tuple[str, ...],
    public: tuple[str, ...],
    *,
    signed: bool,
) -> Campaign:
    count: Literal[1, 2] = 1 if len(public) == 1 else 2
    items = min(TOGETHER_ITEMS, len(scope))
    outline = Outline(epsilon, DELTA, count, kinds, together_items=items)
    with refusing(UserError):
        return plan(outline, scope, keys=public, signed=signed)


def _conducted(
    stack: ExitStack, demo: DemoSetup, campaign: Campaign, check: Check, *, exact: bool
) -> list[StageRun]:
    """Begin the campaign and see it through; every contribution is accepted."""
    log = RoundTopic(demo.connection, demo.topics.rounds)
    stack.callback(log.close)
    contributions = ContributionTopic(demo.connection, demo.topics.contributions)
    stack.callback(contributions.close)
    Coordinator(log, contributions).begin(campaign)
    items = np.array([wire.key(item) for item in campaign.scope], np.uint64)
    publisher = contributions_publisher_for(demo.settings)
    fleet = Fleet(
        demo.journal,
        demo.population,
        Pinned(campaign.keys, items, campaign.epsilon, demo.settings.signed),
        demo.topics.contributions,
        OutboxRelay(demo.journal, publisher),
        today,
        partial(campaign_side, demo.connection, demo.topics.prefix),
        identities=demo.identities,
    )
    with publisher, progress("contributed") as advance:
        found = list(
            conduct(
                fleet,
                log,
                contributions,
                check,
                lambda step: advance(step.done, step.total),
                exact=exact,
            )
        )
    if publisher.failed:
        raise UserError(f"{publisher.failed} contributions failed: {publisher.first_error}")
    return found


def _check_spending(demo: DemoSetup) -> None:
    for device in demo.population.devices:
        debits = demo.journal.spent(device)["user"].reports
        if debits != 1:
            raise UserError(f"a device was debited {debits} times: please report this as a defect")


def show(figures: CampaignFigures) -> None:
    """Print the figures in words."""
    trust = (
        "two parties, of which one must be honest"
        if figures.mode == "split"
        else "one trusted party"
    )
    say(
        f"epsilon {figures.epsilon:.3g} at delta {figures.delta:g} for everything that a person "
        f"ever rated; {trust}; no rating was sent"
    )
    for stage in figures.stages:
        say(
            f"stage {stage.index} ({stage.kind}): {plural(stage.contributions, 'device')} sent "
            f"{stage.bytes / 1000:.0f} kB each in {stage.sending:.1f} s; summed in "
            f"{stage.summing:.1f} s; the sum is exact but for {stage.noise_ratio:.3f} of the "
            "stated noise"
        )
    say(
        f"lists made on the devices: nDCG@{K} {figures.ndcg:.3f}; popular items: "
        f"{figures.ndcg_popular:.3f} (each person's last fifth, {figures.scope} items)"
    )
    say(f"every device counted once and paid once; {figures.seconds:.0f} s in all")


class Judge:
    """The task of one data set, in time order; `learned` are the rows that devices have."""

    def __init__(self, dataset: Dataset) -> None:
        dataset = dataset.in_time_order()
        scale = dataset.scale
        stars = 1 + 4 * dataset.levels / (scale.levels - 1)
        users, items = user_keys(dataset.users), item_keys(dataset.items)
        self.task: ranking.RankingTask = ranking.ranking_task(
            users, items, stars, stars >= LIKED_STARS
        )
        rows = self.task.rows
        self.learned = dataset.at(rows)
        self._stars, self._keys = stars[rows], items[rows]
        self._items = self.learned.items

    def scope(self, most: int) -> list[Item]:
        """Return the most rated items, the most popular first: a public list, as of a shop."""
        names, counts = np.unique(self._items, return_counts=True)
        chosen: list[Item] = names[np.argsort(-counts, kind="stable")[:most]].tolist()
        return chosen

    def lists(self, side: PublicSide) -> ranking.RankingRow:
        """Return the figures of the tested users' own lists."""
        ranker, found = CampaignRanker(side), np.full((len(self.task.tested), K), -1, np.intp)
        for row, user in enumerate(self.task.tested.tolist()):
            listed = ranker.rank(self._history(user), K)
            keys = np.array([each.item for each in listed], np.uint64)
            found[row, : len(keys)] = np.searchsorted(self.task.items, keys)
        return ranking.row_of(
            self.task, ranking.Way("together", "device", "clean, by recency", found)
        )

    def popular(self) -> ranking.RankingRow:
        """Return the figures of the most rated items that a user has not rated."""
        lists = ranking.lists_of(self.task, ranking.baselines.popular(self.task), K)
        return ranking.row_of(self.task, ranking.Way("popular", "baseline", "none", lists))

    def _history(self, user: int) -> list[RatedItem]:
        rows = np.flatnonzero(self.task.learned.users == user)
        return [
            RatedItem(item, key, stars)
            for item, key, stars in zip(
                self._items[rows].tolist(),
                self._keys[rows].tolist(),
                self._stars[rows].tolist(),
                strict=True,
            )
        ]
