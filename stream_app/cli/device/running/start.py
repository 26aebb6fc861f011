"""What the command line of `murmurec device run` means, and the program that it starts.

The public scope is one of

    file        read and compared with the journal's pin at the start
    catalogue   as it was stored beside the journal; read from the broker once that answers, so that
                a program starts without one, and compared: another list only by its digest
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from producers.daemon.cells import Cells, Reporting
from producers.daemon.delivery import Delivery
from producers.daemon.kept_ratings import KeptRatings
from producers.daemon.runner import Daemon, SystemClock
from producers.daemon.sources.source import Pipe, Source
from producers.daemon.sources.watched_file import Places, WatchedFile
from producers.device.pinned_scope import (
    CatalogueScope,
    check_accepted,
    check_pin,
    digest_of,
    pin,
    read_scope,
)
from producers.device.requests import ReportSettings
from producers.identities import Identities
from producers.journal import Journal
from producers.publishing import Producer
from producers.ranking.clean_history import CleanHistory
from producers.scale import Scale
from producers.siblings import check_only_journal
from stream_app.cli.catalogue_titles import recommendable
from stream_app.cli.device.mechanism_options import allowed, hides_presence, journal_path
from stream_app.cli.device.publishers import check_copies, item_table_for, publisher_for
from stream_app.cli.device.running.budgets import (
    check_budgets,
    check_plans,
    planned_mechanism,
    rounds_claims,
)
from stream_app.cli.device.running.campaign_part import contributing
from stream_app.cli.device.wording import journal_notices, protection_claim
from stream_app.cli.options import connection_from
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


_UNKNOWN = np.zeros(0, np.uint64)


def cells_of(
    options: RunOptions, settings: Settings, mechanism: Mechanism, journal: Journal, epoch: int
) -> Cells | None:
    """Return the cells of the public scope; None where presence is public, and none of them
    while the server's catalogue is not known."""
    if not hides_presence(mechanism):
        return None
    most = None
    if options.scope is not None:
        items, digest = read_scope(options.scope, options.most_cells)
        check_pin(journal, options.scope, digest, options.accept_scope)
        # Before it is stored: a shorter list in place of one that is refused here is no change.
        check_budgets(journal, mechanism, items, epoch)
        if pin(journal, options.scope, digest, options.accept_scope):
            notice(f"scope      {options.scope} has the SHA-256 {digest.hex()}, from now on")
    else:
        check_accepted(options.accept_scope)
        known = CatalogueScope(journal, options.accept_scope).stored()
        items = _UNKNOWN if known is None else known
        most = options.most_cells
    return Cells(items, options.rotate_every, settings.hash_seed, most, options.rounds)


class ServersCatalogue:
    """Makes the server's catalogue the cells of a device; `compare` needs a broker."""

    def __init__(self, options: RunOptions, settings: Settings, journal: Journal) -> None:
        self._scope = CatalogueScope(journal, options.accept_scope)
        self._accepted = (options.accept_scope or "").lower()
        self._settings = settings
        self._compared = not options.trust_catalogue

    def compare(self, reporting: Reporting) -> None:
        """Read the catalogue once, and report on it where the device has no list, or where its
        digest is accepted.

        `ScopeChanged` where the list of the device is lost and the catalogue is another one.
        """
        if self._compared or reporting.cells is None:
            return
        items = recommendable(connection_from(self._settings), self._settings.topic_prefix)
        digest, known = digest_of(items), self._scope.stored()
        if known is None or self._accepted == digest:
            if self._scope.take(items):
                notice(
                    f"scope      the server's catalogue of {plural(len(items), 'item')}, SHA-256 "
                    f"{digest}, from now on"
                )
            reporting.cells = replace(reporting.cells, scope=items)
        elif digest != digest_of(known):
            notice(
                f"scope      the server's catalogue changed since this device took "
                f"{plural(len(known), 'item')} of it, which remain its scope; to report on the "
                f"{plural(len(items), 'item')} of now too, give --accept-scope {digest}"
            )
        self._compared = True
