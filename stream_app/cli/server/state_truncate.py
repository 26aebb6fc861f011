"""`murmurec state truncate`: take up a log that lost its end at an earlier cut."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from stream_app.cli.commands import option
from stream_app.cli.options import JsonOption, WorkerSettings, YesOption, confirm
from stream_app.cli.output import plural, print_json, say

if TYPE_CHECKING:
    from stream_app.operations.truncate import Truncation

_AFTER = """\
What the log holds after that cut is applied again in new rounds, by every worker and every later
replay. The marks of the devices go back with the state, so an event that is sent again counts; an
event that was lost and is not sent again is lost. Devices send again only what the broker has not
confirmed. Forgotten devices stay forgotten."""


def truncate(
    workers: WorkerSettings,
    to_cut: int = option(..., "The newest cut to keep.", "N", min=0),
    yes: YesOption = False,
    as_json: JsonOption = False,
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
    confirm(yes, f"truncating to cut {to_cut}", f"Truncate to cut {to_cut}?")
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
