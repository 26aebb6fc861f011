"""Publishing the item side of a campaign, for devices that rank by themselves: the clock's owner.

    state: plan, stages released, side --> bytes --differs from the topic--> pages, manifest

What is published stands in the cut log as noisy sums and has taken effect in the state, so no
reader has a side that a replica could lose. The owner publishes before it takes the next step of a
campaign: a later plan never overtakes the side of the one before, which stays in the topic until a
stage of the later one is released. An owner that is killed in between leaves the step to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import structlog

from stream_app.campaigns.public_side import PublicSide, PublishedSide, encode_published
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.table_versions import Versions, published, write
from stream_app.state.campaigns.progress import CampaignProgress
from stream_app.wire.public_tables import TableRecord

log = structlog.get_logger()

_LOOK_SECONDS = 30.0  # between two looks at what the topic holds


@dataclass
class SidePublisher:
    """Writes the side of a standing unless the topic holds it; one object for each time that the
    clock is owned. `write` returns when the records are durable."""

    versions: Versions
    write: Callable[[list[TableRecord]], None]
    now: Callable[[], float] = time.monotonic
    _seen: PublicSide | None = None
    _looked: float = -inf

    def publish(self, standing: CampaignProgress, cut: int) -> None:
        """Bring the topic to the side of the plan in force; raises UserError where the topic cannot
        be read or written, and the next call tries again.

        The side of an earlier plan was published before the present one began.
        """
        side, plan = standing.side, standing.plan
        if side is None or plan is None or side.number != plan.number:
            return
        again = self.now() - self._looked >= _LOOK_SECONDS
        if side is self._seen and not again:
            return
        if again:
            # A former owner may have been stopped in the middle of a write, and gone on since.
            self.versions.look_again()
            self._looked = self.now()
        found = PublishedSide.of_campaign(plan, standing.released, side)
        try:
            records = self.versions.due(encode_published(found), cut)
            if records:
                self.write(records)
        except ValueError as error:
            log.warning("item_side.unpublished", number=side.number, reason=str(error))
        except BaseException:
            self.versions.look_again()
            raise
        else:
            if records:
                log.info("item_side.written", number=side.number, released=standing.released)
        self._seen = side


def publisher(connection: Connection, topic: str) -> SidePublisher:
    """Return a publisher to a topic."""
    writer = AcknowledgedWriter.connect(connection, topic, "the side of a campaign")
    return SidePublisher(
        Versions(lambda: published(connection, topic)), lambda version: write(writer, version)
    )
