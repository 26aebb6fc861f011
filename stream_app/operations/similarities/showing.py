"""What an operator sees of the public table: what it holds, and what all of them cost."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import UserError
from stream_app.operations.session import Session
from stream_app.operations.similarities.debits import BUDGET_DELTA, read_account
from stream_app.operations.similarities.publication import newest_table
from stream_app.ranking.domains.table_bytes import SimilarityTableError, decode_table


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
    newest = newest_table(session)
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
