"""One person's device: the place where a raw rating is sanitized, paid for and recorded.

>>> import tempfile, pathlib
>>> from murmurec import Device
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> with Device("ann", folder / "device.journal", epsilon=2).enrol(budget=20) as device:
...     event = device.rate("alien", 5)
...     device.spent
Fraction(2, 1)

The journal (a file that belongs to the device) records debit, event number and noised bytes before
anything is sent; `publish` sends the unacknowledged messages, the same bytes after any crash. A
person is enrolled once, with a budget for all that is ever reported about them; a rating that
exceeds the budget is refused, and so is a second report on the same item.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from producers.campaign.stage_requests import JoinedCampaigns
from producers.deployed import deployed
from producers.device import item_means as item_table
from producers.device.rating import rate
from producers.device.requests import ReportSettings
from producers.identities import Identities
from producers.journal import NANO, Journal, Message, PersonBudget, Unwritable, read_journal
from producers.last_seen import check_newest, newest_seqs
from producers.person.enrolment import Pace
from producers.person.plans import checked_plan
from producers.person.spending_so_far import Spending
from producers.pseudonyms import normalised
from producers.publishing import OutboxRelay, PlacedProducer, Publisher
from producers.ranking import (
    CleanHistory,
    LocalList,
    LocalRecommender,
    RatedItem,
    visit_of,
)
from producers.ranking.clean_history import stars
from producers.scale import Scale
from producers.siblings import check_only_journal
from stream_app import wire
from stream_app.errors import Unreadable, UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.privacy import registry
from stream_app.wire.signatures import Signatures
from stream_app.wire.topics import absent, grown

if TYPE_CHECKING:
    from consumers.audit.campaigns.receipts import Receipt


class Device:
    """The device of one user.

    Args:
        user: the user's id, in its one form (`producers.pseudonyms`); it never leaves the
            device, the server sees a pseudonym.
        journal: path of the journal, created with mode 0600 when it does not exist.
        mechanism: a family (`"rr"`) or a whole id (`"rr:5:2"`) whose reports may be sent one by
            one: its adjacency is the value of a rating.
        epsilon: of one report, when `mechanism` is a family; 2 by default.
        scale: minimum, maximum and step of the ratings.
        prefix: first part of the topics' names; None takes that of the settings
            (`MURMUREC_TOPIC_PREFIX`), as the commands do.
        history: keep each clean rating in a file beside the journal (mode 0600), from which
            `recommend` ranks on this device; it is never sent.

    Raises ValueError for an invalid mechanism, scale or user id, before a journal is made, and
    UserError where another journal in the folder holds an account of the user.
    """

    def __init__(
        self,
        user: int | str,
        journal: Path | str,
        *,
        mechanism: str = "rr",
        epsilon: int | float | str | Fraction | None = None,
        scale: tuple[float, float, float] = (1, 5, 1),
        prefix: str | None = None,
        history: bool = True,
    ) -> None:
        self._scale = Scale(*scale)
        if ":" in mechanism:
            if epsilon is not None:
                raise ValueError(f"epsilon {epsilon}: the id {mechanism} holds one; leave it out")
            chosen = registry.parse(mechanism)
        else:
            written = Fraction(2) if epsilon is None else _exact("epsilon", epsilon)
            chosen = registry.mechanism(mechanism, self._scale.levels, written)
        self.user = normalised(user) if isinstance(user, str) else user
        self.mechanism = chosen
        self._settings = deployed()
        self._topics = wire.Topics(prefix or self._settings.topic_prefix)
        Identities(bytes(32)).pseudonym(self.user)  # raises before a journal is created
        self._journal = Journal.open(journal)
        try:
            check_only_journal(self._journal, [self.user])
        except BaseException:
            self._journal.close()
            raise
        self._identities = Identities(self._journal.key)
        self._reporting = ReportSettings(self._topics.ratings, self.mechanism)
        if self._settings.signed:
            self.sign()
        self._history = CleanHistory(self._journal.path)
        self._keeps = history

    def enrol(
        self,
        budget: int | float | str | Fraction = 20,
        *,
        delta: float | str | Fraction = Fraction(1, 10**6),
        window: int | None = 365,
        plan: str = "",
        pace: str = "",
    ) -> Self:
        """Enrol this user, with a budget of (`budget`, `delta`) for the whole person in any
        `window` days (None: in all); on the same terms again it changes nothing but plan and pace.

        `plan`: the mechanism that the budget is for ("": that of the first report; "adaptive" for
        several, also after reports, which count). `pace`: of campaigns, their share of the budget
        and its part in any 30 days ("": 3/4:1/12, or as it was). ValueError for a plan that the
        budget does not hold, UserError for other terms than those of the account.
        """
        terms = PersonBudget(_exact("budget", budget), Fraction(str(delta)), window)
        terms = replace(terms, plan=checked_plan(plan, terms))
        device = bytes.fromhex(self.pseudonym)
        self._identities.check_journal(self._journal, [self.user])
        paced = Pace.parse(pace) if pace else None
        self._journal.enrol([device], terms, self._journal.epoch(_today()))
        if paced is not None:
            self._journal.set_pace([device], paced)
        return self

    def withdraw(self) -> None:
        """Release nothing more for this user; what was released stays released."""
        device = bytes.fromhex(self.pseudonym)
        self._journal.withdraw([device], _today())

    @property
    def budget(self) -> PersonBudget | None:
        """The terms on which this user takes part; None while not enrolled or withdrawn."""
        terms = self._journal.enrolment(bytes.fromhex(self.pseudonym))
        return None if terms is None or terms.withdrawn else terms.budget

    def sign(self) -> Self:
        """Sign the events of later ratings, as a server with `devices = signed` requires.

        The key pair is made from the journal's key and gives the user another pseudonym. Ratings
        under the other one stay where they are: a journal that holds some refuses to sign.
        """
        self._identities = Identities(self._journal.key, signed=True)
        self._reporting = replace(self._reporting, identities=self._identities)
        return self

    @property
    def pseudonym(self) -> str:
        """The name of the user at the server: 32 hexadecimal characters."""
        return self._identities.pseudonym(self.user).hex()

    @property
    def spent(self) -> Fraction:
        """The sum of the epsilons of every report in the journal about this user: what each rating
        costs by itself. What the whole person has spent is less: `spending`."""
        debits = self._journal.spent(bytes.fromhex(self.pseudonym)).values()
        return sum((Fraction(debit.nano, NANO) for debit in debits), Fraction(0))

    @property
    def spending(self) -> dict[str, Spending]:
        """What the person has spent so far if it ended now: "all", and by purpose ("reports",
        "campaigns"); epsilons `zeros` and `replaced`, valid at every moment to stop, at
        the budget's delta within its window. Empty while not enrolled."""
        return self._journal.spending(bytes.fromhex(self.pseudonym), _today())

    def receipts(self, bootstrap_servers: str | Connection | None = None) -> list[Receipt]:
        """Return what became of each contribution of this user, and what it cost, by the journal
        and the public topics; UserError where these cannot be read."""
        from consumers.audit.topic_reading import read_receipts

        connection = clients.connection(bootstrap_servers, self._settings)
        device = bytes.fromhex(self.pseudonym)
        joined = JoinedCampaigns.from_view(read_journal(self._journal.path), device)
        return read_receipts(connection, self._topics, device, joined)

    @property
    def remaining(self) -> int | None:
        """How many more reports of this mechanism the person's budget holds; None without a limit,
        0 while not enrolled."""
        device = bytes.fromhex(self.pseudonym)
        return self._journal.room(device, self.mechanism, _today())

    @property
    def waiting(self) -> int:
        """How many messages the broker has not acknowledged yet."""
        return len(self._journal.pending())

    def rate(self, item: int | str, rating: float, *, republish: bool = False) -> Message | None:
        """Sanitize one rating and record it; `publish` sends it. With `history` the clean rating is
        kept for `recommend`; a file that cannot be written is a warning, and the report is valid.
        The rating that was kept and reported is not reported again: None then.

        `republish` draws a second report on an item and spends its epsilon again. Raises ValueError
        for an invalid item or rating, `BudgetExhausted` if the cost exceeds the budget, `UserError`
        for a user who is not enrolled, for an item that was reported before, and for an older copy
        of the journal that was put back on this machine; nothing is spent then.
        """
        epoch = _today()
        if account := self._journal.enrolment(bytes.fromhex(self.pseudonym)):
            account.check_limited(str(self.user))
        if not republish and self._is_reported(item, rating):
            return None
        message = rate(
            self.user,
            item,
            rating,
            self._reporting,
            scale=self._scale,
            journal=self._journal,
            epoch=epoch,
            republish=republish,
        )
        if self._keeps:
            try:
                self._history.append(message.device, item, rating, self._scale, time.time())
            except Unwritable as error:
                warnings.warn(f"{error}; the rating is not kept", RuntimeWarning, stacklevel=2)
        return message

    def _is_reported(self, item: int | str, rating: float) -> bool:
        """Return whether this very rating is the newest one kept of an item that was reported."""
        try:
            kept = {row.key: row.stars for row in self.rated} if self._keeps else {}
        except Unreadable:  # the report is valid without it
            return False
        key = wire.key(item)
        if kept.get(key) != stars(rating, self._scale):
            return False
        device = bytes.fromhex(self.pseudonym)
        return bool(self._journal.reports(device, np.array([key], np.uint64))[0])

    @property
    def rated(self) -> list[RatedItem]:
        """What is kept of this user's ratings, oldest first, each item once."""
        return self._history.rated(bytes.fromhex(self.pseudonym))

    def recommend(
        self,
        table: LocalRecommender | str | Connection | None = None,
        k: int = 10,
        *,
        because: bool = False,
        by: Literal["campaign", "links"] | None = None,
        for_: Literal["auto", "next", "now"] = "auto",
    ) -> LocalList:
        """Return the best `k` items that this user has not rated, ranked on this device; no query
        is sent.

        `table`: a public table, or the cluster to read it from (None: as in `publish`); `by`: which
        is read there, that of released reports ("links") or of noisy sums over people ("campaign");
        None takes the first where there are both. `for_`: what is liked at the "next" visit or
        "now", in this one; "auto" takes this one for half an hour after a rating, by the device's
        clock. The list says which.
        """
        if not isinstance(table, LocalRecommender):
            table = LocalRecommender.from_kafka(table, self._topics.prefix, by=by)
        rated = self.rated
        visit = visit_of(rated, time.time()) if for_ == "auto" else for_
        return table.recommend(rated, k, because=because, for_=visit)

    def forget_history(self) -> int:
        """Delete what is kept of this user's ratings; return how many lines there were."""
        return self._history.forget(bytes.fromhex(self.pseudonym))

    def publish(
        self,
        bootstrap_servers: str | Connection | None = None,
        seconds: float = 30.0,
        *,
        partitions: int | None = None,
        trust_journal: bool = False,
    ) -> int:
        """Send every pending message; return how many the broker has acknowledged.

        `bootstrap_servers`: address of the Kafka cluster, or a `Connection`; None takes that of the
        settings. `partitions`: the deployment's number, by default that of the settings; given, it
        holds though the topic has more. Raises `OlderJournal` where the topic holds later events of
        a copy of this journal, unless `trust_journal`; UserError without the topic, and where a
        message was not acknowledged within `seconds`; it stays in the journal and is sent by the
        next call. A mechanism with groups chooses those of later ratings by the public item table,
        which is read here.
        """
        connection = clients.connection(bootstrap_servers, self._settings)
        topic = self._topics.ratings
        partitions = partitions or self._settings.partitions
        count = partitions or _listed_partitions(connection, topic, seconds)
        self._journal.check_newest()
        if not trust_journal:
            own = {bytes.fromhex(self.pseudonym): self._journal}
            signatures = Signatures(topic, self._settings.signed)
            newest = newest_seqs(connection, topic, count, own, signatures, min(seconds, 20.0))
            check_newest(self._journal, topic, newest or {})
        producer = PlacedProducer(clients.producer(connection), topic, count)
        publisher = Publisher(producer, topic)
        try:
            OutboxRelay(self._journal, publisher).resend({self._topics.ratings})
        finally:
            publisher.close(seconds)
        if publisher.failed:
            raise UserError(
                f"{connection.bootstrap}: the broker acknowledged {publisher.accepted} of "
                f"{publisher.sent} messages ({publisher.first_error}); the others stay in the "
                "journal: check the address and publish again"
            )
        if self.mechanism.masks:
            table = item_table.read(connection, self._topics.item_table)
            self._reporting = replace(self._reporting, table=table)
        return publisher.accepted

    def close(self) -> None:
        """Close the journal, which keeps the pending messages."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listed_partitions(connection: Connection, topic: str, seconds: float) -> int:
    """Return how many partitions a topic has; refuses more than the default, which may have been
    added since the deployment began, and a topic that is not there. Where this is not known in time
    or to this user it is the default."""
    admin, seconds = clients.admin(connection), min(seconds, 5.0)
    try:
        found = clients.listed(admin, seconds).get(topic)
        missing = found is None and not clients.exists(admin, topic, seconds)
    except UserError:
        return wire.PARTITIONS
    if found is None:
        if missing:
            raise UserError(f"{connection.bootstrap}: {absent(topic)}; the messages wait")
        return wire.PARTITIONS
    count = len(found.partitions)
    if count > wire.PARTITIONS:
        raise UserError(grown(topic, count, wire.PARTITIONS))
    return count


def _today() -> int:
    return int(time.time()) // wire.EPOCH_SECONDS


def _exact(name: str, number: int | float | str | Fraction) -> Fraction:
    """Return the number that was written; ValueError unless it is a number above 0."""
    try:
        exact = Fraction(str(number))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(0)
    if exact <= 0:
        raise ValueError(f"{name} {number}: give a number above 0, as 2, 0.5 or 1/2")
    return exact
