"""What is wrong with the running members of a deployment, from what each reports by HTTP.

    worker URL   it answers, is ready and near the end of the log
    clock        one of the workers writes the cuts
    design       all have the same settings of the state; those that differ are named
    releases     all are of one release
    machines     their clocks agree with the one here: deadlines and days are times of day
    checkpoint   the owner has not applied much more than a restart should repeat
    gateway URL  it is ready, and allows devices the mechanisms that the workers take

Where a worker was not reached, what is said of all of them together is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from stream_app.errors import UserError
from stream_app.operations.watching.workers import asked
from stream_app.settings import Settings
from stream_app.state.spec import differing

LAG_RECORDS = 100_000
APART_SECONDS = 2.0
REPEATED_SECONDS = 60.0


class Finding(NamedTuple):
    """One part, whether it is well, and what was seen: where it is not, with the fix."""

    part: str
    well: bool
    sentence: str


def finding(part: str, look: Callable[[], str]) -> Finding:
    """Return what a look at a part finds: its sentence, or that of the `UserError` it raises."""
    try:
        return Finding(part, True, look())
    except UserError as fault:
        return Finding(part, False, str(fault).replace("--role ROLE", "--role operator"))


class CheckpointState(msgspec.Struct, frozen=True):
    """The checkpoints of a worker: whether it writes them, and what a start would repeat."""

    owned: bool
    durable_cut: int | None = None
    uncovered_seconds: float = 0.0


class WorkerState(msgspec.Struct, frozen=True):
    """The fields of a worker's /state that are looked at; earlier releases lack those with a
    default."""

    ready: bool
    waiting_for: str | None
    clock: bool
    design_digest: str
    lag_records: int
    checkpoint: CheckpointState | None
    mechanisms: tuple[str, ...]
    other_design: str | None = None
    version: str = ""
    time: float | None = None
    settings: dict[str, str] = {}


class Member(NamedTuple):
    """A worker that answered, and by how many seconds its clock is ahead of the one here."""

    url: str
    state: WorkerState
    ahead: float = 0.0


def examine_workers(
    urls: Sequence[str], settings: Settings, now: Callable[[], float]
) -> Generator[Finding, None, list[Member]]:
    """Yield a finding for each worker at `urls` and for all of them; return those that answered."""
    members: list[Member] = []
    if not urls:
        yield Finding("workers", True, "none was asked: name each with --worker URL")
        return members
    for url in urls:

        def look(url: str = url) -> str:
            members.append(_member(url, settings.admin_token, now))
            return _condition(members[-1].state)

        yield finding(f"worker {url}", look)
    if len(members) == len(urls):
        shards = by_shard(members)
        for label, own in shards:
            yield finding(f"clock{label}", partial(clock, own))
            yield finding(f"design{label}", partial(design, own))
        for look_at in (releases, machines):
            yield finding(look_at.__name__, partial(look_at, members))
        for label, own in shards:
            found = partial(checkpoint, own, settings.replay_seconds)
            yield finding(f"checkpoint{label}", found)
    return members


def by_shard(members: Sequence[Member]) -> list[tuple[str, list[Member]]]:
    """Return the workers of each shard: they have a clock and a state of their own."""
    found: dict[str, list[Member]] = {}
    for member in members:
        own = member.state.settings
        label = f" of shard {own.get('shard', '0')}" if "shards" in own else ""
        found.setdefault(label, []).append(member)
    return sorted(found.items())


def _member(url: str, token: str | None, now: Callable[[], float]) -> Member:
    state = asked(url, "/state", token, WorkerState)
    return Member(url, state, 0.0 if state.time is None else state.time - now())


def _condition(worker: WorkerState) -> str:
    if not worker.ready:
        raise UserError(f"not ready: {worker.waiting_for}")
    if worker.lag_records > LAG_RECORDS:
        raise UserError(
            f"{worker.lag_records:,} records behind the end of the log: if that grows, ratings "
            "come faster than one replica learns them; send fewer, or use a faster processor"
        )
    return f"ready, {worker.lag_records:,} records behind the end of the log"


def clock(members: Sequence[Member]) -> str:
    """Refuse workers of which not exactly one writes cuts."""
    owners = sum(member.state.clock for member in members)
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


def design(members: Sequence[Member]) -> str:
    """Refuse workers of several designs, with the settings that differ."""
    first = members[0]
    for other in members[1:]:
        if other.state.design_digest != first.state.design_digest:
            which = differing(other.state.settings, first.state.settings)
            which = which or "hash_seed is another there"
            raise UserError(
                f"{other.url} has another design than {first.url}, so their states differ: "
                f"{which}; update the one of an older release, or give both the same state_secret"
            )
    if any(member.state.other_design for member in members):
        raise UserError(
            "cuts come from workers of another design that was not asked: name them with "
            "--worker, and give all the same release and state_secret"
        )
    return "all workers have the same"


def releases(members: Sequence[Member]) -> str:
    """Refuse workers of several releases."""
    found = sorted({member.state.version or "an earlier one" for member in members})
    if len(found) > 1:
        raise UserError(f"workers are of the releases {', '.join(found)}: finish the upgrade")
    return f"all workers are of {found[0]}"


def machines(members: Sequence[Member]) -> str:
    """Refuse workers on machines whose clocks are apart."""
    worst = max(members, key=lambda member: abs(member.ahead))
    if abs(worst.ahead) > APART_SECONDS:
        way = "ahead of" if worst.ahead > 0 else "behind"
        raise UserError(
            f"the clock of {worst.url} is {abs(worst.ahead):,.0f} s {way} the one here, and "
            f"{APART_SECONDS:.0f} s are too many: queries expire early or late there, and days "
            "begin so; run NTP on every machine"
        )
    return f"clocks agree within {APART_SECONDS:.0f} s"


def checkpoint(members: Sequence[Member], replay_seconds: float) -> str:
    """Refuse an owner that has applied far more than a restart should repeat."""
    most = max(REPEATED_SECONDS, 10 * replay_seconds)
    for url, worker, _ in members:
        state = worker.checkpoint
        if state is None or not state.owned:
            continue
        if state.uncovered_seconds > most:
            raise UserError(
                f"a start would repeat {state.uncovered_seconds:,.0f} s of applying, and "
                f"{most:,.0f} are many: {url} finishes no checkpoint; look for checkpoint in its "
                "log, at WRITE on the state topic, and at the broker's disk"
            )
        at = "none yet" if state.durable_cut is None else f"of cut {state.durable_cut:,}"
        return f"the newest is {at}; a start would repeat {state.uncovered_seconds:,.1f} s"
    return "written by none of these workers"


class _Allowed(msgspec.Struct, frozen=True):
    id: str


class _Mechanisms(msgspec.Struct, frozen=True):
    """The part of a gateway's /mechanisms that is looked at."""

    allowed: tuple[_Allowed, ...]


def examine_gateways(
    urls: Sequence[str], settings: Settings, members: Sequence[Member]
) -> Iterator[Finding]:
    """Yield a finding for each gateway at `urls`, against the workers or, without, the settings."""
    taken = members[0].state.mechanisms if members else settings.mechanisms
    for url in urls:
        yield finding(f"gateway {url}", partial(_gateway, url, taken))


def _gateway(url: str, taken: Sequence[str]) -> str:
    page = asked(url, "/mechanisms", None, _Mechanisms)
    return allowed_alike([each.id for each in page.allowed], taken)


def allowed_alike(gateway: Sequence[str], workers: Sequence[str]) -> str:
    """Refuse a gateway that allows other mechanisms than workers take."""
    more, fewer = (sorted(set(a) - set(b)) for a, b in ((gateway, workers), (workers, gateway)))
    if more:
        raise UserError(
            f"allows {', '.join(more)}, which workers reject: reports are paid for and lost; "
            "give gateways and workers the same mechanisms"
        )
    if fewer:
        raise UserError(
            f"refuses {', '.join(fewer)}, which workers take: give gateways and workers the same "
            "mechanisms"
        )
    return f"allows the {len(set(workers))} mechanisms of the workers"
