"""The reporter: one thread over the books that this edge could take.

    every second        delivery reports; moments and looks that have come
    every 5 seconds     books that nobody writes are taken; accounts are enrolled and withdrawn
    every_seconds       what is new is reported, where value is protected

Nothing is drawn before the recommender was reached once, and none while the clock is wrong
(`release_gate`). A book whose record could not be written is closed and opened again: then it is
known what it holds. While the recommender is away messages wait in the books, up to their limit,
and events in the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from producers.daemon.conditions import Conditions, Notice
from producers.daemon.delivery import Connect
from producers.edge.reporting import accounts
from producers.edge.reporting.book import Book, day_of, opened
from producers.edge.reporting.delivery_lines import Lines, forget_removed
from producers.edge.reporting.outbox import OpenBooks
from producers.edge.reporting.outlets import ReportingOptions
from producers.edge.reporting.release_gate import RETRY_SECONDS, ReleaseGate
from producers.edge.site_terms import SiteTerms
from producers.edge.store.book_log import BOOKS, BookTaken
from producers.edge.store.database import Database
from producers.fleet.epoch_emission import check_scope
from producers.fleet.epoch_requests import EmissionOptions
from producers.journal import Message
from stream_app.errors import Unreadable, UserError

LOOK_SECONDS = 1.0
TAKE_SECONDS = 5.0


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

    `connect`: to the topic of reports; None where none leave. `steady`: a clock that never goes
    back. `failure`: the defect that ended the thread.
    """

    def __init__(
        self,
        database: Database,
        terms: SiteTerms,
        connect: Connect | None,
        topic: str = "",
        options: ReportingOptions | None = None,
        *,
        notice: Notice = lambda _: None,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options or ReportingOptions()
        self.books, self.database = OpenBooks(), database
        self._terms, self._now, self._steady = terms, now, steady
        self._open: dict[int, Book] = {}
        self._seen: dict[int, tuple[int, ...]] = {}  # by each book of the accounts, in numbers
        self._elsewhere = 0
        campaigns, cells = self.options.campaigns, self.options.cells
        self.lines = Lines(self.books, (topic, connect), campaigns, notice, steady)
        if connect is not None:
            check_scope(terms.mechanism, EmissionOptions(None if cells is None else cells.scope))
        self._conditions, self._of_schedule = Conditions(notice), Conditions(notice)
        self._gate = ReleaseGate(self.options.check, self._conditions)
        self._take_at = self._report_at = self._retry_at = -float("inf")
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
            self.close()
        else:
            self._thread.join()
        if self.failure is not None:
            raise self.failure

    def wake(self) -> None:
        """Look at once for accounts that are new, removed or due."""
        self._take_at = self._report_at = -float("inf")
        self._woken.set()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pay for and draw nothing within the block."""
        with self.books.lock:
            yield

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._woken.clear()
                more = self.step()
                if not more:
                    self._woken.wait(min(LOOK_SECONDS, self._terms.report_seconds))
        except BaseException as error:  # noqa: BLE001 (whoever asks for the status or stops gets it)
            self.failure = error
        finally:
            self.close()

    def close(self) -> None:
        """Give the books back, after waiting a little for the recommender; by the thread that
        stepped."""
        self.lines.close()
        for number in list(self._open):
            self._lose(number)

    # --- a step -----------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do what is due now; return whether more is."""
        now, steady = self._now(), self._steady()
        look, report = steady >= self._take_at, steady >= self._report_at
        if look:
            self._take_at = steady + TAKE_SECONDS
            self._everywhere("session", self._open, lambda book: book.log.check())
            self._take(now)
        self.lines.serve()
        more = False
        if self._gate.is_open(self._open.values(), now, steady, reached=self.lines.reached):
            if look:
                self._update(now)
            if report and self.lines.topic is not None:
                more = self._report(now)
                self._report_at = steady + (0.0 if more else self._terms.report_seconds)
            self._everywhere("schedule", self._open, lambda book: self._scheduled(book, now))
            self.lines.serve()
        if look:
            self._say_exhausted()
            self._forget(steady)
        return more

    def _take(self, now: float) -> None:
        """Take the books that no edge writes."""
        elsewhere, lines = 0, self.lines
        for number in range(BOOKS):
            if number in self._open:
                continue
            try:
                book = opened(
                    number, self.database, self._terms, self.options, lines.topic,
                    lines.contributions, now,
                )  # fmt: skip
            except BookTaken:
                elsewhere += 1
            except UserError as error:
                self._conditions.holds("store", str(error))
                return
            else:
                self._open[number] = book
                self._seen.pop(number, None)
                self.books.put(number, book.journal)
                self._send(number, book.journal.pending())
        self._elsewhere = elsewhere
        self._conditions.passed("store")

    def _lose(self, number: int) -> None:
        """Close a book; whichever edge looks first takes it again."""
        book = self._open.pop(number)
        self.books.drop(number)
        try:
            book.journal.close()
        except UserError as error:  # acknowledgements: those messages are sent again
            self._conditions.holds("store", str(error))

    def _everywhere(
        self, name: str, numbers: Iterable[int], work: Callable[[Book], object]
    ) -> bool:
        """Do work on books while nobody else looks into them; return whether all of it was done.
        What the store refuses is a condition of this name until it is."""
        problem = ""
        for number in list(numbers):
            book = self._open[number]
            with self.books.lock:
                try:
                    work(book)
                except UserError as error:
                    problem = f"{error}; what is due is done later"
                if not book.journal.usable:
                    self._lose(number)
        if problem:
            self._conditions.holds(name, problem)
        else:
            self._conditions.passed(name)
        return not problem

    # --- what leaves ------------------------------------------------------------------------------

    def _update(self, now: float) -> None:
        """Let books enrol and withdraw, where anything may have changed since the last time."""
        seen: tuple[int, ...] = ()
        with suppress(Unreadable), self.database.reading() as connection:
            seen = (day_of(now), *accounts.newest(connection))
        stale = [number for number in self._open if self._seen.get(number) != seen]
        if self._everywhere("accounts", stale, lambda book: book.update(now)):
            self._seen = dict.fromkeys(self._open, seen)

    def _report(self, now: float) -> bool:
        """Report what is new; return whether more may be."""
        more: list[bool] = []

        def work(book: Book) -> None:
            messages, left = book.report(now)
            self._send(book.number, messages)
            more.append(left)

        due = set(self._open)
        with suppress(Unreadable), self.database.reading() as connection:
            due = accounts.due_books(connection)
        self._everywhere("reports", due & self._open.keys(), work)
        return any(more)

    def _scheduled(self, book: Book, now: float) -> None:
        if self.lines.topic is not None and self._terms.hides_presence:
            self._send(book.number, book.at_moments(now, self._of_schedule))
        self._send(book.number, book.contribute(now, self._of_schedule))

    def _send(self, number: int, messages: list[Message]) -> None:
        for message in self.books.numbered(number, messages):
            self.lines.send(message)

    def _say_exhausted(self) -> None:
        count = sum(len(book.exhausted) for book in self._open.values())
        if not count:
            self._conditions.passed("budget")
            return
        window = self._terms.budget.window
        way = "is never reported" if window is None else "waits until the window frees some"
        self._conditions.holds(
            "budget", f"the budget of accounts ({count}) is used up: what is new of them {way}"
        )

    def _forget(self, steady: float) -> None:
        """Ask the recommender to forget removed users; what failed is asked again later."""
        if self.options.forget is None or steady < self._retry_at:
            return
        try:
            forget_removed(self.database, self.books, self.options.forget)
        except UserError as error:
            self._retry_at = steady + RETRY_SECONDS
            self._conditions.holds("forget", f"{error}; a deletion waits for the recommender")
            return
        self._conditions.passed("forget")

    # --- what it says -----------------------------------------------------------------------------

    def status(self) -> ReporterStatus:
        """Return what is reported; from any thread."""
        with self.books.lock:
            books = list(self._open.values())
            waiting, size = self.books.waiting
        standing = self._conditions.sentences + self._of_schedule.sentences
        return ReporterStatus(
            running=self._thread is not None and self._thread.is_alive(),
            connected=bool(self.lines.topics) and self.lines.reached,
            books=len(books),
            books_elsewhere=self._elsewhere,
            accounts=sum(book.accounts for book in books),
            exhausted=sum(len(book.exhausted) for book in books),
            reports=sum(book.reports for book in books),
            messages=self.lines.accepted,
            waiting=waiting,
            waiting_bytes=size,
            conditions=tuple(dict.fromkeys(self.lines.complaints + standing)),
        )
