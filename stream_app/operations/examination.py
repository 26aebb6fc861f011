"""What is wrong with a deployment, part by part, each fault in a sentence that names the fix.

    broker      it answers, under the configured protocol and password
    rights      this user has those of an operator (`kafka/acls.py`)
    topics      all exist, lose nothing, and take nothing that expands
    cut log     a worker moves it on: no record has waited longer than `STALL_SECONDS` for a cut
    workers     each one asked is ready and near the end of the log; one of them is the clock, and
                all have one design

Nothing is changed. A part is looked at whatever is wrong with another, except behind a broker that
does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from http.client import HTTPException
from typing import NamedTuple

import msgspec

from stream_app.errors import UserError
from stream_app.kafka import acls, clients, topic_checks
from stream_app.kafka.broker_answers import ends
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import records
from stream_app.operations.workers import page
from stream_app.settings import Settings
from stream_app.wire import Cut, Topics, WireError, decode_entry

STALL_SECONDS = 60.0
LAG_RECORDS = 100_000
_NEWEST = 1_000  # entries of the cut log among which the newest cut is sought
_PAGE_SECONDS = 15.0


class Finding(NamedTuple):
    """One part, whether it is well, and what was seen: where it is not, with the fix."""

    part: str
    well: bool
    sentence: str


class _Worker(msgspec.Struct, frozen=True):
    """The fields of a worker's /state that are looked at."""

    ready: bool
    waiting_for: str | None
    clock: bool
    design_digest: str
    lag_records: int
    other_design: str | None = None


def examine(
    settings: Settings,
    connection: Connection,
    urls: Sequence[str] = (),
    now: Callable[[], float] = time.time,
) -> Iterator[Finding]:
    """Yield a finding for each part of a deployment and for each worker at `urls`."""
    names = Topics(settings.topic_prefix)

    def broker() -> str:
        return f"{len(clients.describe_cluster(connection).brokers)} in the cluster"

    def rights() -> str:
        wanted = acls.of_role("operator", names, settings.features)
        acls.check(connection, wanted, "operator", settings.worker_group)
        return f"those of an operator on {len(wanted)} topics"

    def topics() -> str:
        check_topics(connection, settings)
        return "as this deployment needs them"

    def cut_log() -> str:
        return _cut_log(connection, names, now)

    for part, look in (
        ("broker", broker),
        ("rights", rights),
        ("topics", topics),
        ("cut log", cut_log),
    ):
        found = _finding(part, look)
        yield found
        if part == "broker" and not found.well:
            return
    yield from _workers(urls, settings.admin_token)


def check_topics(connection: Connection, settings: Settings) -> None:
    """Refuse a deployment with a topic that is absent, would lose records, or takes what costs a
    reader more than it is worth: those that a worker of these settings uses."""
    names = Topics(settings.topic_prefix)
    if settings.privacy_mode != "local":
        topic_checks.check_campaigns(connection, names)
    topic_checks.check_deployment(
        connection, names, settings.partitions, settings.ratings_retention_seconds
    )
    if settings.list_budget > 0:
        topic_checks.check_debits(clients.admin(connection), names.list_debits)
    profiles = bool(settings.profile_mechanisms)
    topic_checks.check_outsiders(connection, names.read_from_outsiders(profiles=profiles))


def _finding(part: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(part, True, look())
    except UserError as fault:
        return Finding(part, False, str(fault))


def _cut_log(connection: Connection, names: Topics, now: Callable[[], float]) -> str:
    newest, written = None, 0.0
    for message in records(connection, names.cuts, newest=_NEWEST):
        try:
            entry = decode_entry(message.value())
        except WireError:
            continue
        if isinstance(entry, Cut):
            newest, written = entry, message.timestamp()[1] / 1000
    with closing(clients.consumer(connection)) as consumer:
        last = [place.offset for place in ends(consumer, names.ratings)]
    reached = newest.end_offsets if newest else [0] * len(last)
    waiting = sum(max(end - cut, 0) for end, cut in zip(last, reached, strict=True))
    if waiting and now() - written > STALL_SECONDS:
        age = f"the newest is {now() - written:,.0f} s old" if newest else "there is none"
        raise UserError(
            f"{waiting:,} records wait for a cut, and {age}: no worker moves the log on; start one "
            "with murmurec worker"
        )
    return f"{newest.number if newest else 0:,} cuts; {waiting:,} records wait for the next"


def _workers(urls: Sequence[str], token: str | None) -> Iterator[Finding]:
    if not urls:
        yield Finding("workers", True, "none was asked: name each with --worker URL")
        return
    found: list[_Worker] = []
    for url in urls:

        def look(url: str = url) -> str:
            found.append(_asked(url, token))
            return _condition(found[-1])

        yield _finding(f"worker {url}", look)
    if len(found) == len(urls):
        yield _finding("clock", lambda: _clock(found))
        yield _finding("design", lambda: _design(found))


def _asked(url: str, token: str | None) -> _Worker:
    if not url.startswith(("http://", "https://")):
        raise UserError(f"{url} is no address: give one such as http://127.0.0.1:8470")
    try:
        return msgspec.json.decode(page(url, "/state", token, _PAGE_SECONDS), type=_Worker)
    except (OSError, HTTPException, ValueError):
        raise UserError(
            f"nothing shows its state there within {_PAGE_SECONDS:.0f} s: start the worker, or "
            "give the address of its --admin-port"
        ) from None


def _condition(worker: _Worker) -> str:
    if not worker.ready:
        raise UserError(f"not ready: {worker.waiting_for}")
    if worker.lag_records > LAG_RECORDS:
        raise UserError(
            f"{worker.lag_records:,} records behind the end of the log: if that grows, ratings "
            "come faster than one replica learns them; send fewer, or use a faster processor"
        )
    return f"ready, {worker.lag_records:,} records behind the end of the log"


def _clock(workers: Sequence[_Worker]) -> str:
    owners = sum(worker.clock for worker in workers)
    if owners > 1:
        raise UserError(
            f"{owners} workers write cuts: they are in several groups; start all with the same "
            "--group"
        )
    if not owners:
        raise UserError(
            "none of these workers writes cuts: name the one that does with --worker, or, where "
            "these are all, look at murmurec_clock_owner and start one again"
        )
    return "one worker writes the cuts"


def _design(workers: Sequence[_Worker]) -> str:
    others = {worker.other_design for worker in workers if worker.other_design}
    if len({worker.design_digest for worker in workers}) > 1 or others:
        raise UserError(
            "cuts come from workers of different designs, so their states differ: compare "
            "murmurec config show on each, and start all with the same settings"
        )
    return "all workers have the same"
