"""The accounts' part in campaigns: each contributes once to each stage, at a look of its own.

    looks      once a minute, at a moment that the journal's key, pseudonym and minute give: who
               sees times, as a relay does, cannot match them to pseudonyms, which are public
    at a look  a stage is open, its plan is what is pinned, the account has not contributed
               -> ratings looked up -> journal -> delivery

Whether an account contributes, when and with how many bytes depends on the log of rounds, on
pseudonyms, budgets and the time during which the program runs, never on a rating: without ratings
it contributes zeros. A stage that closes before the account's next look is over without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from producers.campaign import terms
from producers.campaign.stage_requests import StageRequests, decide_plans
from producers.campaign.terms import Pinned
from producers.daemon.conditions import Conditions
from producers.daemon.delivery import Delivery
from producers.daemon.schedule import Schedule
from producers.device.rating import ScaledRatings
from producers.journal import Enrolment, Journal, Request, Unwritable
from producers.ranking.in_scope import ScopeIndex
from stream_app.campaigns import together
from stream_app.campaigns.rounds import Phase, Rounds, StageState
from stream_app.errors import UserError
from stream_app.wire.campaigns.plan import Campaign

LOOK_SECONDS = 60.0
_READ_SECONDS = 1.0  # between two readings of the log
_UNRATED = 256  # above every level of a scale


def moment_name(device: bytes, secret: bytes) -> bytes:
    """Return the name, 16 bytes, by which a device has its looks; `secret` is `Journal.key`."""
    return blake2b(device, digest_size=16, key=secret, person=b"murmurec moment").digest()


@dataclass
class Contributing:
    """What is pinned, how the log of rounds is read (UserError where it cannot be), and the way of
    the messages; `start` before the first look."""

    journal: Journal
    pinned: Pinned
    delivery: Delivery
    topic: str
    rounds: Callable[[], Rounds]
    look_seconds: float = LOOK_SECONDS
    messages: int = field(default=0, init=False)
    _schedule: Schedule = field(init=False)
    _devices: dict[bytes, bytes] = field(default_factory=dict, init=False)  # of moment names
    _read: tuple[float, Rounds] | None = field(default=None, init=False)
    _checked: bytes = field(default=b"", init=False)

    def start(self, accounts: Iterable[Enrolment], now: float) -> None:
        """Give every account its looks from now on."""
        self._schedule = Schedule((), self.look_seconds, now)
        self.join(accounts, now)

    def join(self, accounts: Iterable[Enrolment], now: float) -> None:
        """Give further accounts their looks from now on."""
        named = {moment_name(each.device, self.journal.key): each for each in accounts}
        self._devices |= {name: each.device for name, each in named.items()}
        self._schedule.add([replace(each, device=name) for name, each in named.items()], now)

    @property
    def next(self) -> float | None:
        """The next look in seconds since 1970; None without an account."""
        return self._schedule.next

    def requests(
        self, now: float, epoch: int, ratings: ScaledRatings, conditions: Conditions
    ) -> list[Request]:
        """Return what the accounts whose looks have come contribute."""
        come, _ = self._schedule.due(now)
        if not come or not self.delivery.connected:
            return []
        try:
            found = self._open(now)
            asked = None if found is None else self._asked(found[0], found[1], epoch)
        except UserError as error:
            conditions.holds("campaign", f"{error}; it is looked at again in a minute")
            return []
        if found is None or asked is None:
            conditions.passed("campaign")
            return []
        campaign, stage = found
        scope, found_requests = ScopeIndex(campaign), []
        # After a pause two looks of one account come at once: it contributes once.
        devices = list(dict.fromkeys(self._devices[each.device] for each in come))
        able = self._able(asked, devices, conditions)
        try:
            decide_plans(self.journal, able, asked.mechanism)
        except Unwritable as error:
            if not self.journal.usable:
                raise
            conditions.holds("journal", f"{error}; what is due is sent at a later look")
            return []
        for device in able:
            raw_levels = ratings.levels(device, scope.keys, _UNRATED)
            hit = raw_levels != _UNRATED
            kept = raw_levels[hit].astype(np.uint8)
            own = scope.rated(scope.keys[hit], kept, ratings.scale.levels)
            raw_vector = together.contribution(stage.stage, own)
            if ratings.identities.knows(device):  # else its account was removed meanwhile
                found_requests.append(
                    asked.request(self.journal, device, raw_vector, ratings.identities)
                )
        return found_requests

    def _asked(self, campaign: Campaign, stage: StageState, epoch: int) -> StageRequests:
        return StageRequests.of_stage(
            campaign, stage.index, secret=self.journal.key, topic=self.topic, epoch=epoch
        )

    def _open(self, now: float) -> tuple[Campaign, StageState] | None:
        """Return the open stage and its campaign; None where nothing can be done."""
        rounds = self._rounds(now)
        stage = rounds.current
        if rounds.campaign is None or stage is None or stage.phase is not Phase.OPEN:
            return None
        if self._checked != stage.plan:
            terms.check(rounds.campaign, self.pinned)
            terms.check_notice(rounds, self.pinned)
            self._checked = stage.plan
        return rounds.campaign, stage

    def _rounds(self, now: float) -> Rounds:
        if self._read is None or not 0 <= now - self._read[0] < _READ_SECONDS:
            self._read = None
            self._read = now, self.rounds()
        return self._read[1]

    def _able(
        self, asked: StageRequests, devices: Sequence[bytes], conditions: Conditions
    ) -> list[bytes]:
        """Return the devices that contribute: not yet in this stage, and within the budget."""
        found = []
        for device in devices:
            account = self.journal.enrolment(device)
            if account is None or account.withdrawn or asked.contributed(self.journal, device):
                continue
            if not asked.affordable(self.journal, device):
                conditions.holds(
                    "campaign-budget",
                    f"the budget of an account, or its pace, does not hold {asked.mechanism.id}: "
                    "it takes no part in this campaign now (murmurec device status)",
                )
                continue
            found.append(device)
        return found
