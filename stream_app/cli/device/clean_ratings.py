"""The clean ratings that a device keeps for its own lists: shown, and `murmurec device forget`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stream_app.cli.commands import option
from stream_app.cli.device.mechanism_options import DeviceJournal, person, pseudonym_in
from stream_app.cli.output import plural, printable, say
from stream_app.errors import UsageError


def forget(
    file: DeviceJournal,
    user: str | None = option(None, "One user.", "ID", callback=person),
    all_users: bool = option(False, "All users.", None, "--all"),
) -> None:
    """Forget the ratings that this device keeps in clear; what was published is not changed.

    Example: murmurec device forget --user ann
    """
    from producers.journal import read_key
    from producers.ranking import CleanHistory

    if (user is None) == (not all_users):
        raise UsageError("give either --user ID or --all")
    kept = CleanHistory(file.path)
    if not kept.path.exists():
        read_key(file.path)  # raises where there is no journal, either
    device = None if user is None else pseudonym_in(file.path, user, file.settings)
    say(f"forgot {plural(kept.forget(device), 'rating')} of {kept.path}")


def kept_ratings(path: Path, device: bytes | None) -> list[dict[str, Any]]:
    """Return the ratings that are kept in clear, of one device or of all, oldest first."""
    from producers.ranking import CleanHistory

    rows = CleanHistory(path).read(device)
    return [{"device": row.device, "item": row.item, "rating": row.rating} for row in rows]


def rating_sentences(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield kept ratings in words."""
    for row in rows:
        yield f"rating     {row['device']}  {row['rating']:g}  {printable(str(row['item']))}"
    yield f"{plural(len(rows), 'rating')} kept in clear, on this device only"
