"""A population's part in a campaign: each device contributes once to each stage, and nothing else.

    log of rounds -> open stage -> devices, by a hash -> vectors of some -> ONE record: debits and
                        ^                                                   boxes -> send
                        `-- still open? --------------------------------------'

Every device takes part, with zeros where it has rated nothing of the scope: who takes part, in
which order and with how many bytes follows from pseudonyms and the plan. The debits and boxes of
some devices are one durable record of the journal, so a run that was killed anywhere is continued
by the next one: what is recorded is sent again as it is, and a device whose key of the stage is
recorded is left out. A stage that closes meanwhile takes no more; the devices that are left have
paid nothing for it.

Of a cell the first rating counts, as everywhere in a replay. The rows of all devices are found in
one pass: a device's vector is then made from a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from producers.campaign.stage_requests import StageRequests, decide_plans
from producers.campaign.terms import Pinned, check, check_notice
from producers.fleet.epoch_emission import emission_time
from producers.fleet.population import Population, rows_of_devices
from producers.fleet.replay import commit_when_room
from producers.identities import Identities
from producers.journal import Journal, Request
from producers.publishing import OutboxRelay
from producers.ranking.in_scope import LIKED_STARS, ScopeIndex, stars_of
from stream_app.campaigns import together
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.rounds import Phase, Rounds, StageState
from stream_app.campaigns.sealing import box_bytes
from stream_app.errors import UserError
from stream_app.wire.campaigns.plan import Campaign

BATCH_BYTES = 8 << 20  # of contributions in one record of the journal
_WAIT_SECONDS = 0.2


class RoundLog(Protocol):
    """The log of rounds, wherever it is."""

    def catch_up(self) -> Rounds:
        """Return the state at the end of the log."""

    def wait(self, seconds: float) -> None:
        """Return when something was appended, or after `seconds`."""


@dataclass(frozen=True)
class StageProgress:
    """Progress of one stage: devices `done` of `total`, of which `sent` contributed in this run and
    `before` in an earlier one; `over` had no budget for it, `late` met a closed stage."""

    stage: int
    kind: str
    total: int
    done: int = 0
    sent: int = 0
    before: int = 0
    over: int = 0
    late: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Fleet:
    """The devices of a population in a campaign; `epoch` gives the present one; `identities` have
    named the devices, where these sign."""

    journal: Journal
    population: Population
    pinned: Pinned
    topic: str
    relay: OutboxRelay
    epoch: Callable[[], int]
    batch_bytes: int = BATCH_BYTES
    identities: Identities | None = None

    def follow(self, log: RoundLog) -> Iterator[StageProgress]:
        """Contribute to each stage of the campaign that is under way, until it has ended.

        Raises UserError where no campaign is under way or another one replaced it, where the plan
        is not what is pinned, where no item of its scope was rated, or where no device has the
        budget for it.
        """
        campaign = under_way(log.catch_up())
        check(campaign, self.pinned)
        ratings = ScopedRatings(self.population, campaign)
        if not ratings.rows:
            raise UserError(
                f"campaign {campaign.number} is over {len(campaign.scope)} items, and the file "
                "rates none of them: every device would contribute zeros; are the ids of the scope "
                "those of the file?"
            )
        done: set[int] = set()
        while (stage := _current(log.catch_up(), campaign)) is not None:
            if stage.phase is not Phase.OPEN or stage.index in done:
                log.wait(_WAIT_SECONDS)
                continue
            check_notice(log.catch_up(), self.pinned)
            yield from self._contribute(log, campaign, stage, ratings)
            self.relay.settle()
            done.add(stage.index)

    def _contribute(
        self, log: RoundLog, campaign: Campaign, stage: StageState, ratings: ScopedRatings
    ) -> Iterator[StageProgress]:
        """Contribute to an open stage for every device that has not, batch by batch."""
        epoch = self.journal.epoch(self.epoch())
        requests = StageRequests.of_stage(
            campaign, stage.index, secret=self.journal.key, topic=self.topic, epoch=epoch
        )
        requests.check(self.journal)
        devices = sorted(self.population.devices, key=lambda each: emission_time(each, stage.index))
        left = [each for each in devices if not requests.contributed(self.journal, each)]
        able = [each for each in left if self._affordable(requests, each)]
        if left and not able:
            raise _over(campaign)
        step = StageProgress(stage.index, stage.stage.kind, len(devices))
        before, over = len(devices) - len(left), len(left) - len(able)
        step = replace(step, done=before + over, before=before, over=over)
        yield step
        decide_plans(self.journal, able, requests.mechanism)
        batch = max(1, self.batch_bytes // _bytes(campaign, stage.index))
        for start in range(0, len(able), batch):
            if not _is_open(log.catch_up(), stage):
                late = len(able) - start
                yield replace(step, done=step.done + late, late=late)
                return
            if self.journal.epoch(self.epoch()) != epoch:  # a debit is of the day of the release
                yield from self._contribute(log, campaign, stage, ratings)
                return
            asked = []
            for device in able[start : start + batch]:
                raw_vector = together.contribution(stage.stage, ratings.rated(device))
                asked.append(requests.request(self.journal, device, raw_vector, self.identities))
            sent = self._release(asked)
            done, total = step.done + len(asked), step.sent + len(asked)
            step = replace(step, done=done, sent=total, bytes=step.bytes + sent)
            yield step

    def _release(self, asked: list[Request]) -> int:
        """Record and send; return the bytes."""
        messages = commit_when_room(self.journal, asked, None, self.relay.make_room)
        for message in messages:
            self.relay.send(message)
        return sum(len(message.value) for message in messages)

    def _affordable(self, requests: StageRequests, device: bytes) -> bool:
        account = self.journal.enrolment(device)
        if account is None or account.withdrawn:
            return False
        return requests.affordable(self.journal, device)


def under_way(rounds: Rounds) -> Campaign:
    """Return the campaign that is under way; UserError without one."""
    if rounds.campaign is None or rounds.current is None:
        raise UserError(
            "no campaign is under way, so there is nothing to contribute to; murmurec rounds show "
            "shows the newest one"
        )
    return rounds.campaign


def _current(rounds: Rounds, campaign: Campaign) -> StageState | None:
    if rounds.campaign is None or rounds.campaign.digest != campaign.digest:
        raise UserError(
            f"campaign {campaign.number} was replaced by another one, which was not checked: run "
            "this again"
        )
    return rounds.current


def _is_open(rounds: Rounds, stage: StageState) -> bool:
    current = rounds.current
    return (
        current is not None
        and (current.plan, current.index) == (stage.plan, stage.index)
        and current.phase is Phase.OPEN
    )


def _bytes(campaign: Campaign, stage: int) -> int:
    """Return the size of one contribution, about."""
    return sum(box_bytes(campaign, stage, party) for party in range(campaign.parties))


def _over(campaign: Campaign) -> UserError:
    return UserError(
        f"campaign {campaign.number} costs a person epsilon {float(campaign.epsilon):g} at delta "
        f"{float(campaign.delta):g}, and no device of this journal has the budget for it: nothing "
        "was sent; give a larger --budget"
    )


class ScopedRatings:
    """What each device of a population has rated among the items of a campaign; `rows` ratings."""

    def __init__(self, population: Population, campaign: Campaign) -> None:
        rows, places = ScopeIndex(campaign).find(population.items)
        fresh = population.fresh[rows]
        rows, places = rows[fresh], places[fresh]
        order = np.argsort(population.users[rows], kind="stable")
        rows, self._places = rows[order], places[order]
        self._raw_stars = stars_of(population.raw_levels[rows], population.scale.levels)
        self._raw_liked = self._raw_stars >= LIKED_STARS
        self._slices = rows_of_devices(population, rows)
        self.rows = len(rows)

    def rated(self, device: bytes) -> RatedItems:
        """Return the ratings of a device; none for one that has rated nothing of the scope."""
        found = self._slices.get(device)
        if found is None:
            return RatedItems.none()
        return RatedItems(self._places[found], self._raw_stars[found], self._raw_liked[found])
