"""Where reports and contributions go, and what the site may ask the recommender.

A `connect` returns a producer once the topic was checked; UserError where the recommender is away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from producers.campaign.terms import Pinned
from producers.daemon.cells import Cells
from producers.daemon.delivery import Connect
from producers.device.item_means import ItemMeans, ItemTable
from producers.journal import Journal, Limits
from stream_app.campaigns.public_side import PublishedSide
from stream_app.campaigns.rounds import Rounds

OUTBOX_BYTES = 16 << 20  # of messages of a book that wait


@dataclass(frozen=True)
class CampaignOptions:
    """Taking part in campaigns: what is pinned, with the SHA-256 of its scope, and how the log of
    rounds and the published side are read (UserError where they cannot be)."""

    topic: str
    connect: Connect
    pinned: Pinned
    scope_digest: bytes
    rounds: Callable[[], Rounds]
    published: Callable[[], PublishedSide | None]


@dataclass(frozen=True)
class ReportingOptions:
    """What a site may leave out.

    table         the public item table, for mechanisms with masks
    cells         the public scope, for mechanisms that protect presence, with its SHA-256
    accept_scope  the SHA-256 in hex of a scope that may replace the pinned one
    check         given the journals of books that were opened, once the recommender was reached:
                  raises `OlderJournal` where the topic holds later events than they know
    forget        asks the recommender to forget a device; UserError where it cannot be asked now.
                  None: only its operator may, and is told the pseudonym
    """

    table: ItemMeans = field(default_factory=ItemTable)
    cells: Cells | None = None
    scope_digest: bytes = b""
    accept_scope: str | None = None
    campaigns: CampaignOptions | None = None
    check: Callable[[Sequence[Journal]], None] | None = None
    forget: Callable[[bytes], None] | None = None
    limits: Limits = field(default_factory=Limits)
    outbox_bytes: int = OUTBOX_BYTES
