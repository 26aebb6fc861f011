"""POST /contributions: the value of a record of the topic of contributions, as a device sealed it.

The bytes are decoded as the parties decode them, held to the stage that is open (plan, index, sizes
of the boxes), and written as they came under the pseudonym that they name. A gateway sees who takes
part in which stage and when, and no part of a vector. A 202 says that the record is in the log;
whether it counts the parties decide, who open it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from stream_app.gateway.contract.rejection_reasons import HttpReason
from stream_app.gateway.event_writer import CONTRIBUTIONS, writing
from stream_app.gateway.reads.campaign_view import CAMPAIGN, OpenStage
from stream_app.gateway.report_intake import KAFKA_SECONDS, PACKED, Answer, Reports, refusal
from stream_app.kafka.clients import CONTRIBUTION_BATCHES
from stream_app.wire import WireError
from stream_app.wire.campaigns.contribution import Contribution, decode_value
from stream_app.wire.ids import partition_of
from stream_app.wire.limits import MAX_CONTRIBUTION_BYTES

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views


def attach(app: web.Application, gateway: Gateway) -> Views:
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
