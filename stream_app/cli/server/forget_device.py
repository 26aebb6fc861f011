"""`murmurec forget`: remove one device from the state of every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_app.cli.commands import option
from stream_app.cli.options import JsonOption, WorkerSettings, YesOption, confirm
from stream_app.cli.output import print_json, progress, say

if TYPE_CHECKING:
    from stream_app.operations.session import Session
    from stream_app.wire.state_records import StateOrigin

_PLAIN = """\
From the next cut on, workers reject every record of this device and clear its vector, biases,
presence sums and sequence number. What remains: the influence of its ratings on items and on shared
cells of the sketch; its bits in the filter of seen items; its ratings in the counts; its pseudonym,
in the list of forgotten devices and in the order of devices. --rebuild removes the influence of
its ratings as well."""
_REBUILD = """\
Every worker replays the log without this device: the model becomes that of a log without its
records. What remains: its pseudonym, in this entry of the cut log and in the list of excluded
devices of later checkpoints; the number of its rejected records, in the ledger."""
_RECORDS = """\
Its (sanitized) records stay in the rating topic, readable for every reader of the topic, until
Kafka's retention removes them. Pages that it changed stay in the state topic until tombstones and
compaction remove their generation; and in data_dir/gaps, data_dir/evidence and every snapshot file
that was written before, until you delete them."""
_SUMS = """\
Campaigns: contributions of this device do not count in stages that a worker closes from now on; a
close by hand (murmurec rounds stage close) leaves none out. Sums that were released, and what was
learned from them, stay, with or without --rebuild: their noise hides the device. Its sealed
contributions stay in the topic of contributions until Kafka's retention removes them."""


def forget(
    workers: WorkerSettings,
    device: str = option(..., "The device's pseudonym, 32 hex characters.", "HEX"),
    rebuild: bool = option(False, "Replay the log without the device's records."),
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Forget a device on every worker, now and at every replay. It cannot be undone.

    With --rebuild it prints the digest of the log without the device, which every worker's /state
    shows at the same cut.

    Example: murmurec forget --device c61c15392dcb4c0181d456afb280a046
    """
    from stream_app.operations import forget as forgetting
    from stream_app.operations.session import Session, of_device

    pseudonym = forgetting.parse_pseudonym(device)
    session = Session.from_settings(of_device(workers.settings(), pseudonym), display=progress)
    settings = session.settings
    origin = forgetting.rebuildable_origin(session) if rebuild else None
    if not as_json:
        say(left_behind(rebuild, settings.privacy_mode != "local"))
    confirm(yes, f"forgetting {pseudonym}", f"Forget {pseudonym}?")
    offset = forgetting.forget(session, pseudonym, rebuild)
    receipt = {"device": pseudonym, "rebuild": rebuild, "log": session.names.cuts, "offset": offset}
    lines = _receipt_lines(rebuild, settings.privacy_mode != "local")
    _show(session, origin, receipt | lines, as_json)


def left_behind(rebuild: bool, campaigns: bool) -> str:
    """Return what a forgotten device leaves behind; `campaigns`: sums of people, too."""
    parts = [_REBUILD if rebuild else _PLAIN, _RECORDS]
    return "\n".join(parts + [_SUMS] * campaigns)


def _receipt_lines(rebuild: bool, campaigns: bool) -> dict[str, str]:
    """Return the last lines of the receipt, of which `left_behind` is the long form."""
    erased = ["all that its reports taught" if rebuild else "its vector, biases and numbers"]
    erased += ["its later reports"]
    erased += ["contributions to stages that a worker closes later"] * campaigns
    kept = [*["what its reports taught"] * (not rebuild), "answered lists", "copies of its records"]
    kept += ["released sums"] * campaigns
    return {"erased": ", ".join(erased), "not_taken_back": ", ".join(kept)}


def _show(
    session: Session, origin: StateOrigin | None, values: dict[str, object], as_json: bool
) -> None:
    """Print the receipt and, after a rebuild, the digest of the log without the device."""
    from stream_app.cli.server.state_output import show_values
    from stream_app.operations.forget import recompute_without
    from stream_app.operations.log_replay import summary

    if origin is not None:
        values |= summary(recompute_without(session, origin, str(values["device"])))
    if as_json:
        print_json(values)
        return
    say(f"forgotten from the next cut on, by offset {values['offset']} of {values['log']}")
    lines = values.pop("erased"), values.pop("not_taken_back")
    say(f"erased: {lines[0]}; not taken back: {lines[1]}")
    if origin is not None:
        show_values(values, as_json)
        say("murmurec state verify --worker URL compares a worker with the log")
