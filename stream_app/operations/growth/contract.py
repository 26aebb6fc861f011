"""The version of the event format: shows which one is in force, and raises it.

A new deployment begins with the newest version. An older one keeps its version until an operator
raises it, once every worker is of a release that knows the new one: a worker that does not know the
version in force ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.checkpoints import offline_writer
from stream_app.errors import UserError
from stream_app.operations.session import Session
from stream_app.replay.cut_history import CutHistory, history
from stream_app.wire import Contract, encode_message
from stream_app.wire.limits import CONTRACT


@dataclass(frozen=True)
class ContractStatus:
    """The version by which the newest round was decoded, that of the next round, the newest that
    this release knows, and the cut from which each version was in force."""

    newest_round: int
    next_round: int
    known: int
    since: dict[int, int]


def contract_status(session: Session) -> ContractStatus:
    """Read the cut log and return its versions."""
    logged = history(session.deployment)
    newest = logged.cuts[-1][0].number if logged.cuts else 0
    return ContractStatus(
        logged.contract(newest), logged.contract(1 << 62), CONTRACT, _since(logged)
    )


def _since(logged: CutHistory) -> dict[int, int]:
    """Return version -> number of the first cut whose round it decoded."""
    since = {1: 1}
    for number, version in logged.contracts:
        if version > max(since):
            since[version] = number
    return since


def set_contract(session: Session, version: int) -> ContractStatus:
    """Append the version to the cut log; it is in force from the next cut on, permanently."""
    status = contract_status(session)
    if version > CONTRACT:
        raise UserError(
            f"--set {version}: this release knows versions up to {CONTRACT}; install a newer one "
            "on every worker before"
        )
    if version <= status.next_round:
        raise UserError(
            f"--set {version}: version {status.next_round} is in force or set, and a version can "
            "only be raised"
        )
    entry = encode_message(Contract(version))
    offline_writer.append(session.connection, session.names.cuts, entry)
    return contract_status(session)
