"""`murmurec device contribute`: the device's part in the open stage of a campaign."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.cli.commands import option
from stream_app.cli.device import mechanism_options
from stream_app.cli.device.publishers import (
    check_copies,
    contributions_publisher_for,
    pinned_terms,
    round_log,
)
from stream_app.cli.device.reporting_options import AcceptScopeOption, KeysOption, MostEpsilonOption
from stream_app.cli.options import Cluster
from stream_app.cli.output import notice, plural, printable, refusing, say
from stream_app.errors import UserError

if TYPE_CHECKING:
    from producers.campaign.terms import Pinned
    from producers.identities import Identities
    from producers.journal import Journal, Message
    from producers.publishing import Publisher
    from stream_app.campaigns.rounds import Rounds


def contribute(
    cluster: Cluster,
    user: mechanism_options.UserOption,
    keys: KeysOption = None,
    scope: Path | None = option(
        None,
        "The campaign's items, one per line; its SHA-256 is stored at the first use "
        "(env MURMUREC_CAMPAIGN_SCOPE).",
        "FILE",
    ),
    most_epsilon: MostEpsilonOption = "2",
    accept_scope: AcceptScopeOption = None,
    journal: mechanism_options.JournalOption = None,
    trust_clock: mechanism_options.TrustClockOption = False,
    trust_journal: mechanism_options.TrustJournalOption = False,
) -> None:
    """Contribute to the open stage of a campaign, once; what is sealed follows the kept ratings.

    A person without ratings contributes zeros: who takes part depends on no rating.

    Example: murmurec device contribute --user ann --keys a.pub --keys b.pub --scope items.txt
    """
    from producers.identities import Identities
    from producers.journal import Journal, Limits, enrolled

    settings = cluster.settings()
    path = mechanism_options.journal_path(settings, journal)
    if not path.exists():
        raise UserError(f"device journal {path}: there is none; murmurec device enrol creates it")
    with Journal.open(path, limits=Limits(trust_clock=trust_clock)) as opened:
        opened.check_kind(simulated=False)
        with refusing(UserError):
            identities = Identities(opened.key, signed=settings.signed)
            device = identities.pseudonym(user)
        account = enrolled(opened.enrolment(device), device, printable(user))
        account.check_limited(printable(user))
        pinned, digest = pinned_terms(opened, settings, keys, scope, accept_scope, most_epsilon)
        publisher = contributions_publisher_for(settings)
        check_copies(settings, [opened], campaigns=True, trusted=trust_journal)
        with round_log(settings, newest=True) as log:
            rounds = log.catch_up()
        _run(publisher, opened, device, _Wanted(rounds, pinned, digest, identities))


@dataclass(frozen=True, eq=False)
class _Wanted:
    """The log of rounds, what is pinned, the digest of the scope, which is stored if new, and who
    signs."""

    rounds: Rounds
    pinned: Pinned
    digest: bytes
    identities: Identities


def _run(publisher: Publisher, journal: Journal, device: bytes, wanted: _Wanted) -> None:
    """Send what an earlier run has left; contribute, unless that was this stage; wait for Kafka."""
    from producers.publishing import OutboxRelay

    topic = publisher.topic
    waiting = [each for each in journal.pending() if each.topic == topic]
    before = _debits(journal, device)
    with publisher:
        relay = OutboxRelay(journal, publisher)
        relay.resend({topic})
        message = None
        if not any(each.device == device and _is_of(each, wanted.rounds) for each in waiting):
            message = _contribution(journal, device, wanted, topic)
            relay.send(message)
    if publisher.failed:
        raise UserError(
            f"the contribution was not accepted: {publisher.first_error}; it is kept in the "
            "journal, and the next run sends the same bytes"
        )
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
    from producers.campaign.stage_requests import Sending
    from producers.campaign.stage_requests import contribute as contributed
    from producers.campaign.terms import check, check_notice, open_stage
    from producers.ranking import CleanHistory

    check(open_stage(wanted.rounds)[0], wanted.pinned)  # before the scope is stored
    check_notice(wanted.rounds, wanted.pinned)
    rated = CleanHistory(journal.path).rated(device)
    if journal.campaign_scope != wanted.digest:
        journal.pin_scope(wanted.digest, campaigns=True)
    message = contributed(
        journal,
        device,
        rated,
        wanted.rounds,
        wanted.pinned,
        Sending(topic, journal.epoch(mechanism_options.today()), wanted.identities),
    )
    if not rated:
        notice("this device has kept no rating of this user: what it contributes are zeros")
    return message


def _is_of(message: Message, rounds: Rounds) -> bool:
    """Return whether a message of the journal is a contribution to the open stage."""
    from stream_app.wire.campaigns.contribution import decode_value

    stage, found = rounds.current, decode_value(message.value)
    return stage is not None and (found.plan, found.stage) == (stage.plan, stage.index)
