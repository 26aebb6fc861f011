"""`murmurec history`: the clean ratings that this device keeps for its own lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_app.cli.commands import Commands
from stream_app.cli.device.mechanism_options import JournalOption, journal_path
from stream_app.cli.options import ConfigOption, JsonOption, settings_from
from stream_app.cli.output import plural, print_json, printable, say
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from producers.ranking import CleanHistory

app = Commands(
    help="Show or forget the ratings kept on this device. Example: murmurec history show",
)

UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="One user.")]


@app.command()
def show(
    user: UserOption = None,
    journal: JournalOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the ratings that this device keeps in clear, oldest first.

    Example: murmurec history show --user ann
    """
    history, device = _history(user, journal, config)
    rows = history.read(device)
    if as_json:
        print_json([{"device": r.device, "item": r.item, "rating": r.rating} for r in rows])
        return
    for row in rows:
        say(f"{row.device}  {row.rating:g}  {printable(str(row.item))}")
    say(f"{plural(len(rows), 'rating')} in {history.path}, on this device only")


@app.command()
def forget(
    user: UserOption = None,
    all_users: Annotated[bool, typer.Option("--all", help="The ratings of all users.")] = False,
    journal: JournalOption = None,
    config: ConfigOption = None,
) -> None:
    """Forget the ratings of a user on this device; what was published is not changed.

    Example: murmurec history forget --user ann
    """
    if (user is None) == (not all_users):
        raise UsageError("give either --user ID or --all")
    history, device = _history(user, journal, config)
    say(f"forgot {plural(history.forget(device), 'rating')} of {history.path}")


def _history(
    user: str | None, journal: Path | None, config: Path | None
) -> tuple[CleanHistory, bytes | None]:
    """Return the file of kept ratings, and the pseudonym of a user in it."""
    from producers.identities import Identities
    from producers.journal import read_key
    from producers.ranking import CleanHistory

    settings = settings_from(config)
    path = journal_path(settings, journal)
    if user is None:
        return CleanHistory(path), None
    try:
        named = Identities(read_key(path), signed=settings.signed)
        return CleanHistory(path), named.pseudonym(user)
    except ValueError as error:
        raise UserError(str(error)) from None
