"""The reporter: one thread over the books that this edge could take.

    every second        delivery reports; moments and looks that have come
    every 5 seconds     books that nobody writes are taken; accounts are enrolled and withdrawn
    every_seconds       what is new is reported, where value is protected

Nothing is drawn before the recommender was reached once: only there an older copy of the store is
found, which would draw a second report under numbers that were used, and spend what is spent. None
is drawn while the clock is wrong: behind the newest release it would date releases back, and far
ahead of it open budgets for good. A book whose record could not be written is closed and opened
again: then it is known what it holds. While the recommender is away messages wait in the books, up
to their limit, and events in the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from producers.daemon.conditions import Conditions, Notice
from producers.daemon.delivery import Delivery
from producers.edge.reporting import accounts
from producers.edge.reporting.book import Book, day_of
from producers.edge.reporting.ways_out import OpenBooks, ReportingOptions
from producers.edge.site_terms import SiteTerms
from producers.edge.store.book_log import BOOKS, BookTaken
from producers.edge.store.database import Database
from producers.fleet.epoch_emission import check_scope
from producers.fleet.epoch_requests import EmissionOptions
from producers.journal import Message
from stream_app.errors import Unreadable, UserError

LOOK_SECONDS = 1.0
TAKE_SECONDS = 5.0
RETRY_SECONDS = 30.0
CLOSE_SECONDS = 5.0
_NEVER = -float("inf")


@dataclass(frozen=True)
class ReporterStatus:
    """What an edge reports, of the books that it writes; `messages` were accepted since it began,
    `reports` are all of these accounts. `conditions`: what is wrong, in sentences."""

    running: bool
    connected: bool
    books: int
    books_elsewhere: int
    accounts: int
    exhausted: int
    reports: int
    messages: int
    waiting: int
    waiting_bytes: int
    conditions: tuple[str, ...]


class Reporter:
    """Reports for the accounts of a store; `start` gives it a thread, or a caller calls `step`.

    `steady`: a clock that never goes back. `failure`: the defect that ended the thread.
    """

    def __init__(
        self,
        database: Database,
        terms: SiteTerms,
        options: ReportingOptions | None = None,
        *,
        notice: Notice = lambda _: None,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options = options or ReportingOptions()
        self.books, self.database = OpenBooks(), database
        self._terms, self._now, self._steady = terms, now, steady
        self._elsewhere = 0
        self.deliveries = {
            topic: Delivery(self.books, topic, way, notice, steady)
            for topic, way in options.ways.items()
        }
        if options.connect is not None:
            scope = None if options.cells is None else options.cells.scope
            check_scope(terms.mechanism, EmissionOptions(scope))
        self._conditions = Conditions(notice)
        self._take_at = self._report_at = self._retry_at = self._check_at = _NEVER
        self._thread: threading.Thread | None = None
        self._woken, self._stopped = threading.Event(), False
        self.failure: BaseException | None = None

    # --- the thread -------------------------------------------------------------------------------

    def start(self) -> None:
        """Report from now on, in a thread."""
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what the recommender has not confirmed waits in the store. Raises what
        ended the thread before."""
        self._stopped = True
        self._woken.set()
        if self._thread is None:
            self._close()
        else:
            self._thread.join()
        if self.failure is not None:
            raise self.failure

    def wake(self) -> None:
        """Look at once for accounts that are new, removed or due."""
        self._take_at = self._report_at = _NEVER
        self._woken.set()

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._woken.clear()
                if not self.step():
                    self._woken.wait(min(LOOK_SECONDS, self._terms.report_seconds))
        except BaseException as error:  # noqa: BLE001 (whoever asks for the status or stops gets it)
            self.failure = error
        finally:
            self._close()

    def _close(self) -> None:
        """Give the books back, after waiting a little for the recommender."""
        for each in self.deliveries.values():
            each.close(CLOSE_SECONDS)
        for number in list(self.books):
            self._lose(number)

    # --- a step -----------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do what is due now; return whether more is."""
        now, steady = self._now(), self._steady()
        look, report = steady >= self._take_at, steady >= self._report_at
        if look:
            self._take_at = steady + TAKE_SECONDS
            self._everywhere("session", self.books, lambda book: book.log.check())
            self._take(now)
        self._deliver()
        more = False
        if self._may_release(now, steady):
            if look:
                self._everywhere("accounts", self.books, lambda book: book.update(now))
            if report and self.options.connect is not None:
                more = self._report(now)
                self._report_at = steady + (0.0 if more else self._terms.report_seconds)
            self._everywhere("schedule", self.books, lambda book: self._scheduled(book, now))
            self._deliver()
        if look:
            self._say_exhausted()
            self._forget(steady)
        return more

    def _take(self, now: float) -> None:
        """Take the books that no edge writes."""
        elsewhere, campaigns = 0, self.options.campaigns
        contributions = None if campaigns is None else self.deliveries[campaigns.topic]
        for number in set(range(BOOKS)) - self.books.keys():
            try:
                book = Book(number, self.database, self._terms, self.options, contributions, now)
            except BookTaken:
                elsewhere += 1
            except UserError as error:
                self._conditions.holds("store", str(error))
                return
            else:
                with self.books.lock:
                    self.books[number] = book
                self._send(number, book.journal.pending())
        self._elsewhere = elsewhere
        self._conditions.passed("store")

    def _lose(self, number: int) -> None:
        """Close a book; whichever edge looks first takes it again."""
        with self.books.lock:
            book = self.books.pop(number)
        try:
            book.journal.close()
        except UserError as error:  # acknowledgements: those messages are sent again
            self._conditions.holds("store", str(error))

    def _everywhere(
        self, name: str, numbers: Iterable[int], work: Callable[[Book], object]
    ) -> None:
        """Do work on books while nobody else looks into them; what the store refuses is a condition
        of this name until it is done."""
        problem = ""
        for number in list(numbers):
            book = self.books[number]
            with self.books.lock:
                try:
                    work(book)
                except UserError as error:
                    problem = f"{error}; what is due is done later"
                if not book.journal.usable:
                    self._lose(number)
        self._conditions.say(name, problem)

    # --- what must be so before anything is drawn -------------------------------------------------

    @property
    def _reached(self) -> bool:
        """Whether the first way out was reached once, where there is one."""
        return all(each.connected for each in list(self.deliveries.values())[:1])

    def _may_release(self, now: float, steady: float) -> bool:
        later = (
            "nothing is released before the recommender was reached once; it is made up for later"
        )
        self._conditions.say("unreached", "" if self._reached else later)
        newest = self._reached and self._are_newest(steady)
        return newest and self._clock_is_right(day_of(now))

    def _are_newest(self, steady: float) -> bool:
        new = [book for book in self.books.values() if not book.checked]
        if new and self.options.check is not None:
            if steady < self._check_at:
                return False
            try:
                self.options.check([book.journal for book in new])
            except UserError as error:
                self._check_at = steady + RETRY_SECONDS
                self._conditions.holds("older", f"{error}; nothing is released before")
                return False
        self._conditions.passed("older")
        for book in new:
            book.checked = True
        return True

    def _clock_is_right(self, day: int) -> bool:
        problem = ""
        try:
            newest = max((book.journal.epoch(day) for book in self.books.values()), default=day)
            if newest > day:
                problem = (
                    f"the clock says day {day}, before the newest release of this store ({newest}):"
                    " nothing is reported until it is later; set the clock right"
                )
        except UserError as error:  # far ahead
            problem = str(error)
        self._conditions.say("clock", problem)
        return not problem

    # --- what leaves ------------------------------------------------------------------------------

    def _report(self, now: float) -> bool:
        """Report what is new; return whether more may be."""
        more: list[bool] = []

        def work(book: Book) -> None:
            messages, left = book.report(now)
            self._send(book.number, messages)
            more.append(left)

        due = set(self.books)
        with suppress(Unreadable), self.database.reading() as connection:
            due = accounts.due_books(connection)
        self._everywhere("reports", due & self.books.keys(), work)
        return any(more)

    def _scheduled(self, book: Book, now: float) -> None:
        for messages in book.scheduled(now, self._conditions):
            self._send(book.number, messages)

    def _send(self, number: int, messages: list[Message]) -> None:
        for message in self.books.numbered(number, messages):
            if message.topic in self.deliveries:  # else it waits in its book
                self.deliveries[message.topic].send(message)

    def _deliver(self) -> None:
        for each in self.deliveries.values():
            each.serve()

    def _say_exhausted(self) -> None:
        count = sum(len(book.exhausted) for book in self.books.values())
        window = self._terms.budget.window
        way = "is never reported" if window is None else "waits until the window frees some"
        sentence = f"the budget of accounts ({count}) is used up: what is new of them {way}"
        self._conditions.say("budget", sentence if count else "")

    def _forget(self, steady: float) -> None:
        """Ask the recommender to forget the removed users of the open books, once all that was
        released for them is there: it would count again what comes later. What failed is asked
        again later."""
        if self.options.forget is None or steady < self._retry_at:
            return
        try:
            with self.database.reading() as connection:
                wanted = accounts.to_forget(connection)
            waiting = {message.device for message in self.books.pending()} if wanted else set()
            for book, device in wanted:
                if book in self.books and device not in waiting:
                    self.options.forget(device)
                    with self.database.writing() as connection:
                        accounts.was_asked(connection, device)
            problem = ""
        except UserError as error:
            self._retry_at = steady + RETRY_SECONDS
            problem = f"{error}; a deletion waits for the recommender"
        self._conditions.say("forget", problem)

    # --- what it says -----------------------------------------------------------------------------

    def status(self) -> ReporterStatus:
        """Return what is reported; from any thread."""
        ways = self.deliveries.values()
        with self.books.lock:
            books = list(self.books.values())
            waiting = sum(len(book.journal.pending()) for book in books)
            size = sum(book.journal.waiting_bytes for book in books)
        complaints = [each.complaint for each in ways if each.complaint]
        return ReporterStatus(
            running=self._thread is not None and self._thread.is_alive(),
            connected=bool(ways) and self._reached,
            books=len(books),
            books_elsewhere=self._elsewhere,
            accounts=sum(book.accounts for book in books),
            exhausted=sum(len(book.exhausted) for book in books),
            reports=sum(book.reports for book in books),
            messages=sum(each.accepted for each in ways),
            waiting=waiting,
            waiting_bytes=size,
            conditions=tuple(dict.fromkeys(complaints + self._conditions.sentences)),
        )
