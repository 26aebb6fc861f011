"""Running campaigns: the owner of the clock takes the step that is due, one at a time.

It publishes the side that the state has learned, and reads the log of rounds to its end, before
each step, off the event loop. What it appends to the cut log it reads back through the state, and
appends again, or something else, only after `_APPEND_AGAIN_SECONDS`: of two equal entries the
second has no effect and is counted, and the plan of the next campaign does not follow a sum so
closely that its side is never published. Another owner does no harm; the log of rounds shows which
of two steps came first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

import faust
import structlog

from stream_app.agents.campaigns.steps import Act, Follows, due, reason_of
from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.public_tables import publisher
from stream_app.agents.runtime import Runtime
from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.round_topics import ContributionTopic, LogChanged, RoundTopic
from stream_app.campaigns.rounds import StageState
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.state.campaigns.progress import CampaignProgress
from stream_app.state.replica import Replica
from stream_app.wire import CampaignEntry, CampaignPlan, encode_message
from stream_app.wire.limits import MAX_FORGOTTEN

log = structlog.get_logger()

_LOOK_SECONDS = 0.5
_APPEND_AGAIN_SECONDS = 10.0


@dataclass
class Owner:
    """Takes the steps; one object for each time that the clock is owned. `append` writes to the
    cut log, `standing` is that of the replica, `forgotten` its forgotten devices, `publish` brings
    the side of a standing to the devices; `owing` gets the parties that owe an answer, and for how
    many seconds; `leave` closes the connections."""

    coordinator: Coordinator
    standing: Callable[[], CampaignProgress]
    forgotten: Callable[[], tuple[bytes, ...]]
    append: Callable[[CampaignEntry], None]
    follows: Follows
    cut_seconds: float
    owing: Callable[[Mapping[str, float]], None] = lambda _: None
    publish: Callable[[CampaignProgress], None] = lambda _: None
    leave: Callable[[], None] = lambda: None
    now: Callable[[], float] = time.monotonic
    _seen: tuple[object, ...] = ()
    _since: float = 0.0
    _sent: tuple[CampaignProgress | None, float] = (None, -inf)

    def turn(self) -> None:
        """Take the step that is due, if one is; raises UserError where a log cannot be read or
        written, or where another owner was first."""
        standing = self.standing()
        self.publish(standing)
        rounds = self.coordinator.log.catch_up()
        stage = rounds.current
        seen = (stage and (stage.plan, stage.index, stage.phase),)
        if seen != self._seen:
            self._seen, self._since = seen, self.now()
        waited = self.now() - self._since
        self.owing(dict.fromkeys(_owing(stage, self.follows.parties), waited))
        step = due(rounds, standing, self.follows, waited, self.cut_seconds)
        announced = step is Act.OPEN and stage is not None and stage.index == 0
        if announced and self.coordinator.no_device_joins:
            step = Act.WITHDRAW
        elif announced and self.coordinator.notice_left > 0:
            return
        if isinstance(step, Act):
            self._act(step)
        elif step is not None and not self._awaits(standing):
            self._sent = standing, self.now()
            self.append(step)
            log.info("campaign.appended", entry=type(step).__name__.lower())

    def _awaits(self, standing: CampaignProgress) -> bool:
        """Return whether an entry that was appended a short while ago is not in the state yet."""
        before, at = self._sent
        return standing is before and self.now() - at < _APPEND_AGAIN_SECONDS

    def _act(self, act: Act) -> None:
        match act:
            case Act.OPEN:
                self.coordinator.open_stage()
            case Act.CLOSE:
                self.coordinator.close_stage(self.forgotten())
            case _:
                self.coordinator.abort_stage(reason_of(act))
        more = {"reason": self._withdrawn()} if act is Act.WITHDRAW else {}
        log.info("campaign.step", step=act.name.lower(), **more)

    def _withdrawn(self) -> str:
        """Return why the campaign was withdrawn."""
        plan = self.coordinator.log.rounds.campaign
        if plan is not None and self.follows.other_keys(CampaignPlan(plan=plan)):
            return "the plan names other keys than the setting campaign_keys"
        if plan is not None and self.follows.unsigned(CampaignPlan(plan=plan)):
            return "the plan counts contributions that are not signed, and devices = signed"
        if self.coordinator.no_device_joins:
            return "the log of rounds does not say when its plan was appended (topics apply)"
        return "the replicas would not follow it: its number, mode, stages or sums"


def _owing(stage: StageState | None, parties: int) -> list[str]:
    """Return the parties whose answer the stage waits for."""
    names = ("central",) if parties == 1 else ("a", "b")
    return [] if stage is None else [names[party] for party in stage.owing(parties)]


@dataclass
class Running:
    """The owner while the clock is owned: made at the first turn, and again after a log of rounds
    that is no longer the one that was read."""

    make: Callable[[], Owner]
    owner: Owner | None = None

    def turn(self) -> None:
        """Take the step that is due; raises as `Owner.turn` does."""
        if self.owner is None:
            self.owner = self.make()
        try:
            self.owner.turn()
        except LogChanged:
            self.leave()
            raise

    def leave(self) -> None:
        """Close the connections of the owner, if there is one."""
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.leave()


def attach(app: faust.App, runtime: Runtime, connection: Connection) -> None:
    """Run campaigns while this worker owns the clock and its state is caught up."""
    if not runtime.replica.spec.parties:
        return
    running = Running(lambda: _owner(runtime, connection))

    @app.timer(_LOOK_SECONDS)
    @crash_guard(runtime.status)
    async def run_campaigns() -> None:
        owned, loop = runtime.status.clock_owned, asyncio.get_running_loop()
        if not owned:
            runtime.metrics.parties_owing({})
            await loop.run_in_executor(None, running.leave)
        if not owned or runtime.state_reason():
            return
        try:
            await loop.run_in_executor(None, running.turn)
        except UserError as error:
            # The broker may be down, or another owner was first; the rights were checked before.
            log.warning("campaign.waits", reason=str(error))


def _owner(runtime: Runtime, connection: Connection) -> Owner:
    """Return an owner on the topics of campaigns."""
    rounds = RoundTopic(connection, runtime.topics.rounds)
    contributions = ContributionTopic(
        connection, runtime.topics.contributions, partitions=runtime.replica.spec.partitions
    )

    def leave() -> None:
        contributions.close()
        rounds.close()

    sides = publisher(connection, runtime.topics.item_side)
    return Owner(
        Coordinator(rounds, contributions, runtime.settings.campaign_notice_seconds),
        lambda: _standing(runtime.replica),
        lambda: _forgotten(runtime.replica),
        lambda entry: runtime.append(encode_message(entry.sealed(runtime.seal))),
        Follows(
            runtime.replica.spec.parties,
            runtime.settings.campaign_keys,
            runtime.replica.spec.signed,
        ),
        runtime.settings.cut_seconds,
        runtime.metrics.parties_owing,
        lambda standing: sides.publish(standing, runtime.replica.cut),
        leave,
    )


def _standing(replica: Replica) -> CampaignProgress:
    """Return the standing: a value, which the event loop replaces as a whole."""
    return CampaignProgress() if replica.campaigns is None else replica.campaigns.standing


def _forgotten(replica: Replica) -> tuple[bytes, ...]:
    """Return the devices whose contributions do not count, excluded at the origin or forgotten
    since: the newest `MAX_FORGOTTEN`."""
    excluded = [bytes.fromhex(device) for device in replica.origin.excluded]
    erased = [words.astype("<u8").tobytes() for words in replica.ledger.forgotten]
    return tuple(dict.fromkeys([*excluded, *erased]))[-MAX_FORGOTTEN:]
