"""The part of a running device in campaigns, from its options and settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from producers.daemon.delivery import Delivery
from producers.daemon.scheduled_contributions import Contributing
from producers.journal import Journal
from stream_app.aggregation.round_topics import RoundTopic
from stream_app.campaigns.rounds import Rounds
from stream_app.cli.device.publishers import contributions_publisher_for, pinned_terms
from stream_app.cli.options import connection_from
from stream_app.cli.output import notice
from stream_app.errors import UserError
from stream_app.settings import Settings
from stream_app.wire import Topics

if TYPE_CHECKING:
    from stream_app.cli.device.running import RunOptions


def contributing(options: RunOptions, settings: Settings, journal: Journal) -> Contributing | None:
    """Return the part in campaigns, None where neither the options name keys or a scope nor the
    settings both; pins the scope.

    Raises UserError for a journal that is a test, and as `check_pin`.
    """
    if not (options.keys or options.campaign_scope) and not (
        settings.campaign_keys and settings.campaign_scope
    ):
        return None
    if journal.unsafe:
        raise UserError(
            f"device journal {journal.path}: is a test, and a contribution cannot be marked as a "
            "test; leave --keys out, or give another journal (--journal)"
        )
    pinned, digest = pinned_terms(
        journal,
        settings,
        options.keys,
        options.campaign_scope,
        options.accept_scope,
        options.most_epsilon,
    )
    if journal.campaign_scope != digest:
        journal.pin_scope(digest, campaigns=True)
    topic = Topics(settings.topic_prefix).contributions
    if options.relay is not None:
        from producers.campaign.relayed_campaigns import RelayedCampaigns
        from producers.device.sealed_gateway import RelayProducer, SealedGateway

        gateway = SealedGateway.named(options.relay)
        connect = partial(
            RelayProducer,
            gateway,
            "/contributions",
            tag=journal.tag,
            trusted=options.trust_journal,
            over=notice,
        )
        delivery = Delivery(journal, topic, connect, notice, time.monotonic)
        return Contributing(journal, pinned, delivery, topic, RelayedCampaigns(gateway).rounds)
    make = partial(contributions_publisher_for, settings, per_account=options.producer_per_account)
    return Contributing(
        journal,
        pinned,
        Delivery(journal, topic, lambda: make().producer, notice, time.monotonic),
        topic,
        round_reader(settings),
    )


def round_reader(settings: Settings) -> Callable[[], Rounds]:
    """Return a function that reads the log of rounds to its end: from where it was, or, after an
    error, again from the newest plan."""
    opened: list[RoundTopic] = []

    def read() -> Rounds:
        if not opened:
            topic = Topics(settings.topic_prefix).rounds
            opened.append(RoundTopic(connection_from(settings), topic, newest=True))
        try:
            return opened[0].catch_up()
        except BaseException:
            opened.pop().close()
            raise

    return read
