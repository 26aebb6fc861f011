"""`murmurec device contribute`: the device's part in the open stage of a campaign."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.campaign_settings import campaign_keys, campaign_scope
from stream_app.cli.device.mechanism_options import (
    JournalOption,
    TrustClockOption,
    UserOption,
    journal_path,
    positive_fraction,
)
from stream_app.cli.device.reporting_options import AcceptScopeOption
from stream_app.cli.options import Cluster, connection_from
from stream_app.cli.output import notice, plural, printable, say
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from producers.campaign import Pinned
    from producers.journal import Journal, Message
    from producers.publishing import Publisher
    from stream_app.campaigns.public_side import PublicSide
    from stream_app.campaigns.rounds import Rounds
    from stream_app.settings import Settings


def contribute(
    cluster: Cluster,
    user: UserOption,
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--keys",
            metavar="PUB",
            help="Public half of a party that you trust; a, then b (env MURMUREC_CAMPAIGN_KEYS).",
        ),
    ] = None,
    scope: Annotated[
        Path | None,
        typer.Option(
            "--scope",
            metavar="FILE",
            help="The campaign's items, one per line; its SHA-256 is stored at the first use "
            "(env MURMUREC_CAMPAIGN_SCOPE).",
        ),
    ] = None,
    most_epsilon: Annotated[
        str,
        typer.Option("--most-epsilon", metavar="E", help="Refuse a plan that states more."),
    ] = "2",
    accept_scope: AcceptScopeOption = None,
    journal: JournalOption = None,
    trust_clock: TrustClockOption = False,
) -> None:
    """Contribute to the open stage of a campaign, once; what is sealed follows the kept ratings.

    A person without ratings contributes zeros: who takes part depends on no rating.

    Example: murmurec device contribute --user ann --keys a.pub --keys b.pub --scope items.txt
    """
    from producers.identities import Identities
    from producers.journal import Journal, Limits, enrolled

    settings = cluster.settings()
    path = journal_path(settings, journal)
    if not path.exists():
        raise UserError(f"device journal {path}: there is none; murmurec device enrol creates it")
    with Journal.open(path, limits=Limits(trust_clock=trust_clock)) as opened:
        try:
            device = Identities(opened.key, signed=settings.signed).pseudonym(user)
        except ValueError as error:
            raise UserError(str(error)) from None
        account = enrolled(opened.enrolment(device), device, printable(user))
        account.check_limited(printable(user))
        file = campaign_scope(settings, scope)
        public = campaign_keys(settings, keys)
        pinned, digest = _pinned(opened, public, file, accept_scope, most_epsilon)
        rounds = _rounds(settings)
        wanted = _Wanted(rounds, pinned, digest, _side(settings, rounds))
        _run(settings, opened, device, wanted)


@dataclass(frozen=True, eq=False)
class _Wanted:
    """The log of rounds, what is pinned, the digest of the scope, which is stored if new, and the
    side that the stages before have published, where the open stage needs it."""

    rounds: Rounds
    pinned: Pinned
    digest: bytes
    side: PublicSide | None


def _pinned(
    journal: Journal, keys: tuple[str, ...], scope: Path, accepted: str | None, most: str
) -> tuple[Pinned, bytes]:
    from producers.campaign import Pinned
    from producers.device.pinned_scope import check_pin, read_ordered
    from stream_app.campaigns.planning import LARGEST_EPSILON
    from stream_app.wire.limits import MAX_SCOPE

    allowed = positive_fraction("--most-epsilon", most)
    if allowed > LARGEST_EPSILON:
        raise UsageError(f"--most-epsilon {most}: above 0 and at most {LARGEST_EPSILON}")
    items, digest = read_ordered(scope, MAX_SCOPE)
    check_pin(journal, scope, digest, accepted, campaigns=True)
    return Pinned(keys, items, allowed), digest


def _rounds(settings: Settings) -> Rounds:
    """Return the state of the log of rounds now."""
    from stream_app.aggregation.topics import RoundTopic
    from stream_app.kafka import clients, topic_checks
    from stream_app.wire import Topics

    connection, names = connection_from(settings), Topics(settings.topic_prefix)
    clients.describe_cluster(connection)
    topic_checks.check_campaigns(connection, names, device=True)
    log = RoundTopic(connection, names.rounds, newest=True)
    try:
        return log.catch_up()
    finally:
        log.close()


def _side(settings: Settings, rounds: Rounds) -> PublicSide | None:
    """Return what is public of the plan, None where the open stage does not look at it: what is
    read depends on the log of rounds alone."""
    from producers.ranking import campaign_side
    from stream_app.campaigns.stars import shape

    stage = rounds.current
    if stage is None or stage.stage.kind not in shape.KINDS:
        return None
    found = campaign_side(connection_from(settings), settings.topic_prefix)
    return found.side if found is not None and found.plan == stage.plan else None


def _run(settings: Settings, journal: Journal, device: bytes, wanted: _Wanted) -> None:
    """Send what an earlier run has left; contribute, unless that was this stage; wait for Kafka."""
    from producers.publishing import OutboxRelay, Publisher
    from stream_app.kafka import clients
    from stream_app.wire import Topics

    topic = Topics(settings.topic_prefix).contributions
    producer = clients.producer(connection_from(settings), linger_ms=20, message_timeout_ms=0)
    waiting = [each for each in journal.pending() if each.topic == topic]
    before = _debits(journal, device)
    with Publisher(producer, topic) as publisher:
        relay = OutboxRelay(journal, publisher)
        relay.resend({topic})
        message = None
        if not any(each.device == device and _is_of(each, wanted.rounds) for each in waiting):
            message = _contribution(journal, device, wanted, topic)
            relay.send(message)
    _check(publisher)
    if waiting:
        say(f"sent again {plural(len(waiting), 'contribution')} of an earlier run, the same bytes")
    if message is not None:
        _show(message, wanted.rounds, paid=_debits(journal, device) > before)


def _show(message: Message, rounds: Rounds, *, paid: bool) -> None:
    campaign, stage = rounds.campaign, rounds.current
    assert campaign is not None
    assert stage is not None
    say(f"stage {stage.index} ({stage.stage.kind}): contributed {len(message.value)} bytes")
    cost = f"epsilon {float(campaign.epsilon):g} at delta {float(campaign.delta):g}"
    if paid:
        say(f"paid {cost} for you as a person: all stages of campaign {campaign.number} today")
    else:
        say(f"nothing more was paid: {cost} for you as a person was, earlier today")


def _debits(journal: Journal, device: bytes) -> int:
    """Return how often whole campaigns, or other releases under `user`, were paid."""
    spent = journal.spent(device).get("user")
    return 0 if spent is None else spent.reports


def _contribution(journal: Journal, device: bytes, wanted: _Wanted, topic: str) -> Message:
    from producers.campaign import check, open_stage
    from producers.campaign import contribute as contributed
    from producers.ranking import CleanHistory
    from stream_app.wire import EPOCH_SECONDS

    check(open_stage(wanted.rounds)[0], wanted.pinned)  # before the scope is stored
    rated = CleanHistory(journal.path).rated(device)
    if journal.campaign_scope != wanted.digest:
        journal.pin_scope(wanted.digest, campaigns=True)
    message = contributed(
        journal,
        device,
        rated,
        wanted.rounds,
        wanted.pinned,
        side=wanted.side,
        topic=topic,
        epoch=journal.epoch(int(time.time()) // EPOCH_SECONDS),
    )
    if not rated:
        notice("this device has kept no rating of this user: what it contributes are zeros")
    return message


def _is_of(message: Message, rounds: Rounds) -> bool:
    """Return whether a message of the journal is a contribution to the open stage."""
    import msgspec

    from stream_app.wire.campaigns.contribution import Contribution

    stage, found = rounds.current, msgspec.msgpack.decode(message.value, type=Contribution)
    return stage is not None and (found.plan, found.stage) == (stage.plan, stage.index)


def _check(publisher: Publisher) -> None:
    if publisher.failed:
        raise UserError(
            f"the contribution was not accepted: {publisher.first_error}; it is kept in the "
            "journal, and the next run sends the same bytes"
        )
