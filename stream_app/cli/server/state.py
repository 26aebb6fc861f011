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
    from stream_app.operations import replay as replaying
    from stream_app.operations.session import Session

    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    replaying.digest(Session.of(settings, snapshot), at_cut, as_json)


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
    from stream_app.operations import replay as replaying
    from stream_app.operations.session import Session

    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    replaying.replay(Session.of(settings), begin, at_cut, as_json)


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
    """Recompute the state from the log and compare: with the newest checkpoint, with every witness
    in the cut log, and with running workers.

    Exit code 0: everything that could be compared is equal. 1: something differs, and it is named.
    Where the log no longer reaches back, the checkpoint is compared with itself only, and that is
    said.
    """
    from stream_app.operations import verify as verifying
    from stream_app.operations.session import Session

    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    session = Session.of(settings, snapshot)
    if not verifying.verify(session, tuple(worker or ()), strict, as_json):
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
    from stream_app.operations import replay as replaying
    from stream_app.operations.session import Session

    settings = settings_from(
        config, bootstrap, prefix, kafka, mechanisms=tuple(allow or ()) or None, model=model
    )
    if file.exists() and not file.is_dir():
        raise UserError(f"{file}: is there already; remove it or give another name")
    replaying.export(Session.of(settings, snapshot), writable(file), at_cut, as_json)


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
    from stream_app.operations import rebuild as rebuilding
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
    session = Session.of(settings, snapshot)
    if session.snapshot is not None and at_newest_cut:
        from stream_app.operations import adopt as beginning

        generation = beginning.adopt(session, session.snapshot).generation
        typer.echo(f'{{"generation": {generation}}}' if as_json else f"generation  {generation}")
        return
    rebuilding.rebuild(session, as_json)


@app.command()
def show(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the state topic holds: generations, their checkpoints, pages and bytes."""
    from stream_app.operations import inventory
    from stream_app.operations.session import Session

    inventory.show(Session.of(settings_from(config, bootstrap, prefix, kafka)), as_json)
