"""`murmurec publish`: sanitize one rating of one user and publish it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.cli.commands import option
from stream_app.cli.device import mechanism_options, wording
from stream_app.cli.device.publishers import check_copies, item_table_for, publisher_for
from stream_app.cli.device.reporting_options import MechanismOptions
from stream_app.cli.options import Cluster, JsonOption
from stream_app.cli.output import notice, plural, printable, refusing, show
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from producers.device.requests import Encoder
    from producers.identities import Identities
    from producers.journal import Journal, Message
    from producers.publishing import RecordPosition
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.settings import Settings
    from stream_app.wire import Item


@dataclass(frozen=True, kw_only=True)
class PublishOptions(MechanismOptions):
    """One rating on its scale, and how it is published."""

    user: mechanism_options.UserOption
    named_item: str = option(..., "The rated item; public.", "ID", "--item")
    given_rating: str = option(..., "The rating; - reads standard input.", "R", "--rating")
    emission: mechanism_options.EmissionOption = "immediate"
    republish: mechanism_options.RepublishOption = False
    history: bool = option(
        True,
        "Keep the clean rating beside the journal, for lists made on this device.",
        None,
        "--history/--no-history",
        envvar="MURMUREC_DEVICE_HISTORY",
        show_envvar=False,
    )
    relay: mechanism_options.RelayOption = None
    json_encoding: bool = option(False, "Encode the event as JSON, not MessagePack.")

    def rated(self) -> Rated:
        """Return the rating; refuses what cannot be published, before the broker is asked and a
        journal is made."""
        from producers.device.rating import check_may_be_sent_at_once
        from producers.scale import Scale

        if mechanism_options.is_epoch_emission(self.emission):
            raise UsageError(
                "--emission epoch: a single rating is sent immediately; murmurec replay "
                "--emission epoch sends whole epochs"
            )
        mechanism_options.check_user(self.user)
        item, scale = _item(self.named_item), self.scale or Scale()
        try:
            stars = float(sys.stdin.readline() if self.given_rating == "-" else self.given_rating)
        except ValueError:
            raise UsageError("--rating: is not a number") from None
        mechanism = mechanism_options.mechanism_from(self.mechanism, self.epsilon, scale)
        with refusing(UsageError):
            check_may_be_sent_at_once(mechanism)
            scale.level(stars)
        mechanism_options.check_relay(self.relay, mechanism)
        return Rated(item, stars, scale, mechanism)


@dataclass(frozen=True)
class Rated:
    """A rating of an item on its scale, and the mechanism that sanitizes it."""

    item: Item
    stars: float
    scale: Scale
    mechanism: Mechanism


def publish(cluster: Cluster, options: PublishOptions, as_json: JsonOption = False) -> None:
    """Sanitize one rating and publish it.

    Example: murmurec publish --user ann --item 1193 --rating 4
    """
    rated, settings = options.rated(), cluster.settings()
    mechanism_options.allowed(rated.mechanism, settings)
    for warning in wording.warnings(rated.mechanism, 1):
        notice(f"warning: {warning}")
    _show(rated, as_json, *_publish(rated, options, settings))


def _publish(
    rated: Rated, options: PublishOptions, settings: Settings
) -> tuple[Message, RecordPosition, Path | None]:
    """Publish a report; return its message, place in the log, and the file of kept ratings."""
    from producers.device.rating import rate
    from producers.device.requests import ReportSettings
    from producers.journal import Journal, Unwritable
    from producers.publishing import OutboxRelay
    from stream_app import wire

    path = mechanism_options.journal_path(settings, options.journal)

    def tag(topic: str, device: bytes, digest: bytes) -> bytes:
        return journal.tag(topic, device, digest)  # it is opened once a broker answers

    publisher = publisher_for(settings, options.relay, tag=tag, trusted=options.trust_journal)
    table = item_table_for(rated.mechanism, settings)
    try:
        # The publisher closes first: it waits for the acknowledgement, which the journal records.
        with Journal.open(path, limits=options.limits) as journal, publisher:
            for sentence in wording.journal_notices(journal):
                notice(sentence)
            identities = _checked(options, settings, journal)
            relay = OutboxRelay(journal, publisher)
            if left := relay.resend({publisher.topic})[0]:
                notice(
                    f"sending {plural(left, 'event')} again that an earlier run left unacknowledged"
                )
            reporting = ReportSettings(
                publisher.topic,
                rated.mechanism,
                table=table,
                encode=_encoder(rated.item) if options.json_encoding else wire.encode,
                identities=identities,
            )
            message = rate(
                options.user,
                rated.item,
                rated.stars,
                reporting,
                scale=rated.scale,
                journal=journal,
                epoch=mechanism_options.today(),
                republish=options.republish,
            )
            kept = _keep(rated, message, path) if options.history else None
            relay.send(message, kept=True)
    except Unwritable as error:
        raise UserError(f"{error}; the rating was not sent") from None
    except ValueError as error:
        raise UserError(str(error)) from None
    position = relay.places.get(message.number)
    if position is None:
        raise UserError(
            f"the event was not accepted: {publisher.first_error}; it is kept in the journal, and "
            "the next publish or replay sends the same bytes"
        )
    return message, position, kept


def _checked(options: PublishOptions, settings: Settings, journal: Journal) -> Identities:
    """Return the user's identities; refuses an account elsewhere, without a limit, or older."""
    from producers.identities import Identities
    from producers.siblings import check_only_journal

    identities = Identities(journal.key, signed=settings.signed)
    check_only_journal(journal, [options.user])
    if account := journal.enrolment(identities.pseudonym(options.user)):
        account.check_limited(printable(options.user))
    check_copies(settings, [journal], trusted=bool(options.trust_journal or options.relay))
    return identities


def _keep(rated: Rated, message: Message, journal: Path) -> Path | None:
    """Keep the clean rating on this device; the report is paid for and goes out all the same."""
    from producers.journal import Unwritable
    from producers.ranking import CleanHistory

    history = CleanHistory(journal)
    try:
        history.append(message.device, rated.item, rated.stars, rated.scale, time.time())
    except Unwritable as error:
        notice(f"{error}; the rating is published but not kept for lists made on this device")
        return None
    return history.path


def _encoder(item: Item) -> Encoder:
    from stream_app import wire

    return lambda event: wire.encode_json(event, [item])


def _show(
    rated: Rated, as_json: bool, message: Message, position: RecordPosition, kept: Path | None
) -> None:
    mechanism, device = rated.mechanism, message.device.hex()
    row = {
        "topic": message.topic,
        "partition": position.partition,
        "offset": position.offset,
        "device": device,
        "seq": message.seq,
        "mechanism": mechanism.id,
        "adjacency": str(mechanism.adjacency),
        "epsilon": None if mechanism.epsilon is None else str(mechanism.epsilon),
        "kept": None if kept is None else str(kept),
    }
    sentences = [
        f"accepted   {message.topic}, partition {position.partition}, offset {position.offset}",
        f"protected  {wording.protection_claim(mechanism)}",
        f"public     {wording.PUBLIC}: device {device}, item {printable(str(rated.item))}",
        f"sent       {wording.AT_ONCE}",
    ]
    if mechanism.epsilon is not None:
        sentences.append(f"in sum     n ratings of a user spend n x {mechanism.epsilon}")
    if kept is not None:
        sentences.append(f"kept       the clean rating, on this device only: {kept} (--no-history)")
    show(row, sentences, as_json=as_json)


def _item(text: str) -> Item:
    from stream_app.wire import key, parse_item

    with refusing(UsageError):
        key(text)
    return parse_item(text)
