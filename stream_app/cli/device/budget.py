"""`murmurec budget`: what a device's users have spent, read from its journal."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_app.cli.device.mechanism_options import (
    BudgetOption,
    JournalOption,
    WindowOption,
    journal_path,
    limits_from,
)
from stream_app.cli.device.wording import LARGE_PER_USER
from stream_app.cli.options import ConfigOption, JsonOption, settings_from
from stream_app.cli.output import printable
from stream_app.errors import UserError

if TYPE_CHECKING:
    from producers.journal import JournalView, Limits, Spent
    from producers.journal.account_book import Account

app = typer.Typer(
    no_args_is_help=True,
    help="Show the epsilon that users have spent. Example: murmurec budget show",
)


@app.callback()
def _group() -> None:
    pass


@app.command()
def show(
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="ID", help="One user (default: the largest spending of all)."
        ),
    ] = None,
    budget: BudgetOption = None,
    window: WindowOption = None,
    journal: JournalOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the epsilon that was spent, on how many ratings, and what is left.

    It also reads a journal that another process is writing to.

    Example: murmurec budget show --user ann
    """
    from producers.journal import read_journal
    from stream_app.wire import EPOCH_SECONDS

    settings = settings_from(config)
    limits = limits_from(budget, window)
    view = read_journal(journal_path(settings, journal))
    epoch = max(view.book.epoch, int(time.time()) // EPOCH_SECONDS)
    after = view.book.after(epoch, limits)
    row = _one(view, user, limits, after) if user is not None else _all(view, limits, after)
    row["pending_events"] = view.pending
    row["epoch"] = epoch
    if as_json:
        typer.echo(json.dumps(row))
        return
    _tell(row, limits)


def _one(view: JournalView, user: str, limits: Limits, after: int) -> dict[str, Any]:
    """Return what one user has spent, exact numbers as text."""
    from producers.pseudonyms import pseudonym

    try:
        who = pseudonym(view.key, user)
    except ValueError as error:
        raise UserError(str(error)) from None
    account = view.book.accounts.get(who)
    accounts = [] if account is None else [account]
    return {"user": user, "device": who.hex(), **_sums(accounts, limits, after)}


def _all(view: JournalView, limits: Limits, after: int) -> dict[str, Any]:
    """Return for each kind what the user with the most has spent, and how many users there are.

    The epsilons of different users protect different people and are not added.
    """
    accounts = list(view.book.accounts.values())
    found = _sums(accounts, limits, after)
    for row in found["spent"]:
        key = row["scope"], row["adjacency"]
        theirs = [one.spent()[key].reports for one in accounts if key in one.spent()]
        row.update(users=len(theirs), reports_of_all=sum(theirs))
    return {"users": len(accounts), **found}


def _sums(accounts: list[Account], limits: Limits, after: int) -> dict[str, Any]:
    """Return the largest spends of these accounts, in life and in the window, and what is left.

    `epsilon_in_sum` and `remaining` are of values, cells and profiles together, as the budget is.
    """
    from producers.journal import NANO

    most: dict[tuple[str, str], tuple[Spent, Spent | None]] = {}
    for account in accounts:
        recent = {} if limits.window is None else account.spent(after)
        for key, life in account.spent().items():
            known = most.get(key)
            # Where nothing is claimed, the number of reports says who has the most.
            if known is None or (life.nano, life.reports) > (known[0].nano, known[0].reports):
                most[key] = life, recent.get(key)
    used = max((account.total(after)[0] for account in accounts), default=0)
    left = None if limits.nano is None else max(0, limits.nano - used)
    return {
        "spent": [_spend(scope, *spent, limits) for (scope, _), spent in sorted(most.items())],
        "epsilon_in_sum": _exact(max((one.total()[0] for one in accounts), default=0), NANO),
        "remaining": None if left is None else _exact(left, NANO),
        "reports_on_one_item": max(map(_on_one, accounts), default=0),
    }


def _on_one(account: Account) -> int:
    """Return the largest number of reports on one rating; a memo has each key once a report."""
    import numpy as np

    memo = account.reported_keys.get("rating")
    return 0 if memo is None else int(np.unique(memo, return_counts=True)[1].max())


def _spend(scope: str, life: Spent, recent: Spent | None, limits: Limits) -> dict[str, Any]:
    from producers.journal import ATTO, NANO, Spent

    claimed = life.adjacency != "nothing"
    row = {
        "scope": scope,
        "adjacency": life.adjacency,
        "epsilon": _exact(life.nano, NANO) if claimed else None,
        "delta": _exact(life.atto, ATTO) if claimed else None,
        "reports": life.reports,
    }
    if limits.window is not None:
        of = recent or Spent(life.adjacency)
        row["epsilon_in_window"] = _exact(of.nano, NANO) if claimed else None
        row["reports_in_window"] = of.reports
    return row


def _exact(amount: int, unit: int) -> str:
    """Return amount / unit as the shortest decimal."""
    whole, rest = divmod(amount, unit)
    digits = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


_MEANING = {
    ("rating", "value"): "the value of a rating is told apart from another by at most e^epsilon of "
    "its report; all values of the user together by e^(the sum). That the ratings exist is public",
    ("rating", "cell"): "whether an item was rated, and how, is told apart by at most e^epsilon of "
    "its report; the user's whole record by e^(the sum)",
    ("rating", "nothing"): "these ratings were sent as they are: nothing is protected",
    ("profile", "cell"): "whether one item is in the profiles is told apart by at most e^(this sum "
    "of all profiles); the whole set of items by up to e^(number of items x this sum)",
    ("profile", "nothing"): "these profiles were sent as they are: nothing is protected",
}


def _tell(row: dict[str, Any], limits: Limits) -> None:
    whose = f"user {printable(row['user'])}" if "user" in row else f"{row['users']} users"
    typer.echo(f"{whose}, budget {limits}, as of epoch {row['epoch']}")
    if not row["spent"]:
        typer.echo("nothing was spent")
    for spent in row["spent"]:
        typer.echo(_line(spent, limits))
        key = spent["scope"], spent["adjacency"]
        typer.echo(f"  {_MEANING.get(key, 'see the mechanism for what it protects')}")
        if spent["delta"] not in (None, "0"):
            typer.echo("  except for the delta, which grows with the number of items, too")
    if row["reports_on_one_item"] > 1:
        k = row["reports_on_one_item"]
        typer.echo(f"a rating reported on {k} times is told apart by e^({k} x epsilon)")
    if len(row["spent"]) > 1:
        typer.echo(
            f"these protect different things, but what is said of one rating adds up: {_sum(row)}"
        )
    if row["remaining"] is not None:
        typer.echo(f"remaining {row['remaining']}, for ratings and profiles together")
    if float(row["epsilon_in_sum"]) > LARGE_PER_USER:
        typer.echo(f"warning: above {LARGE_PER_USER} in sum that is weak protection")
    if row["pending_events"]:
        typer.echo(
            f"{row['pending_events']} events are paid for and were not acknowledged: "
            "the next publish or replay sends them"
        )


def _sum(row: dict[str, Any]) -> str:
    of = "" if "user" in row else " by the user with the most"
    return f"epsilon {row['epsilon_in_sum']}{of}"


def _line(spent: dict[str, Any], limits: Limits) -> str:
    """Return one kind's line, of a whole life; of several users, the one who has spent most."""
    of = "reports" if spent["scope"] == "rating" else f"{spent['scope']}s"
    name = "" if spent["scope"] == "rating" else f"{spent['scope']}, "
    parts = [f"{name}{spent['adjacency']}:"]
    if spent["epsilon"] is not None:
        parts.append(f"epsilon {spent['epsilon']}")
        if spent["delta"] != "0":
            parts.append(f"delta {spent['delta']}")
    parts.append(f"on {spent['reports']} {of}")
    if limits.window is not None:
        claim = "" if spent["epsilon"] is None else f"epsilon {spent['epsilon_in_window']} on "
        parts.append(
            f"(in the last {limits.window} epochs {claim}{spent['reports_in_window']} {of})"
        )
    if "users" in spent:
        parts.append(f"by the user with the most ({spent['users']} users in all)")
    return " ".join(parts)
