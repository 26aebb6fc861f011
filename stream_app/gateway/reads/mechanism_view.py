"""GET /mechanisms: what devices may release, and the integer tables that a browser samples from.

    counts[v][z] of 2^64 words lead from level v to report z        decimal strings: JavaScript's
    like: one more row, of an item without a rating                 numbers end at 2^53

A device certifies the counts by itself before it draws (`deploy/web/device.js`): a gateway is not
trusted with them. Counts are shown of the mechanisms that a page in a browser can use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from stream_app.gateway.contract.bodies import AllowedMechanism, Mechanisms
from stream_app.privacy.exact.certificates import digest
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.web.cached_document import Document

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views

SIGNED = "devices of this deployment sign their events, which a page in a browser does not do"
PARTITION = (
    "it reports over groups of levels, and a device chooses the groups by the public item table"
)
PRESENCE = (
    "it hides that there is a rating, so a device reports on its whole scope once a day, rated or "
    "not; of such mechanisms a page can prove the table of like alone"
)
NOTHING = "it protects nothing: the report is the rating"


def page_of(gateway: Gateway) -> Mechanisms:
    """Return what is allowed under the settings of a gateway; `default`: the first one that a
    browser can use, or the first."""
    settings = gateway.settings
    signed = settings.devices == "signed"
    allowed = tuple(_shown(each, signed=signed) for each in gateway.mechanisms)
    default = next((each for each in allowed if each.in_browser), allowed[0])
    topic = gateway.topics.ratings
    return Mechanisms(
        default.id,
        settings.privacy_mode,
        settings.devices,
        topic,
        allowed,
        demo=gateway.demo_facts is not None,
        grafana=settings.gateway_grafana,
    )


def _shown(mechanism: Mechanism, *, signed: bool) -> AllowedMechanism:
    table = None if len(mechanism.masks) else mechanism.table()
    why_not = SIGNED if signed else _why_not(mechanism)
    usable = why_not is None and table is not None
    counts = tuple(tuple(map(str, row)) for row in table.counts) if usable and table else None
    return AllowedMechanism(
        id=mechanism.id,
        family=mechanism.family,
        levels=mechanism.levels,
        epsilon=None if mechanism.epsilon is None else str(mechanism.epsilon),
        adjacency=str(mechanism.adjacency),
        protected=mechanism.protected,
        observed=mechanism.observed,
        limit=mechanism.limit,
        certificate=None if table is None else digest(table),
        counts=counts,
        in_browser=usable,
        why_not=why_not,
    )


def _why_not(mechanism: Mechanism) -> str | None:
    """Return why a page cannot use a mechanism: it proves and draws from one table, for a public
    rating or for a cell of a scope (`deploy/web/epoch_reports.js`)."""
    if isinstance(mechanism, RandomizedResponse | Like):
        return None
    if mechanism.adjacency is Adjacency.NOTHING:
        return NOTHING
    return PARTITION if mechanism.adjacency is Adjacency.VALUE else PRESENCE


def attach(_: web.Application, gateway: Gateway) -> Views:
    """Return the page; it is made once."""
    document = Document.made(msgspec.json.encode(page_of(gateway)), "application/json")

    async def mechanisms(request: web.Request) -> web.Response:
        return document.answer(request)

    return {"mechanisms": mechanisms}
