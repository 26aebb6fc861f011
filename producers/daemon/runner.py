"""The loop of the program: take ratings, keep them, report at the moments of the accounts.

    forever     take lines -> keep them -> confirm their source
                moments that have come -> the cells that are due -> ratings looked up -> journal
                messages -> delivery
                wait for a line, the next moment, or a second

Under a mechanism that protects presence every enrolled account reports at every moment of its
schedule for which cells are due, with or without ratings: which cells, how many messages and when
do not depend on any rating. Under any other mechanism the ratings that are new are sent, so that
presence is public.

Nothing is drawn before the broker was reached once, because only then are all older journals found
(`producers.last_seen`), and none while the clock is behind the journal's newest release. What is
due then is reported at a later moment. A test passes a clock of its own, on which nothing takes
time.
"""

from __future__ import annotations

import math
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from producers.daemon.cells import Reporting, due_request
from producers.daemon.conditions import Conditions, Notice
from producers.daemon.delivery import Delivery
from producers.daemon.kept_ratings import KeptRatings
from producers.daemon.schedule import Moment, Schedule
from producers.daemon.scheduled_contributions import Contributing
from producers.daemon.sources.source import Source
from producers.device.rating import check_levels_agree
from producers.fleet.epoch_emission import check_scope
from producers.fleet.epoch_requests import EmissionOptions
from producers.journal import Journal, OutboxFull, Request, Unwritable
from stream_app.errors import Unreadable
from stream_app.wire import EPOCH_SECONDS


class Clock(Protocol):
    """The wall clock, and a pause."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    def wait(self, seconds: float, files: Sequence[int]) -> None:
        """Return after so many seconds, or as soon as one of the descriptors is readable."""


class SystemClock:
    """The clock of the system; `stopped` after a signal, which also ends a wait."""

    def __init__(self) -> None:
        self.stopped = False
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def wait(self, seconds: float, files: Sequence[int]) -> None:
        """Return after so many seconds, at a signal, or when a descriptor is readable."""
        if not self.stopped:
            waiting = select.poll()  # unlike select, it takes descriptors above 1023
            for file in (*files, self._woken.fileno()):
                waiting.register(file, select.POLLIN)
            waiting.poll(math.ceil(max(0.0, seconds) * 1000))

    @contextmanager
    def until_signalled(self) -> Iterator[SystemClock]:
        """Within the block SIGTERM and SIGINT set `stopped` instead of ending the process."""

        def stop(*_: Any) -> None:
            self.stopped = True

        before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
        woken = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._woken.close()
            self._waker.close()


QUIET_SECONDS = 0.5  # before a moment in which no line is taken
LOOK_SECONDS = 1.0  # between two looks at files and for delivery reports
_NOTICES = 20  # sentences about bad lines of one source; the rest is counted
CLOSE_SECONDS = 5.0


@dataclass
class Daemon:
    """One running device program; one thread owns it. `epoch_seconds` differ in tests only."""

    journal: Journal
    reporting: Reporting
    ratings: KeptRatings
    delivery: Delivery
    sources: Sequence[Source]
    clock: Clock
    notice: Notice
    epoch_seconds: float = EPOCH_SECONDS
    campaigns: Contributing | None = None
    messages: int = field(default=0, init=False)
    _bad: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        mechanism = self.reporting.settings.mechanism
        check_levels_agree(self.ratings.scale, mechanism)
        cells = self.reporting.cells
        if cells is None or len(cells.scope):  # else it is not known yet
            check_scope(mechanism, EmissionOptions(None if cells is None else cells.scope))
        self._conditions = Conditions(self.notice)
        accounts = self.journal.enrolled()
        self._accounts = frozenset(account.device for account in accounts)
        self._schedule = Schedule(accounts, self.epoch_seconds, self.clock.now())
        if self.campaigns is not None:
            self.campaigns.start(accounts, self.clock.now())

    @property
    def epoch(self) -> int:
        """The epoch of the clock."""
        return max(0, int(self.clock.now() // self.epoch_seconds))

    def run(self, stopped: Callable[[], bool]) -> None:
        """Run until `stopped`; then wait a little for the broker.

        Raises UserError where the device cannot go on: nothing is lost then.
        """
        try:
            while not stopped():
                self.step()
                self._wait()
            self._take(last=True)
        finally:
            for source in self.sources:
                source.close()
            self.delivery.close(CLOSE_SECONDS)
            if self.campaigns is not None:
                self.campaigns.delivery.close(CLOSE_SECONDS)

    def step(self) -> None:
        """Do what is due now."""
        if not self._quiet():
            self._take()
        self.delivery.serve()
        self._report()
        self.delivery.serve()
        if self.campaigns is not None:
            self._contribute(self.campaigns)

    @property
    def _coming(self) -> float | None:
        """The next moment, of a report or of a look at campaigns."""
        looks = None if self.campaigns is None else self.campaigns.next
        return min(
            (each for each in (self._schedule.next, looks) if each is not None), default=None
        )

    def _wait(self) -> None:
        coming, now = self._coming, self.clock.now()
        seconds = LOOK_SECONDS if coming is None else min(LOOK_SECONDS, max(0.0, coming - now))
        sources = () if self._quiet() else self.sources
        self.clock.wait(seconds, [file for source in sources for file in source.files()])

    # --- ratings ----------------------------------------------------------------------------------

    def _take(self, *, last: bool = False) -> None:
        """Take what has come, up to the next moment; `last`: no moment follows."""
        self.ratings.refresh()
        for source in self.sources:
            more = True
            while more:
                lines = source.take()
                more = self._keep(source, lines) if lines else source.busy
                if self._quiet() and not last:
                    return  # the rest is taken after the moment
                more = more and not source.files()  # a stream is read again when it is readable
            self._conditions.say(source.name, source.trouble)

    def _keep(self, source: Source, lines: list[tuple[str, bytes]]) -> bool:
        """Keep a piece of the lines of a source; return whether the disk took it."""
        try:
            texts = [line for _, line in lines]
            answers = self.ratings.keep(texts, self.epoch, self.clock.now())
        except (Unwritable, Unreadable) as error:
            source.refuse(str(error))
            self._conditions.holds("keeping", f"{error}; ratings wait until it can")
            return False
        self._conditions.passed("keeping", "ratings")
        for (place, _), reason in zip(lines, answers, strict=True):
            if reason:
                self._refused(source.name, f"{place}: {reason}")
        source.confirm(answers)
        if not self.ratings.devices <= self._accounts:
            self._conditions.holds(
                "accounts",
                f"{source.name}: names a user without an account that takes part; such ratings are "
                "kept and not reported; stop this program and run murmurec device enrol --user ID",
            )
        return True

    def _quiet(self) -> bool:
        """Return whether a moment has come or is near: then no line is taken. Else the time that
        lines take, and so what is rated, would show in when a device reports."""
        coming = self._coming
        return coming is not None and coming - self.clock.now() <= QUIET_SECONDS

    def _refused(self, name: str, sentence: str) -> None:
        bad = self._bad[name] = self._bad.get(name, 0) + 1
        if bad <= _NOTICES:
            self.notice(f"{sentence}; the line is left out")
        if bad == _NOTICES:
            self.notice(f"{name}: further lines that are left out are not named")

    # --- reports ----------------------------------------------------------------------------------

    def _report(self) -> None:
        now = self.clock.now()
        come, missed = self._schedule.due(now)
        if missed:
            self._conditions.holds(
                "asleep", "the program slept over a moment; what was due is reported at the next"
            )
        elif come:
            self._conditions.passed("asleep")
        for epoch, moments in groupby(come, lambda each: each.epoch):
            self._report_in(epoch, list(moments))

    def _report_in(self, epoch: int, moments: list[Moment]) -> None:
        if not self.delivery.connected:
            self._conditions.holds(
                "broker", "no report before the broker was reached once; it is made up for later"
            )
            return
        if self.journal.epoch(epoch) > epoch:
            self._conditions.holds(
                "clock",
                f"the clock says epoch {epoch}, before the newest release of this journal "
                f"({self.journal.epoch(epoch)}): nothing is reported until it is later; set the "
                "clock right",
            )
            return
        self._conditions.passed("broker", "clock")
        try:
            requests = list(self._requests(epoch, moments))
        except Unreadable as error:
            # Without them an item would be reported as not rated, and its epsilon be spent on it.
            self._conditions.holds("ratings", f"{error}; nothing is reported until it can be read")
            return
        self._conditions.passed("ratings")
        if requests:
            self._commit(requests, self.delivery)

    def _contribute(self, campaigns: Contributing) -> None:
        """Contribute for the accounts whose looks have come, once both topics were reached."""
        campaigns.delivery.serve()
        epoch = self.epoch
        if not self.delivery.connected or self.journal.epoch(epoch) > epoch:
            return
        try:
            asked = campaigns.requests(self.clock.now(), epoch, self.ratings, self._conditions)
        except Unreadable as error:
            self._conditions.holds("ratings", f"{error}; nothing is sent until it can be read")
            return
        if asked:
            self._commit(asked, campaigns.delivery)
            campaigns.delivery.serve()

    def _commit(self, requests: list[Request], delivery: Delivery) -> None:
        """Release the requests and send them; those that the journal does not take now are made up
        for at a later moment: nothing was spent or sent."""
        try:
            messages = self.journal.commit(requests)
        except (OutboxFull, Unwritable) as error:
            if not self.journal.usable:
                raise  # a sync failed: what the file holds is known once it is opened again
            self._conditions.holds("journal", f"{error}; what is due is reported later")
            return
        self._conditions.passed("journal")
        self.messages += len(messages)
        for message in messages:
            delivery.send(message)

    def _short(self, mechanism: str) -> None:
        self._conditions.holds(
            "budget",
            f"the budget of an account holds fewer reports under {mechanism} than are due: the "
            "rest waits until the budget's window frees some (murmurec device status)",
        )

    def _requests(self, epoch: int, moments: list[Moment]) -> Iterator[Request]:
        for each in moments:
            account = self.journal.enrolment(each.device)
            if account is None or not account.active(epoch):
                continue
            request, held_back = due_request(
                account, self.journal, self.reporting, self.ratings, epoch
            )
            if held_back:
                self._short(self.reporting.settings.mechanism.id)
            if request is not None:
                yield request
