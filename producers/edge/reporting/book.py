"""One open book: its accounts, and what they report and contribute.

    update      accounts of the store are enrolled on the site's terms, and withdrawn once the site
                removed them; one that comes back takes part again, with what it has spent
    report      value protected: what is new, of many accounts in one record
    scheduled   presence protected: the cells of those whose moments have come
                campaigns: to the open stage, those whose looks have come

The last two read the store in one transaction and pay before it ends, so that what is released of
an account comes before its deletion, or not at all. What an account has done is looked up then:

    level = floor((stars - 1) / 4 * (levels - 1))          stars of an item: `lists.history`

The floor: parts of a like never make an item better than what they add up to. Items that were only
seen have no level, and are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from producers.daemon.cells import Reporting, due_request
from producers.daemon.conditions import Conditions
from producers.daemon.delivery import Delivery
from producers.daemon.schedule import Schedule
from producers.daemon.scheduled_contributions import Contributing
from producers.device.pinned_scope import pin
from producers.device.rating import Rated
from producers.device.requests import ReportSettings
from producers.edge.lists.stored_history import history
from producers.edge.reporting import accounts
from producers.edge.reporting.ways_out import ReportingOptions
from producers.edge.site_terms import SiteTerms
from producers.edge.store.book_log import BookLog
from producers.edge.store.database import Database
from producers.fleet.epoch_requests import CELLS
from producers.identities import Identities
from producers.journal import Journal, Limits, Message, Request
from producers.person.enrolment import ADAPTIVE, PersonBudget
from producers.scale import Scale
from stream_app.privacy.randomness import SystemSource
from stream_app.wire import EPOCH_SECONDS

BATCH = 512  # accounts in one record
_ROUNDING = 1e-9  # stars of a level are computed in floating point
_MARGIN_MS = 60_000  # between the clocks of two edges, and of a transaction that takes long


class Book:
    """An open book; one thread owns it. `contributions`: the way of those of campaigns. `checked`:
    against what the topic holds. `exhausted`: the accounts whose budget holds no report.

    Raises `BookTaken` where another edge writes it, `ScopeChanged` where a public scope is another
    one than it was pinned to.
    """

    def __init__(
        self,
        number: int,
        database: Database,
        terms: SiteTerms,
        options: ReportingOptions,
        contributions: Delivery | None,
        now: float,
    ) -> None:
        self.number, self._database, self._terms, self._options = number, database, terms, options
        self._reports_leave = options.connect is not None
        self.checked, self.accounts, self.reports = False, 0, 0
        self.exhausted = set[bytes]()
        self._last = 0  # number of the newest account that was met
        self._day = -1  # on which all were met
        self._since = 0  # of the last look at removed accounts, in milliseconds
        self.log = BookLog(database, number)
        try:
            source, most = SystemSource(), options.outbox_bytes
            self.journal = Journal(self.log, Limits(), source, most, test=False)
            if options.scope_digest:
                pin(self.journal, "the public scope", options.scope_digest)
            known = self.journal.enrolled()
            self._schedule = Schedule(known, EPOCH_SECONDS, now)
            self._contributing: Contributing | None = None
            if contributions is not None and (campaigns := options.campaigns) is not None:
                pinned = campaigns.scope_digest
                pin(self.journal, "the scope of campaigns", pinned, campaigns=True)
                self._contributing = Contributing(
                    self.journal, campaigns.pinned, contributions, campaigns.topic, campaigns.rounds
                )
                self._contributing.start(known, now)
        except BaseException:
            self.log.close()
            raise

    # --- accounts ---------------------------------------------------------------------------------

    def update(self, now: float) -> None:
        """Enrol accounts that are new, once a day after a look at all: those of two edges need not
        become visible in the order of their numbers. Withdraw those that were removed."""
        today = day_of(now)
        begins = today != self._day
        with self._database.reading() as connection:
            met = accounts.after(connection, self.number, 0 if begins else self._last)
            gone = accounts.removed(connection, self.number, self._since)
        self._enrol([row.device for row in met], now)
        self._last = max([self._last, *(row.number for row in met)])
        known = [self.journal.enrolment(device) for device in gone]
        leaving = [each.device for each in known if each is not None and not each.withdrawn]
        self.accounts -= self.journal.withdraw(leaving, max(1, self.journal.epoch(today)))
        self.exhausted -= set(leaving)
        self._since = int(now * 1000) - _MARGIN_MS
        if begins:
            self._renew(self.journal.epoch(today))
            self._day = today

    def _enrol(self, devices: Sequence[bytes], now: float) -> None:
        if not devices:
            return
        epoch = self.journal.epoch(day_of(now))
        known = {device: self.journal.enrolment(device) for device in devices}
        changed = [device for device, terms in known.items() if terms is None]
        self.journal.enrol(changed, self._budget, epoch)
        for terms in known.values():
            if terms is not None and terms.withdrawn:  # on the terms that it had
                self.journal.enrol([terms.device], terms.budget, epoch)
                changed.append(terms.device)
        joined = [each for each in map(self.journal.enrolment, changed) if each is not None]
        self.accounts += len(joined)
        self._schedule.add(joined, now)
        if self._contributing is not None:
            self._contributing.join(joined, now)

    @property
    def _budget(self) -> PersonBudget:
        """The budget of new accounts: for several mechanisms where campaigns come beside reports,
        because the first release would decide for one."""
        budget, both = self._terms.budget, self._reports_leave and self._contributing is not None
        return replace(budget, plan=ADAPTIVE) if both and not budget.plan else budget

    def _renew(self, epoch: int) -> None:
        """Let accounts be looked at again whose budget was used up and holds reports again. Which
        were is not known after a start: all that have spent half of it are looked at then."""
        candidates = self.exhausted if self._day >= 0 else self._spenders()
        mechanism = self._terms.mechanism
        freed = {each for each in candidates if self.journal.room(each, mechanism, epoch)}
        self.exhausted = candidates - freed
        if freed and not self._terms.hides_presence:
            with self.log.writing() as connection:
                accounts.looked_at(connection, [(each, accounts.UNREPORTED) for each in freed])

    def _spenders(self) -> set[bytes]:
        """Count accounts and reports; return the accounts that have spent half a budget."""
        found, self.accounts, self.reports = set(), 0, 0
        for account in self.journal.enrolled():
            spent = self.journal.spent(account.device).values()
            self.accounts += 1
            self.reports += sum(each.reports for each in spent)
            if 2 * sum(each.nano for each in spent) >= (account.budget.nano or 0):
                found.add(account.device)
        return found

    # --- what leaves ------------------------------------------------------------------------------

    def report(self, now: float) -> tuple[list[Message], bool]:
        """Report what is new of the accounts that are due; return the messages, and whether more
        accounts may be. Where presence is protected the accounts are looked at and no more."""
        messages: list[Message] = []
        with self._database.reading() as connection:
            rows = accounts.due(connection, self.number, BATCH)
            done = len(rows)
            self._enrol([row.device for row in rows], now)
            if self._reports_leave and not self._terms.hides_presence:
                messages, done = self._released(connection, [row.device for row in rows], now)
        with self.log.writing() as connection:
            accounts.looked_at(connection, [(row.device, row.changed) for row in rows[:done]])
        return messages, done < len(rows) or len(rows) == BATCH

    def scheduled(self, now: float, conditions: Conditions) -> Iterator[list[Message]]:
        """Report and contribute for the accounts whose moments and looks have come; yield the
        messages as soon as they are paid for."""
        if self._reports_leave and self._terms.hides_presence:
            yield from self._at_moments(now, conditions)
        if self._contributing is not None:
            epoch = self.journal.epoch(day_of(now))
            with self._database.reading() as connection:
                ratings = self._ratings(connection)
                requests = self._contributing.requests(now, epoch, ratings, conditions)
                messages = self._paid(requests)
            yield messages

    def _at_moments(self, now: float, conditions: Conditions) -> Iterator[list[Message]]:
        come, missed = self._schedule.due(now)
        if missed:
            conditions.holds(
                "asleep", "the edge slept over a moment; what was due is reported at the next"
            )
        elif come:
            conditions.passed("asleep")
        for epoch, moments in groupby(come, lambda each: each.epoch):
            terms = [self.journal.enrolment(each.device) for each in moments]
            devices = [each.device for each in terms if each is not None and each.active(epoch)]
            while devices:
                batch, devices = devices[:BATCH], devices[BATCH:]
                with self._database.reading() as connection:
                    known = accounts.present(connection, batch)
                    batch = [each for each in batch if each in known]
                    messages, done = self._released(connection, batch, epoch * EPOCH_SECONDS)
                devices = batch[done:] + devices
                yield messages

    def _released(
        self, connection: Connection, devices: Sequence[bytes], now: float
    ) -> tuple[list[Message], int]:
        """Pay for and draw what is due of the first of these devices, in one record; return the
        messages, and of how many devices they are."""
        epoch, requests, cells, done = self.journal.epoch(day_of(now)), [], 0, 0
        ratings, options = self._ratings(connection), self._options
        settings = ReportSettings(
            options.topic, self._terms.mechanism, options.table, identities=ratings.identities
        )
        reporting = Reporting(settings, options.cells)
        for device in devices:
            account = self.journal.enrolment(device)
            assert account is not None
            request, held_back = due_request(account, self.journal, reporting, ratings, epoch)
            (self.exhausted.add if held_back else self.exhausted.discard)(device)
            done += 1
            if request is not None:
                requests.append(request)
                cells += request.count
            if cells >= CELLS:
                break
        return self._paid(requests), done

    def _paid(self, requests: Sequence[Request]) -> list[Message]:
        messages = self.journal.commit(requests) if requests else []
        self.reports += sum(request.count for request in requests)
        return messages

    def _ratings(self, connection: Connection) -> StoredRatings:
        # Named anew: those of a signed site keep the key of every user that was looked up.
        identities = Identities(self.journal.key, signed=self._terms.signed)
        return StoredRatings(connection, self._terms.scale, identities)


def day_of(now: float) -> int:
    """Return the epoch of a time in seconds since 1970."""
    return int(now // EPOCH_SECONDS)


class StoredRatings:
    """The ratings in a store, within one transaction; a `producers.device.rating.ScaledRatings`.

    `identities`: told the user of each account that is looked up, where devices sign.
    """

    def __init__(self, connection: Connection, scale: Scale, identities: Identities) -> None:
        self._connection, self.scale, self.identities = connection, scale, identities

    def rated(self, device_id: bytes) -> Rated:
        """Return what the user of a device has done; nothing for one that was removed.

        Until the transaction ends, the account is not removed: what is released of it now comes
        before its deletion.
        """
        account = accounts.held(self._connection, device_id)
        if account is None:
            return Rated()
        if self.identities.signed:
            self.identities.pseudonym(account.user)
        rated = [row for row in history(self._connection, account.number) if row.stars is not None]
        keys = np.array([row.key for row in rated], np.uint64)
        raw_stars = np.array([row.stars for row in rated], np.float64)
        raw_levels = levels_of(raw_stars, self.scale)
        order = np.argsort(keys, kind="stable")
        return Rated(keys[order], raw_levels[order])

    def levels(self, device: bytes, keys: NDArray[np.uint64], missing: int) -> NDArray[np.uint16]:
        """Return the level of each item, (n,), `missing` where it is not rated; all are read."""
        rated = self.rated(device)
        found = dict(zip(rated.keys.tolist(), rated.raw_levels.tolist(), strict=True))
        return np.array([found.get(key, missing) for key in keys.tolist()], np.uint16)


def levels_of(raw_stars: NDArray[np.float64], scale: Scale) -> NDArray[np.uint8]:
    """Return the level (n,) uint8 of stars (n,) on 1 .. 5, rounded down.

    >>> levels_of(np.array([1.0, 3.6, 4.999, 5.0]), Scale(1, 5, 1)).tolist()
    [0, 2, 3, 4]
    """
    places = np.floor((raw_stars - 1) / 4 * (scale.levels - 1) + _ROUNDING)
    return np.clip(places, 0, scale.levels - 1).astype(np.uint8)
