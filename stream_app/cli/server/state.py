"""`murmurec state`: recompute, compare, export and repair the state of a deployment.

    digest   digests of the state of the log         verify    compare checkpoint and workers
    show     contents of the state topic             export    write the state to a file
    truncate give up cuts that the log lost          rebuild   write a checkpoint from the log
    shards   divide the state by device              migrate   convert a snapshot to this spec

The settings must be the workers' own: their allow-list, model and sizes decide the state.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli import options
from stream_app.cli.commands import Commands, option
from stream_app.cli.output import plural, print_json, progress, say, table
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from stream_app.operations.growth import Migrated
    from stream_app.operations.truncate import Truncation


app = Commands(
    help="Recompute, compare, export and repair the state. Example: murmurec state verify"
)

AtCutOption = Annotated[
    int | None, typer.Option(min=1, help="Stop at this cut (default: the newest).")
]


@app.command()
def digest(
    workers: options.WorkerSettings,
    begin: str | None = option(
        None,
        "Start elsewhere, at the next cut: earliest, latest, ts=2026-11-01T00:00:00Z (or "
        "milliseconds since 1970), or last=1000 records of each partition.",
        "POSITION",
        "--from",
    ),
    at_cut: AtCutOption = None,
    snapshot: options.SnapshotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Recompute the digests of the state from the log; nothing is written.

    They equal those of every worker's /state at the same cut. Only the origin of the state is read
    from the newest checkpoint. With --from they are those of a worker that starts there (worker
    --accept-gap --from POSITION).

    Example: murmurec state digest --bootstrap localhost:9092
    """
    if begin is not None and snapshot is not None:
        raise UsageError("--from and --snapshot: a state starts from one of them")
    from stream_app.cli.server.state_output import show_values
    from stream_app.operations.log_replay import recompute_from, recompute_state, summary

    sessions = workers.sessions(snapshot) if at_cut is None else (workers.session(snapshot),)
    for session in sessions:
        if begin is None:
            replica = recompute_state(session, at_cut)
        else:
            replica = recompute_from(session, begin, at_cut)
        show_values(session.label | summary(replica), as_json)


@app.command()
def verify(
    workers: options.WorkerSettings,
    worker: list[str] | None = option(None, "Compare with a running worker; repeatable.", "URL"),
    strict: bool = option(False, "Fail if anything cannot be compared."),
    snapshot: options.SnapshotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Recompute the state from the log; compare checkpoint, digest reports and running workers.

    Exit code 0: everything that could be compared is equal. 1: a difference was found and is named.
    If the log no longer reaches back to the origin, only the checkpoint's own digests are checked.

    Example: murmurec state verify --worker http://127.0.0.1:8470
    """
    from stream_app.cli.server.state_output import show_findings
    from stream_app.operations.verify import verify as compare

    equal = True
    for session in (workers.session(snapshot),) if worker else workers.sessions(snapshot):
        findings = compare(session, tuple(worker or ()), session.settings.admin_token)
        show_findings(findings, as_json, session.label)
        equal &= findings.equal(strict)
    if not equal:
        raise typer.Exit(1)


@app.command()
def export(
    workers: options.WorkerSettings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write (.npz).")],
    at_cut: int | None = option(
        None, "Recompute the state at this cut (default: export the newest checkpoint).", min=1
    ),
    snapshot: options.SnapshotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Write the state as a file of plain arrays, for worker --from-snapshot.

    Example: murmurec state export model.npz
    """
    from stream_app.cli.server.state_output import show_values
    from stream_app.operations import log_replay as replaying

    if file.exists() and not file.is_dir():
        raise UserError(f"{file}: exists; remove it or give another name")
    session = workers.session(snapshot)
    exported = replaying.export(session, options.writable(file), at_cut)
    written = {"file": str(file), "bytes": exported.bytes, "digest": exported.digest}
    seconds = {"seconds": exported.seconds}
    show_values(replaying.summary(exported.replica) | written | seconds, as_json)


@app.command()
def rebuild(
    workers: options.WorkerSettings,
    group: options.GroupOption = None,
    snapshot: options.SnapshotOption = None,
    at_newest_cut: bool = option(
        False, "With --snapshot: start from it at the newest cut, even if it was adopted before."
    ),
    as_json: options.JsonOption = False,
) -> None:
    """Recompute the state from the log and write a new checkpoint; stop all workers before.

    Use it for a state topic that is damaged or was written with other settings. Rejections on the
    way are published again. A state that started from a snapshot is recomputed over it; with
    --at-newest-cut the ratings since then are dropped as well.

    Example: murmurec state rebuild --snapshot model.npz --at-newest-cut
    """
    if at_newest_cut and snapshot is None:
        raise UsageError("--at-newest-cut: needs --snapshot FILE")
    from stream_app.cli.server.state_output import show_values
    from stream_app.operations import rebuild as rebuilding
    from stream_app.operations.log_replay import summary

    for session in workers.sessions(snapshot, group=group):
        if session.snapshot is not None and at_newest_cut:
            from stream_app.operations.adopt import adopt

            written = {"generation": adopt(session, session.snapshot).generation}
            show_values(session.label | written, as_json)
            continue
        rebuilt = rebuilding.rebuild(session)
        values = summary(rebuilt.replica) | {
            "generation": rebuilt.manifest.generation,
            "replay_seconds": rebuilt.replay_seconds,
            "write_seconds": rebuilt.write_seconds,
        }
        show_values(session.label | values, as_json)


@app.command()
def show(cluster: options.Cluster, as_json: options.JsonOption = False) -> None:
    """Show the generations, checkpoints, pages and bytes in the state topic.

    Example: murmurec state show
    """
    from stream_app.cli.server.state_output import show_inventory
    from stream_app.operations.inventory import read_inventory

    for session in cluster.sessions():
        show_inventory(read_inventory(session), as_json, session.label)


@app.command()
def migrate(
    source: Annotated[Path, typer.Argument(metavar="OLD", help="A file of state export.")],
    target: Annotated[Path, typer.Argument(metavar="NEW", help="The file to write (.npz).")],
    config: options.ConfigOption = None,
    prefix: options.PrefixOption = None,
    allow: options.AllowOption = None,
    model: options.ModelOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Convert a snapshot of other sizes or another design to the present settings.

    Prints what was carried over, converted or started empty. No broker is needed. While the log
    reaches back, worker --rebuild is exact and better. Start from the new file with worker
    --from-snapshot.

    Example: murmurec state migrate old.npz new.npz
    """
    from stream_app.deployment import spec_from_settings
    from stream_app.operations.growth import migrate as convert

    settings = options.settings_from(config, prefix=prefix, allow=allow, model=model)
    # A shard begins with its share of an undivided state, on which each shard agrees.
    settings = settings.model_copy(update={"shards": 1, "shard": None})
    if target.exists() and not target.is_dir():
        raise UserError(f"{target}: exists; remove it or give another name")
    _show_migration(
        convert(source, options.writable(target), spec_from_settings(settings)), as_json
    )


def _show_migration(migrated: Migrated, as_json: bool) -> None:
    """Print what became of each part of a snapshot."""
    rows = [(each.part, str(each.fate), each.reason) for each in migrated.parts]
    if as_json:
        parts = [dict(zip(("part", "fate", "reason"), row, strict=True)) for row in rows]
        print_json({"digest": migrated.meta.digest, "cut": migrated.meta.cut, "parts": parts})
        return
    table(("part", "", "reason"), rows)
    say("adopt it at the newest cut with murmurec worker --from-snapshot")


@app.command()
def shards(
    workers: options.WorkerSettings,
    to: int = option(..., "How many shards; a divisor of partitions.", "S", "--to", min=2),
    group: options.GroupOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Divide the state by device into shards, each with workers of its own; stop all workers
    before.

    Nothing is replayed: each shard begins with its share of the newest state. The filter of seen
    items cannot be divided, and each shard has all of it.

    Example: murmurec state shards --to 4
    """
    from stream_app.operations.shards import divide

    found = divide(workers.settings(group=group), to, progress)
    if as_json:
        print_json(asdict(found) | {"snapshot": str(found.snapshot)})
        return
    say(f"the state of cut {found.cut} is divided into {to} shards in {found.seconds:.1f} s")
    say(
        f"set shards = {to} and query_partitions = {found.query_partitions} everywhere, then start "
        "workers"
    )
    say(f"keep {found.snapshot}: murmurec state verify --snapshot begins with it")
    topics = " and ".join(found.former)
    say(f"workers of shards read {topics} no more: delete both with Kafka's kafka-topics")


_AFTER = """\
What the log holds after that cut is applied again in new rounds, by every worker and every later
replay. The marks of the devices go back with the state, so an event that is sent again counts; an
event that was lost and is not sent again is lost. Devices send again only what the broker has not
confirmed. Forgotten devices stay forgotten."""


@app.command()
def truncate(
    workers: options.WorkerSettings,
    to_cut: int = option(..., "The newest cut to keep.", "N", min=0),
    yes: options.YesOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Supersede all cuts after one, because the log lost its end. It cannot be undone.

    A worker or command that finds such a log names the cut. Running workers start over from a state
    that is not superseded. The entry stays in the cut log.

    Example: murmurec state truncate --to-cut 81200
    """
    from stream_app.operations import truncate as truncating

    session = workers.session()
    planned = truncating.plan(session, to_cut)
    if not as_json:
        _show(planned)
    options.confirm(yes, f"truncating to cut {to_cut}", f"Truncate to cut {to_cut}?")
    truncating.truncate(session, planned)
    if as_json:
        entry = planned.entry
        values = asdict(planned) | {"entry": {"to_cut": entry.to_cut, "newest": entry.newest}}
        print_json(values | {"covered": planned.covered, "missing": planned.missing})
        return
    say(f"truncated: the next cut is {planned.entry.newest + 1}")


def _show(planned: Truncation) -> None:
    """Print which cuts and records are lost."""
    to_cut, cuts = planned.entry.to_cut, planned.superseded
    if cuts:
        say(
            f"superseded: {plural(len(cuts), 'cut')}, {cuts[0]} to {cuts[-1]}, with "
            f"{plural(planned.covered, 'record')} after cut {to_cut}"
        )
    for partition, (kept, read, end) in enumerate(
        zip(planned.kept_ends, planned.read_ends, planned.log_ends, strict=True)
    ):
        if read > kept:
            gone = f"; {read - end} of them are gone" if read > end else ""
            say(f"  partition {partition}: offsets {kept} to {read - 1}, now ends at {end}{gone}")
    if planned.refilled:
        say("  the log was filled again: how many of these records are others now is not known")
    if planned.checkpoints:
        shown = ", ".join(map(str, planned.checkpoints))
        say(f"superseded checkpoints: of cut {shown}")
    say(_AFTER)
