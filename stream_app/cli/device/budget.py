"""`murmurec budget`: the epsilon that a device's users have spent, read from its journal."""

from __future__ import annotations

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
from stream_app.cli.output import plural, print_json, printable, say
from stream_app.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    if user is None:
        row = _all_users(view, limits, after)
    else:
        row = _user(view, user, limits, after, signed=settings.signed)
    row["pending_events"] = view.pending
    row["epoch"] = epoch
    if as_json:
        print_json(row)
    else:
        _show(row, limits)


def _user(
    view: JournalView, user: str, limits: Limits, after: int, *, signed: bool
) -> dict[str, Any]:
    """Return the spending of one user, exact numbers as text."""
    from producers.identities import Identities

    try:
        device = Identities(view.key, signed=signed).pseudonym(user)
    except ValueError as error:
        raise UserError(str(error)) from None
    account = view.book.accounts.get(device)
    accounts = [] if account is None else [account]
    return {"user": user, "device": device.hex(), **_sums(accounts, limits, after)}


def _all_users(view: JournalView, limits: Limits, after: int) -> dict[str, Any]:
    """Return the largest spending of a user for each kind, and the number of users.

    The epsilons of different users protect different people and are not added.
    """
    accounts = list(view.book.accounts.values())
    found = _sums(accounts, limits, after)
    for row in found["spent"]:
        key = row["scope"], row["adjacency"]
        reports = [account.spent()[key].reports for account in accounts if key in account.spent()]
        row.update(users=len(reports), reports_of_all=sum(reports))
    return {"users": len(accounts), **found}


def _sums(accounts: list[Account], limits: Limits, after: int) -> dict[str, Any]:
    """Return the largest spendings of these accounts, for life and in the window, and the rest.

    `epsilon_in_sum` and `remaining` count values, cells and profiles together, as the budget does.
    """
    from producers.journal import NANO

    most: dict[tuple[str, str], tuple[Spent, Spent | None]] = {}
    for account in accounts:
        recent = {} if limits.window is None else account.spent(after)
        for key, life in account.spent().items():
            known = most.get(key)
            # Without a claim every epsilon is 0, so the number of reports decides.
            if known is None or (life.nano, life.reports) > (known[0].nano, known[0].reports):
                most[key] = life, recent.get(key)
    used = max((account.total(after)[0] for account in accounts), default=0)
    total = max((account.total()[0] for account in accounts), default=0)
    left = None if limits.nano is None else max(0, limits.nano - used)
    return {
        "spent": [_spend(scope, *spent, limits) for (scope, _), spent in sorted(most.items())],
        "epsilon_in_sum": _exact(total, NANO),
        "remaining": None if left is None else _exact(left, NANO),
        "reports_on_one_item": max(map(_reports_on_one_rating, accounts), default=0),
    }


def _reports_on_one_rating(account: Account) -> int:
    """Return the largest number of reports on one rating; a memo holds a key for each report."""
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
        in_window = recent or Spent(life.adjacency)
        row["epsilon_in_window"] = _exact(in_window.nano, NANO) if claimed else None
        row["reports_in_window"] = in_window.reports
    return row


def _exact(amount: int, unit: int) -> str:
    """Return amount / unit as the shortest decimal."""
    whole, rest = divmod(amount, unit)
    digits = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


_MEANING = {
    ("rating", "value"): "no report is more than e^(its epsilon) times likelier under one value of "
    "the rating than under another; for all values of the user together the factor is e^(the sum). "
    "That the ratings exist is public",
    ("rating", "cell"): "no report is more than e^(its epsilon) times likelier under one rating of "
    "the item, or none, than under another; for the user's whole record the factor is e^(the sum)",
    ("rating", "nothing"): "these ratings were sent without noise: nothing is protected",
    ("profile", "cell"): "all profiles together are at most e^(this sum) times likelier with one "
    "item than without it; for the whole set of items the factor is up to e^(number of items x "
    "this sum)",
    ("profile", "nothing"): "these profiles were sent without noise: nothing is protected",
}


def _show(row: dict[str, Any], limits: Limits) -> None:
    """Print the spending of one user or the largest spendings of all."""
    whose = f"user {printable(row['user'])}" if "user" in row else plural(row["users"], "user")
    say(f"{whose}, budget {limits}, as of epoch {row['epoch']}")
    if not row["spent"]:
        say("nothing was spent")
    for spent in row["spent"]:
        say(_line(spent, limits))
        key = spent["scope"], spent["adjacency"]
        say(f"  {_MEANING.get(key, 'see the mechanism for what it protects')}")
        if spent["delta"] not in (None, "0"):
            say("  up to an additive delta, which also grows with the number of items")
    for sentence in _totals(row):
        say(sentence)


def _totals(row: dict[str, Any]) -> Iterator[str]:
    """Yield the sentences about all kinds together."""
    if (k := row["reports_on_one_item"]) > 1:
        yield f"a rating has {k} reports: their joint factor is e^({k} x epsilon)"
    if len(row["spent"]) > 1:
        user = "" if "user" in row else " by the user with the most"
        yield (
            "the kinds protect different things, but their epsilons on one rating add up: "
            f"epsilon {row['epsilon_in_sum']}{user}"
        )
    if row["remaining"] is not None:
        yield f"remaining {row['remaining']}, for ratings and profiles together"
    if float(row["epsilon_in_sum"]) > LARGE_PER_USER:
        yield f"warning: a sum above {LARGE_PER_USER} is weak protection"
    if row["pending_events"]:
        yield (
            f"{plural(row['pending_events'], 'event')} paid for and not acknowledged: the next "
            "publish or replay sends them"
        )


def _line(spent: dict[str, Any], limits: Limits) -> str:
    """Return the line of one kind: the user's spending, or the largest spending of a user."""
    is_rating = spent["scope"] == "rating"
    noun = "report" if is_rating else spent["scope"]
    parts = [f"{'' if is_rating else f'{noun}, '}{spent['adjacency']}:"]
    if spent["epsilon"] is not None:
        parts.append(f"epsilon {spent['epsilon']}")
        if spent["delta"] != "0":
            parts.append(f"delta {spent['delta']}")
    parts.append(f"on {plural(spent['reports'], noun)}")
    if limits.window is not None:
        claim = "" if spent["epsilon"] is None else f"epsilon {spent['epsilon_in_window']} on "
        reports = plural(spent["reports_in_window"], noun)
        parts.append(f"(in the last {limits.window} epochs {claim}{reports})")
    if "users" in spent:
        parts.append(f"by the user with the most ({plural(spent['users'], 'user')} in all)")
    return " ".join(parts)
