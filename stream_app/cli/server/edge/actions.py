"""The actions of `murmurec edge`: serve, list the accounts, import a file, copy the store.

Files are one's own or those of Gorse and Metarank. What is imported again counts once. Rows that
are none are counted by their reason.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from consumers.site_edge import Edge as SiteEdge
from producers.datasets.item_files import read as read_items
from producers.datasets.item_files import rows_of as items_of
from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow
from producers.edge.events.event import Event
from producers.edge.events.event_files import rows_of as events_of
from producers.edge.events.feedback_rows import FeedbackRows
from producers.edge.http.edge_serving import check_open, run
from producers.edge.http.site import Edge
from producers.edge.reporting.reporter import Reporter
from producers.edge.reporting.users import Users
from producers.edge.site_terms import SiteTerms, read
from producers.edge.store import database as store
from producers.edge.store.database import Database
from stream_app.cli.demo.demo_processes import open_page, terminated_like_interrupted
from stream_app.cli.output import plural, print_json, printable, say
from stream_app.cli.server.edge.wiring import (
    STANDALONE_SECONDS,
    Standalone,
    check_files,
    edge_of,
    readable,
    standalone,
)
from stream_app.errors import UserError
from stream_app.monitoring.log_setup import configure

if TYPE_CHECKING:
    from stream_app.cli.options import Cluster
    from stream_app.cli.server.edge import EdgeFlags


_TOKEN = re.compile(r"[!-~]{16,512}")
_MOST_SHOWN = 100
_ASK_SECONDS = 5.0


def check(flags: EdgeFlags) -> None:
    """Refuse a store, a file or a token that is wrong, before anything is made, read or reached."""
    store.checked(flags.store)
    _token()
    check_files(flags, _terms(flags))


def serve(flags: EdgeFlags, cluster: Cluster) -> None:
    """Run the edge until SIGTERM or SIGINT."""
    token = _token()
    check_open(flags.host, token)
    settings, terms = cluster.settings(), _terms(flags)
    configure(settings.log_level, settings.log_format)
    with ExitStack() as stack:
        stack.enter_context(terminated_like_interrupted())  # until the interface handles both
        _import_first(flags, terms)
        beside: Standalone | None = None
        if flags.standalone:
            folder = Path(f"{flags.store.partition(':///')[2]}.standalone").absolute()
            beside = stack.enter_context(standalone(settings, folder, terms.mechanism.id))
            settings = beside.settings
        service = stack.enter_context(edge_of(flags, settings, terms, beside))

        def failure() -> str | None:
            if beside is not None:
                beside.check()
            return service.failure()

        names = frozenset(name.lower() for name in (flags.host, *(flags.names or ())))
        at_once = flags.store.startswith("sqlite") and "server" not in terms.models
        edge, started = Edge(service.site, names, token, at_once), partial(_started, flags)
        asyncio.run(run(edge, flags.host, flags.port, started, failure))


def _started(flags: EdgeFlags, address: str) -> None:
    say(f"edge at {address}; the page is there, the contract at {address}/docs")
    if flags.open_page:
        open_page(address)


def _import_first(flags: EdgeFlags, terms: SiteTerms) -> None:
    if flags.items is None and flags.events is None:
        return
    with Database(flags.store) as database:
        if flags.items is not None:
            import_items(database, flags.items)
        if flags.events is not None:
            import_events(database, terms, flags.events)


def backup(flags: EdgeFlags, path: Path) -> None:
    """Copy the store to a file while an edge may use it."""
    store.backup(flags.store, path)
    say(f"{path}: a copy of the store; put it back only where the newest one is lost")


def import_file(flags: EdgeFlags, path: Path) -> None:
    """Import a file, of whatever kind it is."""
    readable(path)
    with Database(flags.store) as database:
        import_events(database, _terms(flags), path)


def accounts(flags: EdgeFlags, *, as_json: bool) -> None:
    """Print the newest accounts, and what each has spent."""
    found = _accounts(flags)
    if as_json:
        print_json(found)
        return
    for each in found:
        spent = [] if each["budget"] is None else each["budget"]["spent"]
        costs = [f"epsilon {line['epsilon']:.3g} ({line['adjacency']})" for line in spent]
        name = printable(each["user"])[:60] if each["removed"] is None else "(deleted)"
        events, cost = plural(each["events"], "event"), ", ".join(costs) or "nothing spent"
        say(f"{name}  {each['pseudonym']}  {events}  {cost}")
    say(f"{plural(len(found), 'account')}, the newest first")


def _accounts(flags: EdgeFlags) -> list[dict[str, Any]]:
    """Return the newest accounts, from the store, or from the edge that holds it."""
    terms = _terms(flags)
    try:
        with Database(flags.store) as database:
            users = Users(database, Reporter(database, terms), terms)
            return [msgspec.to_builtins(each) for each in users.accounts(_MOST_SHOWN)]
    except UserError as refusal:
        address = f"http://{flags.host}:{flags.port}"
        try:
            with SiteEdge(address, _token(), retries=0, seconds=_ASK_SECONDS) as edge:
                return list(edge.accounts(_MOST_SHOWN)["accounts"])
        except UserError:
            raise refusal from None


def _terms(flags: EdgeFlags) -> SiteTerms:
    if flags.site is not None:
        return read(flags.site)
    # To try it one wants to see what leaves.
    return SiteTerms(report_seconds=STANDALONE_SECONDS) if flags.standalone else SiteTerms()


def _token() -> str | None:
    found = os.environ.get("MURMUREC_EDGE_TOKEN") or None
    if found is not None and not _TOKEN.fullmatch(found):
        raise UserError(
            "MURMUREC_EDGE_TOKEN: give 16 to 512 printable characters without blanks, such as from "
            "openssl rand -hex 32"
        )
    return found


_BATCH = 10_000
_TYPES = {".json": "application/json", ".ndjson": "application/x-ndjson"}
_TYPES |= {".jsonl": "application/x-ndjson", ".csv": "text/csv"}


def import_items(database: Database, path: Path) -> None:
    """Write the items of a site's own file into the catalogue."""
    found = items_of(read_items(path.expanduser()), _TYPES.get(path.suffix.lower(), ""))
    if not found.rows:
        sentence = f": {found.refused[0].sentence}" if found.refused else ""
        raise UserError(f"{path}: holds no item{sentence}")
    Catalogue(database).put_many(found.rows)
    columns = ", ".join(f"{name} as {use}" for name, use in found.recognised.items())
    say(f"{path}: {plural(len(found.rows), 'item')}{f' ({columns})' if columns else ''}")
    _say_refused(Counter(each.reason for each in found.refused))


def import_events(database: Database, terms: SiteTerms, path: Path) -> None:
    """Write the events of a file into the store, so many in a transaction, and an export's items;
    say how many were new."""
    writer = FeedbackRows(database, terms.feedback, signed=terms.signed)
    refused, taken, new = Counter[str](), 0, 0
    items: list[ItemRow] = []
    rows = events_of(path, terms.feedback)
    while batch := list(islice(rows, _BATCH)):
        events = [row for row in batch if isinstance(row, Event)]
        items += (row for row in batch if isinstance(row, ItemRow))
        refused.update(row.reason for row in batch if not isinstance(row, Event | ItemRow))
        taken, new = taken + len(events), new + sum(writer.write(events) if events else ())
    if items:
        say(f"{path}: {plural(Catalogue(database).put_many(items), 'item')}")
    elif not taken:
        reason = f" ({next(iter(refused))})" if refused else ""
        raise UserError(f"{path}: holds no event{reason}; murmurec edge reads CSV and NDJSON")
    say(f"{path}: {plural(new, 'event')}, {taken - new} known before")
    _say_refused(refused)


def _say_refused(refused: Counter[str]) -> None:
    if refused:
        reasons = ", ".join(f"{reason} {count}" for reason, count in refused.most_common(5))
        say(f"refused rows: {reasons}")
