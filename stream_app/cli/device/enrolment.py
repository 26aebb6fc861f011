"""`murmurec device`: enrol a person on this device, run it, or withdraw the person."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.commands import Commands
from stream_app.cli.device.contribute import contribute
from stream_app.cli.device.mechanism_options import (
    JournalOption,
    TestOption,
    TrustClockOption,
    UserOption,
    WindowOption,
    journal_path,
    person_budget,
)
from stream_app.cli.device.running import run, status
from stream_app.cli.device.scope_options import AcceptScopeOption, MostCellsOption, ScopeOption
from stream_app.cli.options import ConfigOption, JsonOption, settings_from
from stream_app.cli.output import print_json, printable, say
from stream_app.errors import UserError

if TYPE_CHECKING:
    from producers.journal import Enrolment

app = Commands(
    help="Enrol a person, report for him, or withdraw him. Example: murmurec device enrol --user "
    "ann",
)
app.command("run")(run)
app.command("status")(status)
app.command("contribute")(contribute)


@app.command()
def enrol(
    user: UserOption,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="E", help="Epsilon of the whole person (default 20)."),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option("--delta", metavar="D", help="Its delta: 0 to 1/1000 (default 1e-6)."),
    ] = None,
    window: WindowOption = None,
    plan: Annotated[
        str,
        typer.Option(
            "--plan",
            metavar="ID",
            help="Mechanism that the budget is for, as rr:5:1/2 (default: that of the first "
            "report); adaptive for several.",
        ),
    ] = "",
    scope: ScopeOption = None,
    accept_scope: AcceptScopeOption = None,
    most_cells: MostCellsOption = 4096,
    journal: JournalOption = None,
    test: TestOption = False,
    trust_clock: TrustClockOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Enrol a person: nothing is released without an account and its budget.

    Example: murmurec device enrol --user ann
    """
    from dataclasses import replace

    from producers.device.pinned_scope import pin, read_scope
    from producers.identities import Identities
    from producers.journal import Journal, Limits
    from producers.person.plans import checked_plan
    from producers.siblings import check_only_journal

    settings = settings_from(config)
    try:
        terms = person_budget(budget, delta, window)
        terms = replace(terms, plan=checked_plan(plan, terms))
        Identities(bytes(32)).pseudonym(user)  # raises before a journal is made
        digest = b"" if scope is None else read_scope(scope, most_cells)[1]
        path = journal_path(settings, journal)
        limits = Limits(trust_clock=trust_clock)
        with Journal.open(path, test=test, limits=limits) as opened:
            named = Identities(opened.key, signed=settings.signed)
            named.check_journal(opened, [user])
            check_only_journal(opened, [user])
            if scope is not None:
                pin(opened, scope, digest, accept_scope)
            new = opened.enrol([named.pseudonym(user)], terms, opened.epoch(_today()))
            enrolment = opened.enrolment(named.pseudonym(user))
    except ValueError as error:
        raise UserError(str(error)) from None
    assert enrolment is not None
    if as_json:
        print_json({"user": user, "new": bool(new), **_row(enrolment), "journal": str(path)})
        return
    name = printable(user)
    say(f"{name} {'is' if new else 'was already'} enrolled in {path}")
    say(f"budget     {enrolment.budget} for {name} as a person: everything together")
    plan = enrolment.budget.plan
    say(f"plan       {plan or 'the mechanism of the first report'}")
    say(f"public     that device {enrolment.device.hex()} takes part, once it reports")


@app.command()
def withdraw(
    user: UserOption,
    journal: JournalOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Withdraw a person: nothing is released any more; what was released stays released.

    Example: murmurec device withdraw --user ann
    """
    from producers.identities import Identities
    from producers.journal import Journal, read_key

    settings = settings_from(config)
    path = journal_path(settings, journal)
    read_key(path)  # raises where there is no journal, before one is made
    try:
        with Journal.open(path) as opened:
            device = Identities(opened.key, signed=settings.signed).pseudonym(user)
            if opened.enrolment(device) is None:
                raise UserError(f"{user} is not enrolled in {path}, so there is nothing to do")
            opened.withdraw([device], _today())  # whatever the clock says: it frees no budget
            enrolment = opened.enrolment(device)
    except ValueError as error:
        raise UserError(str(error)) from None
    assert enrolment is not None
    if as_json:
        print_json({"user": user, **_row(enrolment), "journal": str(path)})
        return
    say(
        f"{printable(user)} is withdrawn: nothing is released any more, which is public; reports "
        "that were released stay with the server (murmurec forget)"
    )


def _row(enrolment: Enrolment) -> dict[str, object]:
    """Return the terms of an account, exact numbers as text."""
    budget = enrolment.budget
    return {
        "device": enrolment.device.hex(),
        "epoch": enrolment.epoch,
        "epsilon": None if budget.epsilon is None else str(budget.epsilon),
        "delta": str(budget.delta),
        "window": budget.window,
        "plan": budget.plan or None,
        "simulated": enrolment.simulated,
        "withdrawn": enrolment.withdrawn or None,
    }


def _today() -> int:
    from stream_app.wire import EPOCH_SECONDS

    return int(time.time()) // EPOCH_SECONDS
