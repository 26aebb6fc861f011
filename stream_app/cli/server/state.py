"""`murmurec state`: the state of a deployment recomputed, compared, kept and repaired.

    digest   the digests that the log leads to          verify    checkpoint and workers against it
    replay   the same, from another place in the log    export    the state as a file
    show     what the state topic holds                 rebuild   a checkpoint made from the log

The settings must be the workers' own: their allow-list, model and sizes decide the state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.options import (
    AllowOption,
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    ModelOption,
    PrefixOption,
    SnapshotOption,
    settings_from,
    writable,
)
from stream_app.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Recompute, compare, keep and repair the state.")

AtCutOption = Annotated[
    int | None, typer.Option(min=1, help="Stop at this cut; default: the newest.")
]


@app.callback()
def state() -> None:
    """Recompute, compare, keep and repair the state."""


@app.command()
def digest(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    allow: AllowOption = None,
    model: ModelOption = None,
    at_cut: AtCutOption = None,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute the digests from the log; they equal those of every worker's /state at the same
    cut.

    Of the newest checkpoint only the origin is read: what the state of this deployment starts
    from.
    """
    from stream_app.cli.server.state_output import progress_bar, show_values
    from stream_app.operations.replay import recompute_state, summary
    from stream_app.operations.session import Session

    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    session = Session.from_settings(settings, snapshot, progress_bar)
    show_values(summary(recompute_state(session, at_cut)), as_json)


@app.command()
def replay(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    allow: AllowOption = None,
    model: ModelOption = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="earliest, latest, ts=2026-11-01T00:00:00Z (or milliseconds since 1970), "
            "or last=1000 records of each partition.",
        ),
    ] = "earliest",
    at_cut: AtCutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute what a state would be that had begun at another place in the log: at the first cut
    at or behind it.

    Nothing is written. A worker begins there with worker --accept-gap --from PLACE.
    """
    from stream_app.cli.server.state_output import progress_bar, show_values
    from stream_app.operations.replay import recompute_from, summary
    from stream_app.operations.session import Session

    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    session = Session.from_settings(settings, display=progress_bar)
    show_values(summary(recompute_from(session, begin, at_cut)), as_json)


@app.command()
def verify(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    allow: AllowOption = None,
    model: ModelOption = None,
    worker: Annotated[
        list[str] | None,
        typer.Option(
            "--worker", metavar="URL", help="Compare with a running worker as well; repeatable."
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail where there is nothing with which to compare."),
    ] = False,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute the state from the log and compare: with the newest checkpoint, with every digest
    report in the cut log, and with running workers.

    Exit code 0: everything that could be compared is equal. 1: something differs, and it is named.
    Where the log no longer reaches back, the checkpoint is compared with itself only, and that is
    said.
    """
    from stream_app.cli.server.state_output import progress_bar, show_findings
    from stream_app.operations.session import Session
    from stream_app.operations.verify import verify as compare

    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    session = Session.from_settings(settings, snapshot, progress_bar)
    findings = compare(session, tuple(worker or ()))
    show_findings(findings, as_json)
    if not findings.equal(strict):
        raise typer.Exit(1)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it (.npz).")],
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    allow: AllowOption = None,
    model: ModelOption = None,
    at_cut: Annotated[
        int | None,
        typer.Option(
            min=1, help="The state at this cut, recomputed; default: the newest, from a checkpoint."
        ),
    ] = None,
    snapshot: SnapshotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the state as a file of plain arrays, from which a worker begins with worker
    --from-snapshot."""
    from stream_app.cli.server.state_output import progress_bar, show_values
    from stream_app.operations import replay as replaying
    from stream_app.operations.session import Session

    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    if file.exists() and not file.is_dir():
        raise UserError(f"{file}: is there already; remove it or give another name")
    session = Session.from_settings(settings, snapshot, progress_bar)
    exported = replaying.export(session, writable(file), at_cut)
    written = {"file": str(file), "bytes": exported.bytes, "digest": exported.digest}
    seconds = {"seconds": exported.seconds}
    show_values(replaying.summary(exported.replica) | written | seconds, as_json)


@app.command()
def rebuild(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    allow: AllowOption = None,
    model: ModelOption = None,
    group: Annotated[
        str | None, typer.Option(help="Consumer group of the workers. \\[env: MURMUREC_GROUP]")
    ] = None,
    snapshot: SnapshotOption = None,
    at_newest_cut: Annotated[
        bool,
        typer.Option(
            "--at-newest-cut",
            help="With --snapshot: begin from the file at the newest cut, also where the state "
            "began from it before; ratings before that cut are given up.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute the state from the log, whatever the checkpoints say, and write a new checkpoint.

    For a state topic that is damaged, or made with other settings. No worker may run meanwhile.
    Records that are set aside on the way are told again. A state that began from a snapshot is
    recomputed over it: ratings since then are applied again. To drop these too, and begin once more
    from the file: --at-newest-cut, which worker --from-snapshot does only the first time.
    """
    if at_newest_cut and snapshot is None:
        raise UserError("--at-newest-cut: it goes with --snapshot FILE; give both")
    from stream_app.cli.server.state_output import progress_bar, show_values
    from stream_app.operations import rebuild as rebuilding
    from stream_app.operations.replay import summary
    from stream_app.operations.session import Session

    settings = settings_from(
        config,
        bootstrap,
        prefix,
        kafka,
        mechanisms=tuple(allow or ()) or None,
        model=model,
        group=group,
    )
    session = Session.from_settings(settings, snapshot, progress_bar)
    if session.snapshot is not None and at_newest_cut:
        from stream_app.operations import adopt as beginning

        show_values({"generation": beginning.adopt(session, session.snapshot).generation}, as_json)
        return
    rebuilt = rebuilding.rebuild(session)
    values = summary(rebuilt.replica) | {
        "generation": rebuilt.manifest.generation,
        "replay_seconds": rebuilt.replay_seconds,
        "write_seconds": rebuilt.write_seconds,
    }
    show_values(values, as_json)


@app.command()
def show(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the state topic holds: generations, their checkpoints, pages and bytes."""
    from stream_app.cli.server.state_output import progress_bar, show_inventory
    from stream_app.operations.inventory import read_inventory
    from stream_app.operations.session import Session

    settings = settings_from(config, bootstrap, prefix, kafka)
    session = Session.from_settings(settings, display=progress_bar)
    show_inventory(read_inventory(session), as_json)
