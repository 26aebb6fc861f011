"""`murmurec demo --mode split|central`: campaigns of a population, from their plan to lists.

Set up, contribute, sum, learn, rank on the devices, check, report. The last fifth of the ratings of
some users is held out; a device's history is the rest, the same that it has contributed with, and
its list is the one of `murmurec recommend --local`.

    campaign 1       the population alone; its side is what the page ranks by
    campaign 2, ...  the population again, and visitors: with --keep its stage stays open until a
                     visitor of the page has contributed
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

from producers.campaign.terms import Pinned
from producers.fleet.campaigning import Fleet
from producers.publishing import OutboxRelay
from stream_app import wire
from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.keys import Role
from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
from stream_app.campaigns.planning import TOGETHER_ITEMS, Outline, certificate, plan
from stream_app.campaigns.public_side import PublishedSide
from stream_app.cli.demo import demo_processes as services
from stream_app.cli.demo import story
from stream_app.cli.demo.campaign_stages import Check, StageRun, conduct, published_side
from stream_app.cli.demo.demo_options import DemoOptions
from stream_app.cli.demo.quality import HeldBack, device_lists, judged
from stream_app.cli.demo.setup import DemoSetup, generated_ratings, prepare
from stream_app.cli.demo.story import write_facts
from stream_app.cli.device.mechanism_options import positive_fraction, today
from stream_app.cli.device.publishers import contributions_publisher_for
from stream_app.cli.output import progress, refusing, say
from stream_app.errors import UserError
from stream_app.privacy.registry import parse
from stream_app.settings import Settings
from stream_app.wire import Item
from stream_app.wire.campaigns.plan import Campaign

ROLES = {"central": (Role.CENTRAL,), "split": (Role.A, Role.B)}
SCOPE = 150
TESTED = 600  # users: devices make their lists in this process, so more than are asked over Kafka
DELTA = Fraction(1, 10**6)
OPEN_CUTS = 2**31  # a stage is closed here, and not at a deadline
_SHOWN_SECONDS = 10.0  # a visitor's page sees what became of a campaign
_REPORTS = parse("rr:5:2")  # of visitors: the population sends none


@dataclass(frozen=True, eq=False)
class CampaignRun:
    """A campaign that was seen through: `seconds` from its plan to the published side."""

    demo: DemoSetup
    campaign: Campaign
    stages: tuple[StageRun, ...]
    published: PublishedSide
    seconds: float


def run_campaigns(options: DemoOptions, settings: Settings) -> None:
    """Run the demo of campaigns; raises UserError where a device did not count once, the noise is
    not what the plan states, a device has paid more than once, or lists are below popularity."""
    began = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(services.terminated_like_interrupted())
        held = HeldBack(generated_ratings(options), TESTED)
        epsilon = positive_fraction("--epsilon", options.epsilon or "2")
        run = Campaigns.begin(stack, settings, held, epsilon, options=options)
        demo, mode = run.demo, settings.privacy_mode
        people, ratings = len(demo.population.devices), demo.population.rows
        show = partial(write_facts, demo.folder, mode, people, ratings)
        show(None)
        found = run.see_through()
        run.check(found)
        side = found.published.side
        lists = judged(
            held, demo.population, lambda task, _: device_lists(held.published, task, side)
        )
        show(lists.quality)
        spent = float(certificate(found.campaign.stages).epsilon(DELTA))
        say(story.of_sums(ratings, people, mode, spent, float(DELTA)))
        say(story.of_lists(lists))
        seconds = time.monotonic() - began
        for line in story.of_stages(found.stages, len(found.campaign.scope), seconds):
            say(line)
        lists.check()
        if options.stays:
            run.repeat()


@dataclass
class Campaigns:
    """The campaigns of one population, one after another, over the same scope and keys."""

    demo: DemoSetup
    scope: list[Item]
    epsilon: Fraction
    log: RoundTopic
    contributions: ContributionTopic
    check_processes: Check
    number: int = 0

    @classmethod
    def begin(
        cls,
        stack: ExitStack,
        settings: Settings,
        held: HeldBack,
        epsilon: Fraction,
        *,
        scope: int = SCOPE,
        options: DemoOptions | None = None,
    ) -> Campaigns:
        """Start everything, for campaigns over the most rated items of what the devices have.

        scope: most items; options: those of a demo, which has a page.
        """
        roles, items = ROLES[settings.privacy_mode], held.scope(scope)
        demo = prepare(
            stack, settings, held.published, _REPORTS, options, parties=roles, scope=items
        )
        check = _start_parties(stack, demo, roles)
        log = RoundTopic(demo.connection, demo.topics.rounds)
        stack.callback(log.close)
        contributions = ContributionTopic(demo.connection, demo.topics.contributions)
        stack.callback(contributions.close)
        return cls(demo, items, epsilon, log, contributions, check)

    def see_through(self, *, exact: bool = True, visitors: bool = False) -> CampaignRun:
        """Begin the next campaign and see it through; with `visitors` its stages stay open until
        more than the population has contributed. Every contribution is accepted. exact: measure
        the noise of every sum."""
        campaign, demo = self._plan(), self.demo
        Coordinator(self.log, self.contributions).begin(campaign)
        began, publisher = time.monotonic(), contributions_publisher_for(demo.settings)
        with publisher, progress("contributed") as advance:
            stages = conduct(
                self._fleet(campaign, OutboxRelay(demo.journal, publisher)),
                self.log,
                self.contributions,
                self.check_processes,
                lambda step: advance(step.done, step.total),
                exact=exact,
                visitors=visitors,
            )
            done = tuple(stages)
        if publisher.failed:
            raise UserError(f"{publisher.failed} contributions failed: {publisher.first_error}")
        side = published_side(demo.connection, demo.topics.prefix, campaign, self.check_processes)
        return CampaignRun(demo, campaign, done, side, time.monotonic() - began)

    def repeat(self) -> None:
        """Run campaigns with visitors until Ctrl-C."""
        try:
            while True:
                time.sleep(_SHOWN_SECONDS)
                say(
                    f"campaign {self.number + 1} begins, and ends when a visitor of the page has "
                    "taken part (Ctrl-C ends the demo)"
                )
                found = self.see_through(visitors=True)
                self.check(found)
                say(
                    f"campaign {self.number}: {found.stages[-1].contributions:,} people counted, "
                    f"{found.stages[-1].visitors:,} of them visitors; "
                    f"{found.stages[-1].summing:.1f} s from the first visitor to the sum"
                )
        except KeyboardInterrupt:
            say("stopping")

    def check(self, found: CampaignRun) -> None:
        """Raise UserError where a device has not counted once, where one has paid more often, or
        where the noise of a sum is not what the plan states."""
        devices = self.demo.population.devices
        for done, stage in zip(found.stages, found.campaign.stages, strict=True):
            done.check(len(devices), stage.size)
        for device in devices:
            debits = self.demo.journal.spent(device)["user"].reports
            if debits != self.number:
                raise UserError(
                    f"a device was debited {debits} times in {self.number} campaigns: please "
                    "report this as a defect"
                )

    def _plan(self) -> Campaign:
        demo, items = self.demo, self.scope
        public = demo.settings.campaign_keys
        count: Literal[1, 2] = 1 if len(public) == 1 else 2
        together = min(TOGETHER_ITEMS, len(items))
        outline = Outline(
            self.epsilon, DELTA, count, together_items=together, deadline_cuts=OPEN_CUTS
        )
        self.number += 1
        with refusing(UserError):
            signed = demo.settings.signed
            return plan(outline, items, self.number, keys=public, signed=signed)

    def _fleet(self, campaign: Campaign, relay: OutboxRelay) -> Fleet:
        demo = self.demo
        items = np.array([wire.key(item) for item in campaign.scope], np.uint64)
        return Fleet(
            demo.journal,
            demo.population,
            Pinned(campaign.keys, items, campaign.epsilon, demo.settings.signed),
            demo.topics.contributions,
            relay,
            today,
            identities=demo.identities,
        )


def _start_parties(stack: ExitStack, demo: DemoSetup, roles: Sequence[Role]) -> Check:
    """Run an aggregator for each role until the stack ends; return a function that raises UserError
    if a process of the demo has ended."""
    checks: list[Check] = [demo.worker.check]
    for role in roles:
        log = demo.folder / f"{role}.log"
        arguments = ["aggregate", "--party", role, "--folder", str(demo.folder)]
        arguments += ["--bootstrap", demo.bootstrap, "--prefix", demo.topics.prefix]
        process = stack.enter_context(services.started(arguments, log))
        checks.append(partial(services.check, process, f"party {role}", log))
    if demo.gateway is not None:
        checks.append(demo.gateway.check)

    def check() -> None:
        for each in checks:
            each()

    return check
