"""`murmurec history`: the clean ratings that this device keeps for its own lists."""

from __future__ import annotations

from stream_app.cli.commands import option
from stream_app.cli.device.mechanism_options import DeviceJournal, person, pseudonym_in
from stream_app.cli.options import JsonOption
from stream_app.cli.output import plural, printable, say, show
from stream_app.errors import UsageError


def history(
    file: DeviceJournal,
    user: str | None = option(None, "One user.", "ID", callback=person),
    forget: bool = option(False, "Forget them on this device."),
    all_users: bool = option(False, "With --forget: of all users.", None, "--all"),
    as_json: JsonOption = False,
) -> None:
    """Show the ratings that this device keeps in clear, oldest first, or forget them.

    What was published is not changed.

    Example: murmurec history --user ann
    """
    from producers.journal import read_key
    from producers.ranking import CleanHistory

    if forget and (user is None) == (not all_users):
        raise UsageError("give either --user ID or --all")
    if all_users and not forget:
        raise UsageError("--all: only --forget asks for it")
    kept = CleanHistory(file.path)
    if not kept.path.exists():
        read_key(file.path)  # raises where there is no journal, either
    device = None if user is None else pseudonym_in(file.path, user, file.settings)
    if forget:
        say(f"forgot {plural(kept.forget(device), 'rating')} of {kept.path}")
        return
    rows = kept.read(device)
    sentences = [f"{row.device}  {row.rating:g}  {printable(str(row.item))}" for row in rows]
    sentences.append(f"{plural(len(rows), 'rating')} in {kept.path}, on this device only")
    shown = [{"device": row.device, "item": row.item, "rating": row.rating} for row in rows]
    show(shown, sentences, as_json=as_json)
