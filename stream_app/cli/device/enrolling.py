"""`murmurec device`: enrol a person on this device, run it, or withdraw the person."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stream_app.cli.commands import Commands, option
from stream_app.cli.device import wording
from stream_app.cli.device.budget import plan, status
from stream_app.cli.device.clean_ratings import forget
from stream_app.cli.device.contribute import contribute
from stream_app.cli.device.mechanism_options import (
    DeviceJournal,
    TestOption,
    TrustClockOption,
    UserOption,
    WindowOption,
    check_user,
    person_budget,
    positive_fraction,
    today,
)
from stream_app.cli.device.reporting_options import AcceptScopeOption, MostCellsOption, ScopeOption
from stream_app.cli.device.running import run
from stream_app.cli.options import JsonOption
from stream_app.cli.output import printable, refusing, show
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from pathlib import Path

    from producers.journal import Enrolment, Journal

app = Commands(
    help="Enrol a person, report for him, or withdraw him. Example: murmurec device enrol --user "
    "ann"
)
for _command in (run, status, plan, contribute, forget):
    app.command(_command.__name__)(_command)


@app.command()
def enrol(
    file: DeviceJournal,
    user: UserOption,
    budget: str | None = option(None, "Epsilon of the whole person (default 20).", "E"),
    delta: str | None = option(None, "Its delta: 0 to 1/1000 (default 1e-6).", "D"),
    window: WindowOption = None,
    plan: str = option(
        "",
        "Mechanism that the budget is for, as rr:5:1/2 (default: that of the first "
        "report); adaptive for several, also of an enrolled person, from now on.",
        "ID",
    ),
    pace: str = option(
        "",
        "What campaigns may spend, from now on: the share of the budget, and its part in any 30 "
        "days (default 3/4:1/12).",
        "SHARE:PART",
    ),
    scope: ScopeOption = None,
    accept_scope: AcceptScopeOption = None,
    most_cells: MostCellsOption = 4096,
    test: TestOption = False,
    trust_clock: TrustClockOption = False,
    raised: str | None = option(
        None,
        "Only raise the epsilon of an enrolled person to E; it is never lowered again.",
        "E",
        "--raise",
    ),
    as_json: JsonOption = False,
) -> None:
    """Enrol a person: nothing is released without an account and its budget.

    Example: murmurec device enrol --user ann
    """
    from dataclasses import replace

    from producers.device.pinned_scope import pin, read_scope
    from producers.identities import Identities
    from producers.journal import Journal, Limits
    from producers.person.enrolment import Pace
    from producers.person.plans import checked_plan
    from producers.siblings import check_only_journal

    if raised is not None:
        if budget or delta or window is not None or plan or pace or scope:
            raise UsageError(f"--raise {raised[:40]}: changes epsilon alone; leave the rest out")
        _raise(file, user, raised, as_json=as_json)
        return
    settings, path = file.settings, file.path
    with refusing(UserError):
        terms = person_budget(budget, delta, window)
        terms = replace(terms, plan=checked_plan(plan, terms))
        paced = Pace.parse(pace) if pace else None
        check_user(user)
        digest = b"" if scope is None else read_scope(scope, most_cells)[1]
        limits = Limits(trust_clock=trust_clock)
        with Journal.open(path, test=test, limits=limits) as opened:
            named = Identities(opened.key, signed=settings.signed)
            named.check_journal(opened, [user])
            check_only_journal(opened, [user])
            if scope is not None:
                pin(opened, scope, digest, accept_scope)
            before = opened.enrolment(named.pseudonym(user))
            is_change = plan or pace
            if before is not None and is_change and not (budget or delta or window is not None):
                terms = replace(before.budget, plan=checked_plan(plan, before.budget))
            opened.enrol([named.pseudonym(user)], terms, opened.epoch(today()))
            if paced is not None:
                opened.set_pace([named.pseudonym(user)], paced)
            enrolment = opened.enrolment(named.pseudonym(user))
    assert enrolment is not None
    name, new = printable(user), before is None or before.withdrawn > 0
    sentences = [
        f"{name} {'is' if new else 'was already'} enrolled in {path}",
        f"budget     {enrolment.budget} for {name} as a person: everything together",
        f"plan       {enrolment.budget.plan or 'the mechanism of the first report'}"
        + (", from now on: what was released counts" if enrolment.budget.held else ""),
        f"campaigns  {wording.campaigns(str(enrolment.budget.pace))}",
        f"public     that device {enrolment.device.hex()} takes part, once it reports",
    ]
    show(_row(user, enrolment, path, new=new), sentences, as_json=as_json)


def _raise(file: DeviceJournal, user: str, raised: str, *, as_json: bool) -> None:
    """Raise the budget of an enrolled person."""
    from stream_app.cli.device.budget.spending_sentences import meaning_of_raise

    epsilon = positive_fraction("--raise", raised)
    before, after = _changed(
        file,
        user,
        lambda journal, device: journal.raise_budget([device], epsilon),
        absent=f"{user} is not enrolled: run murmurec device enrol --user {user}",
    )
    sentences = meaning_of_raise(printable(user), before.budget, after.budget)
    show(_row(user, after, file.path, new=False), sentences, as_json=as_json)


@app.command()
def withdraw(file: DeviceJournal, user: UserOption, as_json: JsonOption = False) -> None:
    """Withdraw a person: nothing is released any more; what was released stays released.

    Example: murmurec device withdraw --user ann
    """
    _, enrolment = _changed(
        file,
        user,
        # Whatever the clock says: it frees no budget.
        lambda journal, device: journal.withdraw([device], today()),
        absent=f"{user} is not enrolled in {file.path}, so there is nothing to do",
    )
    sentence = (
        f"{printable(user)} is withdrawn: nothing is released any more, which is public; reports "
        "that were released stay with the server (murmurec forget)"
    )
    show(_row(user, enrolment, file.path), [sentence], as_json=as_json)


def _changed(
    file: DeviceJournal, user: str, change: Callable[[Journal, bytes], object], *, absent: str
) -> tuple[Enrolment, Enrolment]:
    """Change the account of a user; return it before and after. UserError `absent` without one."""
    from producers.identities import Identities
    from producers.journal import Journal, read_key

    read_key(file.path)  # raises where there is no journal, before one is made
    with refusing(UserError), Journal.open(file.path) as opened:
        device = Identities(opened.key, signed=file.settings.signed).pseudonym(user)
        before = opened.enrolment(device)
        if before is None:
            raise UserError(absent)
        change(opened, device)
        after = opened.enrolment(device)
    assert after is not None
    return before, after


def _row(user: str, enrolment: Enrolment, path: Path, **more: bool) -> dict[str, Any]:
    """Return an account as JSON names."""
    from stream_app.cli.device.budget.rows import terms

    about = {"device": enrolment.device.hex(), "epoch": enrolment.epoch, **terms(enrolment)}
    return {"user": user, **more, **about, "journal": str(path)}
