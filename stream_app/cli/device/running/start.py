"""What the command line of `murmurec device run` means, and the program that it starts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from producers.daemon.cells import Cells
from producers.daemon.clock import SystemClock
from producers.daemon.delivery import Delivery
from producers.daemon.due_requests import Reporting
from producers.daemon.kept_ratings import KeptRatings
from producers.daemon.runner import Daemon
from producers.daemon.sources.pipe import Pipe
from producers.daemon.sources.source import Source
from producers.daemon.sources.watched_file import Places, WatchedFile
from producers.device.requests import ReportSettings
from producers.identities import Identities
from producers.journal import Journal
from producers.publishing import Producer
from producers.ranking.clean_history import CleanHistory
from producers.scale import Scale
from producers.siblings import check_only_journal
from stream_app.cli.device.mechanism_options import allowed, journal_path
from stream_app.cli.device.publishers import check_copies, item_table_for, publisher_for
from stream_app.cli.device.running.budgets import check_plans, planned_mechanism, rounds_claims
from stream_app.cli.device.running.campaign_part import contributing
from stream_app.cli.device.running.reported_cells import ServersCatalogue, cells_of
from stream_app.cli.device.wording import journal_notices, protection_claim
from stream_app.cli.output import notice, plural, printable, refusing
from stream_app.errors import UserError
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings
from stream_app.wire import EPOCH_SECONDS, Topics

if TYPE_CHECKING:
    from stream_app.cli.device.running import RunOptions


def run_device(options: RunOptions, settings: Settings) -> None:
    """Run the device until SIGTERM or SIGINT; UserError where it cannot go on."""
    limits, scale = options.limits, options.scale or Scale()
    named = None if options.planned else _named(options, scale, settings)
    clock = SystemClock()
    sources: list[Source] = []
    try:
        with (
            refusing(UserError),
            clock.until_signalled(),
            Journal.open(journal_path(settings, options.journal), limits=limits) as journal,
        ):
            mechanism = named or allowed(planned_mechanism(journal), settings)
            options.check(mechanism)
            daemon = _daemon(options, settings, mechanism, journal, clock, sources)
            for sentence in (*journal_notices(journal), *_notices(daemon, mechanism)):
                notice(sentence)
            daemon.run(lambda: clock.stopped)
            notice(
                f"stopped after {plural(daemon.messages, 'message')}; "
                f"{plural(daemon.delivery.unconfirmed, 'message')} wait in the journal"
            )
    finally:
        for source in sources:
            source.close()


def _named(options: RunOptions, scale: Scale, settings: Settings) -> Mechanism:
    """Return the mechanism that the options name; refused before a journal is made."""
    mechanism = allowed(options.named_mechanism(scale, options.epsilon), settings)
    options.check(mechanism)
    return mechanism


def _daemon(
    options: RunOptions,
    settings: Settings,
    mechanism: Mechanism,
    journal: Journal,
    clock: SystemClock,
    sources: list[Source],
) -> Daemon:
    journal.check_kind(simulated=False)
    identities = Identities(journal.key, signed=settings.signed)
    accounts = journal.enrolled()
    if options.user is not None:
        users = [options.user]
        identities.check_journal(journal, users)
        check_only_journal(journal, users)
        user, account = (
            printable(options.user),
            journal.enrolment(identities.pseudonym(options.user)),
        )
        if account is None:
            raise UserError(f"{user} is not enrolled: run murmurec device enrol --user {user}")
        account.check_limited(user)
    if not accounts:
        raise UserError(
            f"device journal {journal.path}: no account takes part, so there is nothing to report; "
            "run murmurec device enrol --user ID"
        )
    if settings.signed:
        _seal_for(options, identities, [account.device for account in accounts])
    check_plans(journal, mechanism)
    topic = Topics(settings.topic_prefix).ratings
    epoch = journal.epoch(int(clock.now()) // EPOCH_SECONDS)
    cells = cells_of(options, settings, mechanism, journal, epoch)
    history = CleanHistory(journal.path)
    sources += _sources(options, journal)
    table = item_table_for(mechanism, settings, patient=True)
    reporting = Reporting(ReportSettings(topic, mechanism, table, identities=identities), cells)
    servers = ServersCatalogue(options, settings, journal)

    def connect() -> Producer:
        producer = _connected(options, settings, journal)
        servers.compare(reporting)
        return producer

    return Daemon(
        journal=journal,
        reporting=reporting,
        ratings=KeptRatings(history, identities, options.scale or Scale(), options.user),
        delivery=Delivery(journal, topic, connect, notice, time.monotonic),
        sources=sources,
        clock=clock,
        notice=notice,
        campaigns=contributing(options, settings, journal),
    )


def _seal_for(options: RunOptions, identities: Identities, devices: list[bytes]) -> None:
    """Derive the key pair of the user; that of another account needs its user's id."""
    if options.user is None or [identities.pseudonym(options.user)] != devices:
        raise UserError(
            "devices = signed: a signature needs the id of the account's user, so a device reports "
            "for one account: give --user ID, and a journal with no other account (--journal)"
        )


def _sources(options: RunOptions, journal: Journal) -> list[Source]:
    for path in options.watched or ():
        if path.expanduser().exists() and not path.expanduser().is_file():
            raise UserError(
                f"--watch {printable(str(path))}: is no file; give a file of lines, or send them "
                "with --stdin"
            )
    places = Places(journal.path)
    found: list[Source] = [WatchedFile(path, places, journal.key) for path in options.watched or ()]
    if options.stdin and sys.stdin is None:
        raise UserError("--stdin: the input is closed; leave the option out, or give an input")
    if options.stdin:
        found.append(Pipe(sys.stdin.fileno()))
    return found


def _connected(options: RunOptions, settings: Settings, journal: Journal) -> Producer:
    """Return a producer, after the topic and what it holds of this device were checked."""
    publisher = publisher_for(
        settings,
        options.relay,
        per_account=options.producer_per_account,
        tag=journal.tag,
        trusted=options.trust_journal,
    )
    takes_part = bool(journal.campaign_scope)
    trusted = options.trust_journal or options.relay is not None  # the gateway finds some: 409
    check_copies(settings, [journal], campaigns=takes_part, trusted=trusted)
    return publisher.producer


def _notices(daemon: Daemon, mechanism: Mechanism) -> Iterator[str]:
    accounts, cells = daemon.journal.enrolled(), daemon.reporting.cells
    yield f"device     {plural(len(accounts), 'account')} in {daemon.journal.path}"
    yield f"protected  {protection_claim(mechanism)}"
    if cells is None:
        yield (
            "public     that ratings exist, their items and the day: what is new in an epoch is "
            "sent, so an epoch without a message says that nothing was rated"
        )
    else:
        yield (
            f"public     {_named_scope(cells)}, and that every account reports in every epoch in "
            "which items of it are due, with or without ratings"
        )
    yield from rounds_claims(daemon.journal, mechanism)
    yield "sent       once in an epoch, at a moment that follows from pseudonym and epoch alone"
    if daemon.campaigns is not None:
        yield (
            "campaigns  every account contributes once to each stage, sealed to the pinned keys, "
            "with or without ratings"
        )
    yield f"kept       {plural(daemon.ratings.count, 'rating')} on this device"


def _named_scope(cells: Cells) -> str:
    if len(cells.scope):
        return f"the scope of {plural(len(cells.scope), 'item')}"
    return "the server's catalogue, which is read once the broker answers"
