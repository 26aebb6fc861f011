"""The publishers and the public tables that the commands of a device open."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.options import campaign_keys, campaign_scope, connection_from, reached
from stream_app.cli.output import notice
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from producers.campaign.terms import Pinned
    from producers.device.item_means import ItemMeans
    from producers.journal import Journal
    from producers.publishing import Publisher
    from stream_app.aggregation.round_topics import RoundTopic
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.settings import Settings


def publisher_for(
    settings: Settings,
    relay: str | None = None,
    *,
    per_account: bool = False,
    tag: Callable[[str, bytes, bytes], bytes] | None = None,
    trusted: bool = False,
) -> Publisher:
    """Return a publisher to the rating topic; `per_account`: each account has its own producer.
    `relay`: `URL#KEY` of `--relay`, which is asked nothing before there is a message; `tag` and
    `trusted` as of a `RelayProducer`.

    Refuses a broker that does not answer, and a topic that would lose a report, since its epsilon
    would be spent for nothing. Workers check retention.
    """
    from producers.publishing import Publisher
    from stream_app.kafka import clients, topic_checks
    from stream_app.wire import Topics

    if relay is not None:
        assert tag is not None  # or the broker would see the address
        from producers.device.sealed_gateway import RelayProducer, SealedGateway

        named = SealedGateway.named(relay)
        producer = RelayProducer(named, tag=tag, trusted=trusted, over=notice)
        return Publisher(producer, Topics(settings.topic_prefix).ratings)
    connection, names = reached(settings)
    topic_checks.check_intake(
        clients.admin(connection),
        names.ratings,
        settings.partitions,
        stated=settings.partitions_stated,
        device=True,
    )
    return _publisher(settings, names.ratings, per_account=per_account)


def check_copies(
    settings: Settings,
    journals: Sequence[Journal],
    *,
    campaigns: bool = False,
    trusted: bool = False,
) -> None:
    """Raise `OlderJournal` where this user, or the rating topic, or, for `campaigns`, that of
    contributions knows later releases than a journal; say so where a topic cannot be read.
    `trusted`: none of the topics is asked."""
    from producers.last_seen import check_contributions, check_newest, newest_seqs
    from stream_app.wire import Topics
    from stream_app.wire.signatures import Signatures

    for journal in journals:
        journal.check_newest()
    if trusted:
        return
    connection, count = connection_from(settings), settings.partitions
    names = Topics(settings.topic_prefix)
    owners = {each.device: journal for journal in journals for each in journal.enrolled()}
    signatures = Signatures(names.ratings, settings.signed)
    newest = newest_seqs(connection, names.ratings, count, owners, signatures)
    for device, event in (newest or {}).items():
        check_newest(owners[device], names.ratings, {device: event})
    closed = [names.ratings] if newest is None else []
    if campaigns and not check_contributions(
        connection, names.contributions, count, owners, signed=settings.signed
    ):
        closed.append(names.contributions)
    for topic in closed:
        notice(
            f"this user may not read {topic}, so an older copy of the journal that another machine "
            "has continued would not be found; grant READ on it to compare"
        )


def contributions_publisher_for(settings: Settings, *, per_account: bool = False) -> Publisher:
    """Return a publisher to the topic of contributions; refuses topics that would lose some."""
    from stream_app.kafka import topic_checks

    connection, names = reached(settings)
    stated = settings.partitions_stated
    topic_checks.check_campaigns(connection, names, settings.partitions, stated=stated, device=True)
    return _publisher(settings, names.contributions, per_account=per_account)


def round_log(settings: Settings, *, newest: bool = False) -> closing[RoundTopic]:
    """Give the log of rounds, from its beginning or from the `newest` plan, and close it."""
    from stream_app.aggregation.round_topics import RoundTopic
    from stream_app.wire import Topics

    topic = Topics(settings.topic_prefix).rounds
    return closing(RoundTopic(connection_from(settings), topic, newest=newest))


def _publisher(settings: Settings, topic: str, *, per_account: bool = False) -> Publisher:
    from producers.publishing import AccountProducers, PlacedProducer, Producer, Publisher
    from stream_app.kafka import clients
    from stream_app.wire import Topics

    connection, names = connection_from(settings), Topics(settings.topic_prefix)

    def make() -> Producer:
        # No timeout: a dropped record before later ones would break the order of a device's events.
        sizes = clients.CONTRIBUTION_BATCHES if topic == names.contributions else {}
        producer = clients.producer(connection, linger_ms=20, message_timeout_ms=0, **sizes)
        return PlacedProducer(producer, topic, settings.partitions)

    return Publisher(AccountProducers(make) if per_account else make(), topic)


def pinned_terms(
    journal: Journal,
    settings: Settings,
    keys: list[Path] | None,
    scope: Path | None,
    accepted: str | None,
    most_epsilon: str,
) -> tuple[Pinned, bytes]:
    """Return the keys, the items and the largest epsilon of campaigns that the device takes part
    in, and the digest of the items; raises as `check_pin` where the journal has another."""
    from producers.campaign.terms import Pinned
    from producers.device.pinned_scope import check_pin, read_ordered
    from stream_app.campaigns.planning import LARGEST_EPSILON
    from stream_app.wire.limits import MAX_SCOPE

    file = campaign_scope(settings, scope)
    public = campaign_keys(settings, keys)
    most = positive_fraction("--most-epsilon", most_epsilon)
    if most > LARGEST_EPSILON:
        raise UsageError(f"--most-epsilon {most_epsilon}: above 0 and at most {LARGEST_EPSILON}")
    items, digest = read_ordered(file, MAX_SCOPE)
    check_pin(journal, file, digest, accepted, campaigns=True)
    notice = settings.campaign_notice_seconds
    return Pinned(public, items, most, settings.signed, notice), digest


def item_table_for(mechanism: Mechanism, settings: Settings, *, patient: bool = False) -> ItemMeans:
    """Return the public item table, kept up to date; empty for a mechanism that does not use it.

    `patient`: a broker that is away is no error; the table is read when it is used.
    """
    from producers.device import item_means as item_table
    from stream_app.wire import Topics

    if not mechanism.masks:
        return item_table.ItemTable()
    connection, topic = connection_from(settings), Topics(settings.topic_prefix).item_table
    return item_table.RefreshedItemTable(
        lambda: item_table.read(connection, topic), patient=patient
    )
