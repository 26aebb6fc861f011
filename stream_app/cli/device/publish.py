"""`murmurec publish`: sanitize one rating of one user and publish it."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.device.mechanism_options import (
    EmissionOption,
    EpsilonOption,
    HistoryOption,
    JournalOption,
    MechanismOption,
    RepublishOption,
    ScaleOption,
    TrustClockOption,
    UserOption,
    allowed,
    is_epoch_emission,
    journal_path,
    mechanism_from,
    scale_from,
    today,
)
from stream_app.cli.device.publishers import item_table_for, publisher_for
from stream_app.cli.device.wording import (
    AT_ONCE,
    PUBLIC,
    journal_notices,
    protection_claim,
    warnings,
)
from stream_app.cli.options import Cluster, JsonOption
from stream_app.cli.output import notice, plural, printable, show
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from producers.device.requests import Encoder
    from producers.journal import Message
    from producers.publishing import RecordPosition
    from producers.scale import Scale
    from stream_app.privacy.mechanism import Mechanism
    from stream_app.settings import Settings
    from stream_app.wire import Item


@dataclass(frozen=True)
class PublishOptions:
    """One rating on its scale, and how it is published."""

    user: UserOption
    named_item: Annotated[str, typer.Option("--item", metavar="ID", help="The rated item; public.")]
    given_rating: Annotated[
        str, typer.Option("--rating", metavar="R", help="The rating; - reads standard input.")
    ]
    family: MechanismOption = "rr"
    epsilon: EpsilonOption = None
    given_scale: ScaleOption = None
    emission: EmissionOption = "immediate"
    journal: JournalOption = None
    republish: RepublishOption = False
    trust_clock: TrustClockOption = False
    history: HistoryOption = True
    json_encoding: Annotated[
        bool, typer.Option("--json-encoding", help="Encode the event as JSON, not MessagePack.")
    ] = False

    @cached_property
    def item(self) -> Item:
        """The rated item."""
        return _item(self.named_item)

    @cached_property
    def rating(self) -> float:
        """The rating, which may come from the standard input."""
        return _number(sys.stdin.readline() if self.given_rating == "-" else self.given_rating)

    @cached_property
    def scale(self) -> Scale:
        """The scale of the rating."""
        from producers.scale import Scale

        return scale_from(self.given_scale) or Scale()

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism on the scale."""
        return mechanism_from(self.family, self.epsilon, self.scale)

    def check(self) -> None:
        """Refuse what cannot be published, before the broker is asked and a journal is made."""
        from producers.device.rating import check_may_be_sent_at_once

        if is_epoch_emission(self.emission):
            raise UsageError(
                "--emission epoch: a single rating is sent immediately; murmurec replay "
                "--emission epoch sends whole epochs"
            )
        try:
            check_may_be_sent_at_once(self.mechanism)
            self.scale.level(self.rating)
        except ValueError as error:
            raise UsageError(str(error)) from None
        _ = self.item


def publish(cluster: Cluster, options: PublishOptions, as_json: JsonOption = False) -> None:
    """Sanitize one rating and publish it.

    Example: murmurec publish --user ann --item 1193 --rating 4
    """
    options.check()
    settings = cluster.settings()
    allowed(options.mechanism, settings)
    _show(_publish(options, settings), options, as_json)


@dataclass(frozen=True)
class Published:
    """A message, its place in the log, and the file that keeps the clean rating, if any."""

    message: Message
    position: RecordPosition
    kept: Path | None


def _publish(options: PublishOptions, settings: Settings) -> Published:
    """Spend the epsilon of a report and publish it."""
    from producers.device.rating import rate
    from producers.device.requests import ReportSettings
    from producers.identities import Identities
    from producers.journal import Journal, Limits, Unwritable
    from producers.publishing import OutboxRelay
    from producers.siblings import check_only_journal

    for warning in warnings(options.mechanism, 1):
        notice(f"warning: {warning}")
    publisher = publisher_for(settings)
    table = item_table_for(options.mechanism, settings)
    path, limits = journal_path(settings, options.journal), Limits(trust_clock=options.trust_clock)
    try:
        # The publisher closes first: it waits for the acknowledgement, which the journal records.
        with Journal.open(path, limits=limits) as journal, publisher:
            for sentence in journal_notices(journal):
                notice(sentence)
            identities = Identities(journal.key, signed=settings.signed)
            check_only_journal(journal, [options.user])
            if account := journal.enrolment(identities.pseudonym(options.user)):
                account.check_limited(printable(options.user))
            relay = OutboxRelay(journal, publisher)
            left, _ = relay.resend({publisher.topic})
            if left:
                notice(
                    f"sending {plural(left, 'event')} again that an earlier run left unacknowledged"
                )
            reporting = ReportSettings(
                publisher.topic,
                options.mechanism,
                table=table,
                encode=_encoder(options),
                identities=identities,
            )
            message = rate(
                options.user,
                options.item,
                options.rating,
                reporting,
                scale=options.scale,
                journal=journal,
                epoch=today(),
                republish=options.republish,
            )
            kept = _keep(options, message, path) if options.history else None
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
    return Published(message, position, kept)


def _keep(options: PublishOptions, message: Message, journal: Path) -> Path | None:
    """Keep the clean rating on this device; the report is paid for and goes out all the same."""
    from producers.journal import Unwritable
    from producers.ranking import CleanHistory

    history = CleanHistory(journal)
    try:
        history.append(message.device, options.item, options.rating, options.scale, time.time())
    except Unwritable as error:
        notice(f"{error}; the rating is published but not kept for lists made on this device")
        return None
    return history.path


def _encoder(options: PublishOptions) -> Encoder:
    from stream_app import wire

    if options.json_encoding:
        return lambda event: wire.encode_json(event, [options.item])
    return wire.encode


def _show(published: Published, options: PublishOptions, as_json: bool) -> None:
    mechanism, message, position = options.mechanism, published.message, published.position
    device, kept = message.device.hex(), published.kept
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
        f"protected  {protection_claim(mechanism)}",
        f"public     {PUBLIC}: device {device}, item {printable(str(options.item))}",
        f"sent       {AT_ONCE}",
    ]
    if mechanism.epsilon is not None:
        sentences.append(f"in sum     n ratings of a user spend n x {mechanism.epsilon}")
    if kept is not None:
        sentences.append(f"kept       the clean rating, on this device only: {kept} (--no-history)")
    show(row, sentences, as_json=as_json)


def _item(text: str) -> Item:
    """Return the item that a text names; refuses an integer outside the range of items."""
    from producers.ids import item_of
    from stream_app.wire import key

    item = item_of(text)
    # Without this check 2^64 and -1 would be words.
    if isinstance(item, str) and re.fullmatch(r"[+-]?[0-9]+", item):
        raise UsageError(f"item {text[:40]}: an integer item lies in 0 .. 2^63-1")
    try:
        key(item)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return item


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError("--rating: is not a number") from None
