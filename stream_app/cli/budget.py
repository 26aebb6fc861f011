"""`murmurec budget`: what a device's users have spent, read from its journal."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_app.cli.options import ConfigOption, JsonOption, settings_from
from stream_app.cli.protection import (
    LARGE_PER_USER,
    BudgetOption,
    JournalOption,
    WindowOption,
    journal_path,
    limits_from,
)
from stream_app.errors import Refusal

if TYPE_CHECKING:
    from producers.journal import Limits, View

app = typer.Typer(no_args_is_help=True, help="What the users of a device have spent.")


@app.callback()
def _group() -> None:
    pass


@app.command()
def show(
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="ID", help="One user. \\[default: the one who has spent most]"
        ),
    ] = None,
    budget: BudgetOption = None,
    window: WindowOption = None,
    journal: JournalOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what was spent, on how many ratings, and what is left: murmurec budget show --user ann

    It also reads a journal that another process is writing to.
    """
    from producers.journal import look
    from stream_app.wire import EPOCH_SECONDS

    settings = settings_from(config)
    limits = limits_from(budget, window)
    view = look(journal_path(settings, journal))
    epoch = max(view.book.epoch, int(time.time()) // EPOCH_SECONDS)
    after = view.book.after(epoch, limits)
    row = _one(view, user, limits, after) if user is not None else _all(view, limits, after)
    row["pending_events"] = view.pending
    row["epoch"] = epoch
    if as_json:
        typer.echo(json.dumps(row))
        return
    _tell(row, limits)


def _one(view: View, user: str, limits: Limits, after: int) -> dict[str, Any]:
    """Return what one user has spent by adjacency, exact numbers as text."""
    from producers.pseudonyms import pseudonym

    try:
        who = pseudonym(view.key, user)
    except ValueError as error:
        raise Refusal(str(error)) from None
    account = view.book.accounts.get(who)
    spends = {} if account is None else account.spent(after)
    rows = [_spend(kind, s.nano, s.atto, s.reports, limits) for kind, s in sorted(spends.items())]
    return {"user": user, "device": who.hex(), "spent": rows}


def _all(view: View, limits: Limits, after: int) -> dict[str, Any]:
    """Return for each adjacency what the user who has spent most has spent, and how many there are.

    The epsilons of different users protect different people and are not added.
    """
    most: dict[str, Any] = {}
    for account in view.book.accounts.values():
        for kind, spent in account.spent(after).items():
            known = most.setdefault(kind, {"users": 0, "ratings": 0, "most": None})
            known["users"] += 1
            known["ratings"] += spent.reports
            if known["most"] is None or spent.nano > known["most"].nano:
                known["most"] = spent
    rows = []
    for kind, known in sorted(most.items()):
        spent = known["most"]
        row = _spend(kind, spent.nano, spent.atto, spent.reports, limits)
        rows.append({**row, "users": known["users"], "ratings_of_all": known["ratings"]})
    return {"users": len(view.book.accounts), "spent": rows}


def _spend(adjacency: str, nano: int, atto: int, reports: int, limits: Limits) -> dict[str, Any]:
    from producers.journal import ATTO, NANO

    claimed = adjacency != "nothing"
    left = None if limits.nano is None or not claimed else max(0, limits.nano - nano)
    return {
        "adjacency": adjacency,
        "epsilon": _exact(nano, NANO) if claimed else None,
        "delta": _exact(atto, ATTO) if claimed else None,
        "reports": reports,
        "remaining": None if left is None else _exact(left, NANO),
    }


def _exact(amount: int, unit: int) -> str:
    """Return amount / unit as the shortest decimal."""
    whole, rest = divmod(amount, unit)
    digits = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


_MEANING = {
    "value": "the value of a rating is told apart from another by at most e^epsilon of its report; "
    "all values of the user together by e^(the sum). That the ratings exist is public",
    "cell": "whether an item was rated, and how, is told apart by at most e^epsilon of its report; "
    "the user's whole record by e^(the sum)",
    "nothing": "these ratings were sent as they are: nothing is protected",
}


def _tell(row: dict[str, Any], limits: Limits) -> None:
    whose = f"user {row['user']}" if "user" in row else f"{row['users']} users"
    typer.echo(f"{whose}, budget {limits}, as of epoch {row['epoch']}")
    if not row["spent"]:
        typer.echo("nothing was spent")
    for spent in row["spent"]:
        typer.echo(_line(spent))
        typer.echo(
            f"  {_MEANING.get(spent['adjacency'], 'see the mechanism for what it protects')}"
        )
        if spent["epsilon"] is not None and float(spent["epsilon"]) > LARGE_PER_USER:
            typer.echo(f"  warning: above {LARGE_PER_USER} in sum that is weak protection")
    if len(row["spent"]) > 1:
        typer.echo(
            "these protect different things: they have no sum, and the budget holds for each"
        )
    if row["pending_events"]:
        typer.echo(
            f"{row['pending_events']} events are paid for and were not acknowledged: "
            "the next publish or replay sends them"
        )


def _line(spent: dict[str, Any]) -> str:
    """Return one adjacency's line; of several users, the one who has spent most."""
    parts = [f"{spent['adjacency']}:"]
    if spent["epsilon"] is not None:
        parts.append(f"epsilon {spent['epsilon']}")
        if spent["delta"] != "0":
            parts.append(f"delta {spent['delta']}")
    parts.append(f"on {spent['reports']} reports")
    if spent["remaining"] is not None:
        parts.append(f"remaining {spent['remaining']}")
    if "users" in spent:
        parts.append(f"by the user with the most ({spent['users']} users in all)")
    return " ".join(parts)
