"""The steps of a release, in the order that survives a crash between any two.

    1 lists of the newest checkpoint, and the noise that the terms need        nothing is spent
    2 debit to the log, acknowledged; the log is read back: does it count?     spent from here on
    3 noise is drawn, the table is derived                                     in memory alone
    4 the table to a file, synced (`pending.py`)
    5 pages and manifest to the topic; the file is removed once they are whole

A release that is killed after 4 sends the same bytes at the next call, instead of a new release.
One that is killed between 2 and 4 has spent its debit; what was drawn is gone, and no later call
draws under that debit. Adjacency: everything that one device reported, as far as the state holds
it, or nothing in its place.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from stream_app.campaigns.noise_once import NoisePlan, plan_for, release
from stream_app.checkpoints import offline_writer
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.table_versions import Versions, published, write
from stream_app.kafka.topic_checks import check_debits
from stream_app.kafka.topic_follower import exists
from stream_app.operations.log_replay import recompute_state
from stream_app.operations.session import Session
from stream_app.operations.similarities.debits import (
    BUDGET_DELTA,
    Account,
    Debit,
    encode_debit,
    read_account,
)
from stream_app.operations.similarities.lists import PublicItems, check_state, lists_of
from stream_app.operations.similarities.pending import PendingFile, PendingTable
from stream_app.privacy.randomness import RandomSource, SystemSource
from stream_app.ranking.domains.noised_similarities import Noise, Terms, similarity_table
from stream_app.ranking.domains.table_bytes import SimilarityTableError, decode_table, encode_table
from stream_app.state.replica import Replica
from stream_app.wire import CatalogueEntry
from stream_app.wire.public_tables import table_digest
from stream_app.wire.topics import absent


@dataclass(frozen=True)
class Published:
    """A release that its topic holds; `resumed`: it was drawn by an earlier call."""

    release: int
    cut: int
    items: int
    epsilon: float
    delta: float
    spent: float
    resumed: bool = False


def publish(
    session: Session,
    entries: Mapping[int, CatalogueEntry],
    epsilon: Fraction,
    delta: Fraction,
    source: RandomSource | None = None,
) -> Published:
    """Release the table of the newest checkpoint, or of the log where there is none, over the items
    of `list_scope` with their `entries` of the catalogue, or send one that an earlier call has
    drawn.

    Raises UserError where a topic is absent, the state forbids it, or the budget does not hold it.
    """
    _check_topics(session)
    waiting = _pending_file(session)
    found = waiting.read()
    if found is not None:
        return _resumed(session, waiting, found)
    replica = _replica(session)
    items = PublicItems.of_scope(replica.spec.list_scope, entries)
    try:
        plan = plan_for(epsilon, delta, len(items.keys), differences=False, means=True)
    except ValueError as error:
        raise UserError(f"no release: {error}") from None
    plan.certificate.check()
    debit = _debit(session, plan, epsilon, delta, replica.cut, items.digest)
    number, spent = _debited(session, debit)
    with session.display("drawing the noise") as progress:
        progress(0, 1)
        lists = lists_of(replica, items)
        noised = release(plan, lists, items.keys, source or SystemSource(), replica.cut)
        terms = Terms(number, _above(epsilon), float(delta), _above(max(spent, epsilon)))
        noise = Noise(noised.deviation, noised.damping)
        table = similarity_table(noised.table, items.domains, noise, terms)
    drawn = PendingTable(number, replica.cut, encode_table(table))
    with session.display("keeping the table") as progress:
        progress(0, 1)
        waiting.write(drawn)
    _send(session, drawn)
    waiting.remove()
    return _published(drawn)


def _check_topics(session: Session) -> None:
    for topic in (session.names.similarities, session.names.similarity_releases):
        if not exists(session.connection, topic):
            raise UserError(absent(topic))
    check_debits(clients.admin(session.connection), session.names.similarity_releases)


def _pending_file(session: Session) -> PendingFile:
    bootstrap = session.connection.bootstrap
    return PendingFile.of_deployment(
        session.settings.data_dir, bootstrap, session.settings.topic_prefix
    )


def _replica(session: Session) -> Replica:
    """Return the newest checkpoint, or the state of the log where no worker has written one yet;
    a worker writes one after `replay_seconds` of work, which a small log never is."""
    checkpoint = session.checkpoint()
    replica = recompute_state(session) if checkpoint is None else checkpoint.replica
    if not replica.cut:
        raise UserError(
            f"{session.names.cuts} holds no cut, so no rating counts yet: start a worker "
            "(murmurec worker) and publish ratings"
        )
    check_state(replica)
    return replica


def _debit(
    session: Session, plan: NoisePlan, epsilon: Fraction, delta: Fraction, cut: int, scope: str
) -> Debit:
    budget = Fraction(str(session.settings.similarity_budget))
    if not budget:
        raise UserError(
            "similarity_budget is 0, so nothing may be released: set the epsilon (at delta "
            f"{float(BUDGET_DELTA):g}) that all tables together may cost a device"
        )
    (sums,) = plan.certificate.sums
    stated = sums.bound, sums.variance, sums.size, epsilon, delta, budget, cut
    return Debit(secrets.token_hex(16), *stated, scope)


def _debited(session: Session, debit: Debit) -> tuple[int, Fraction]:
    """Append the debit and return its number, and what is spent at its delta with it; UserError,
    and nothing is drawn, unless it counts."""
    topic = session.names.similarity_releases
    before = read_account(session.connection, topic)
    _check_history(session, before)
    if not before.holds(debit):
        raise _exhausted(before, debit)
    with session.display("writing the debit") as progress:
        progress(0, 1)
        offline_writer.append(session.connection, topic, encode_debit(debit))
    account = read_account(session.connection, topic)
    number = account.number(debit.id)
    if not number:
        # Another operator's debit came between the look and the append.
        raise _exhausted(account, debit)
    # Debits of others may stand after it; what they cost is stated by theirs.
    return number, Account(account.counted[:number]).spent(debit.delta)


def _check_history(session: Session, account: Account) -> None:
    newest = published(session.connection, session.names.similarities)
    if newest is not None and decode_table(newest.table).release > len(account.counted):
        raise UserError(
            f"topic {session.names.similarity_releases} has fewer debits "
            f"({len(account.counted)}) than the newest table in {session.names.similarities} "
            "counts: restore the log of releases; what was spent is not known without it"
        )


def _exhausted(account: Account, debit: Debit) -> UserError:
    spent = float(account.spent())
    try:
        together = f"{float(account.with_debit(debit).spent()):.4g}"
    except ValueError:
        together = "more than any budget holds"
    return UserError(
        f"similarity_budget is {float(debit.budget):g} (epsilon of all tables at delta "
        f"{float(BUDGET_DELTA):g}), {spent:.4g} is spent and with this release it would be "
        f"{together}: give a smaller --epsilon, or raise similarity_budget; nothing was drawn"
    )


def _resumed(session: Session, waiting: PendingFile, found: PendingTable) -> Published:
    newest = published(session.connection, session.names.similarities)
    if newest is None or decode_table(newest.table).release < found.release:
        _send(session, found)
    waiting.remove()
    return _published(found, resumed=True)


def _send(session: Session, drawn: PendingTable) -> None:
    """Write a version to the slot that does not hold the newest, and look whether it is whole."""
    connection, topic = session.connection, session.names.similarities
    writer = AcknowledgedWriter.connect(connection, topic, "a page of the table")
    found = Versions(lambda: published(connection, topic)).due(drawn.table, drawn.cut)
    with session.display("sending the table") as progress:
        write(writer, found, progress)
    newest = published(connection, topic)
    if newest is None or table_digest(newest.table) != table_digest(drawn.table):
        raise UserError(
            f"{topic} does not hold release {drawn.release} whole: another writer was at work; run "
            "the command again, which sends the same bytes"
        )


def _published(drawn: PendingTable, *, resumed: bool = False) -> Published:
    table = decode_table(drawn.table)
    return Published(
        drawn.release,
        drawn.cut,
        len(table),
        table.epsilon,
        table.delta,
        table.spent,
        resumed,
    )


def _above(value: Fraction) -> float:
    """Return the least float that is not below a rational."""
    found = float(value)
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)


@dataclass(frozen=True)
class ShownDomain:
    """A domain of the table: its items, and their links within it and to items of others."""

    name: str
    items: int
    links_within: int
    links_beyond: int


@dataclass(frozen=True)
class Shown:
    """The newest table (release 0: there is none), and the account of the log of releases.

    counted: debits that count; of those without a table the noise was drawn and lost, or never
    drawn. spent: what they cost a device at `BUDGET_DELTA`; budget: the setting.
    """

    release: int
    cut: int
    epsilon: float
    delta: float
    bytes: int
    domains: tuple[ShownDomain, ...]
    counted: int
    spent: float
    budget: float


def shown(session: Session) -> Shown:
    """Read the topic and the log; UserError for a table of another version."""
    account = read_account(session.connection, session.names.similarity_releases)
    spent = float(account.spent(BUDGET_DELTA))
    budget = session.settings.similarity_budget
    newest = published(session.connection, session.names.similarities)
    if newest is None:
        return Shown(0, 0, 0.0, 0.0, 0, (), len(account.counted), spent, budget)
    try:
        table = decode_table(newest.table)
    except SimilarityTableError as error:
        raise UserError(
            f"{session.names.similarities}: {error}; install the version that published it"
        ) from None
    domains = []
    for place, name in enumerate(table.domains):
        linked = table.targets[:, table.domain == place] >= 0
        within = int(linked[place].sum())
        items = int((table.domain == place).sum())
        domains.append(ShownDomain(name, items, within, int(linked.sum()) - within))
    return Shown(
        table.release,
        table.version,
        table.epsilon,
        table.delta,
        len(newest.table),
        tuple(domains),
        len(account.counted),
        spent,
        budget,
    )
