"""Campaigns for a device without Kafka: two pages to read, and one that takes contributions.

    topic rounds ----newest plan, its stages--> CampaignLog --+--> GET /campaign
    topic item-side --whole version-----------> its bytes ----+--> GET /campaign/side
    POST /contributions --as a device sealed it--> topic of contributions

Both documents are public and the same for every client. The plan is sent as the bytes of its
digest, which a device computes again. Whether a contribution counted is not asked here, which would
tie an address to a pseudonym: it stands in the public topics.

A contribution is decoded as the parties decode it, held to the stage that is open (plan, index,
sizes of the boxes), and written as it came under the pseudonym that it names. A gateway sees who
takes part in which stage and when, and no part of a vector. A 202 says that the record is in the
log; whether it counts the parties decide, who open it.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web
from confluent_kafka import Consumer

from stream_app.aggregation.round_topics import LogChanged, RoundTopic
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.campaigns.sealing import box_bytes
from stream_app.gateway.contract.bodies import CampaignStatus
from stream_app.gateway.contract.rejection_reasons import OF_HTTP, HttpReason
from stream_app.gateway.event_writer import CONTRIBUTIONS, writing
from stream_app.gateway.reads.tables import FollowedTable, Looking
from stream_app.gateway.report_intake import KAFKA_SECONDS, PACKED, Answer, Reports, refusal
from stream_app.kafka.clients import CONTRIBUTION_BATCHES
from stream_app.web.cached_document import Document, nothing_yet
from stream_app.web.refusals import refused
from stream_app.wire import WireError
from stream_app.wire.campaigns.contribution import Contribution, decode_value
from stream_app.wire.campaigns.plan import encode_plan
from stream_app.wire.ids import partition_of
from stream_app.wire.limits import MAX_CONTRIBUTION_BYTES

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views


OpenStage = tuple[bytes, int, tuple[int, ...]]
"""Digest of the plan, index of the stage, sizes of the boxes of a contribution."""


class CampaignLog(Looking):
    """The newest documents, and the stage that is open."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.connection, "campaigns")
        self._topics, self._partitions = gateway.topics, gateway.settings.partitions
        self._log: RoundTopic | None = None
        self._side = FollowedTable(gateway.connection, gateway.topics.item_side)
        self._shown: tuple[object, ...] = ()
        self.is_read = False  # the log, to its end, once
        self.open_stage: OpenStage | None = None
        self.campaign: Document | None = None
        self.side: Document | None = None

    def look(self, asking: Consumer) -> None:
        """Read what was appended to both topics; raises UserError where one cannot be read."""
        self._log = self._log or RoundTopic(self._connection, self._topics.rounds, newest=True)
        try:
            self._show(self._log.catch_up())
        except LogChanged:
            self._log.close()
            self._log = None
            raise
        self.is_read = True
        self._side.look(asking)
        version = self._side.pages.newest() if self._side.changed else None
        self._side.changed = False
        if version is not None:
            self.side = Document.made(version.table, "application/octet-stream")

    def _show(self, rounds: Rounds) -> None:
        plan, stage = rounds.campaign, rounds.current
        newest = stage or next(reversed(rounds.stages), None)
        counted = newest.contributions if newest else 0
        shown = (plan and plan.digest, stage and (stage.index, stage.phase), counted)
        if shown == self._shown:
            return
        self._shown, self.open_stage = shown, None
        if plan is None:  # of a log that was made again
            self.campaign = self.side = None
            return
        index, phase = (stage.index, str(stage.phase)) if stage else (None, None)
        encoded = base64.b64encode(encode_plan(plan)).decode()
        status = CampaignStatus(
            encoded, index, phase, self._partitions, rounds.notice, counted or None
        )
        self.campaign = Document.made(msgspec.json.encode(status), "application/json")
        if stage is not None and stage.phase is Phase.OPEN:
            sizes = tuple(box_bytes(plan, stage.index, party) for party in range(plan.parties))
            self.open_stage = stage.plan, stage.index, sizes


CAMPAIGN: Final = web.AppKey("campaign", CampaignLog)


def attach(app: web.Application, gateway: Gateway) -> Views:
    """Return both pages, and add the thread behind them where the deployment has campaigns."""
    if "campaigns" in gateway.settings.features:
        app[CAMPAIGN] = CampaignLog(gateway)
        app.cleanup_ctx.append(app[CAMPAIGN].following)

    async def page(request: web.Request) -> web.Response:
        found = app.get(CAMPAIGN)
        if found is None:
            return refused(404, HttpReason.NO_CAMPAIGNS, OF_HTTP[HttpReason.NO_CAMPAIGNS])
        if gateway.settings.signed:  # before a device pays for what is refused then
            return refused(409, HttpReason.SIGNED, OF_HTTP[HttpReason.SIGNED])
        found.check()
        document = found.side if request.path.endswith("/side") else found.campaign
        return nothing_yet() if document is None else document.answer(request)

    return {"campaign": page, "campaignSide": page}


def attach_intake(app: web.Application, gateway: Gateway) -> Views:
    """Return the page, and add the writer behind it where the deployment has campaigns."""
    if "campaigns" in gateway.settings.features:
        topic = gateway.topics.contributions
        app.cleanup_ctx.append(writing(gateway, CONTRIBUTIONS, topic, **CONTRIBUTION_BATCHES))
    return {"contribute": Contributions(gateway).post}


class Contributions(Reports):
    """The view, with token buckets of its own."""

    kinds = (PACKED,)
    most, writer, reused = MAX_CONTRIBUTION_BYTES, CONTRIBUTIONS, HttpReason.CONTRIBUTED

    async def _answer(self, request: web.Request) -> Answer:
        if CAMPAIGN not in request.app:
            return refusal(404, HttpReason.NO_CAMPAIGNS)
        if self._gateway.settings.signed:
            return refusal(409, HttpReason.SIGNED)
        if found := self._unread(request):
            return found
        request.app[CAMPAIGN].check()
        if not request.app[CAMPAIGN].is_read:  # a 409 would end what a device has paid for
            return refusal(503, HttpReason.KAFKA, KAFKA_SECONDS)
        stage = request.app[CAMPAIGN].open_stage
        if stage is None:
            return refusal(409, HttpReason.STAGE)
        try:
            body = await request.clone(client_max_size=self.most).read()
            return await self._sent(request, decode_value(body), stage, body)
        except web.HTTPRequestEntityTooLarge:
            return self._too_large()
        except WireError:
            return refusal(400, HttpReason.CONTRIBUTION)

    def _too_large(self) -> Answer:
        return refusal(413, HttpReason.CONTRIBUTION)

    async def _sent(
        self, request: web.Request, found: Contribution, stage: OpenStage, body: bytes
    ) -> Answer:
        if (found.plan, found.stage) != stage[:2]:
            return refusal(409, HttpReason.STAGE)
        if tuple(map(len, found.boxes)) != stage[2]:
            return refusal(400, HttpReason.CONTRIBUTION)
        partition = partition_of(found.key, self._gateway.settings.partitions)
        key = found.device, found.plan + bytes([found.stage])
        return await self._written(request, key, partition, body)
