"""What `murmurec device status` shows: accounts, what waits, and when each reports next."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from producers.daemon.schedule import Schedule
from producers.journal import Enrolment, read_journal
from producers.journal.disk import Disk
from producers.ranking.clean_history import CleanHistory
from stream_app.cli.output import plural, print_json, say
from stream_app.wire import EPOCH_SECONDS

_SHOWN = 20


def show_status(path: Path, *, as_json: bool) -> None:
    """Print the accounts of a journal, also while a device runs on it."""
    view = read_journal(path)
    accounts = view.book.enrolments()
    active = [account for account in accounts if not account.withdrawn]
    kept = Counter(row.device for row in CleanHistory(path).read())
    running = _in_use(path)
    now = time.time()
    rows = [_row(account, kept[account.device.hex()], now) for account in accounts]
    scope = view.book.scope.hex()
    if as_json:
        print_json(
            {
                "journal": str(path),
                "running": running,
                "pending": view.pending,
                "scope": scope or None,
                "accounts": rows,
            }
        )
        return
    say(f"device     {path}: {'in use by a program' if running else 'no program runs on it'}")
    say(f"accounts   {plural(len(active), 'account')} of {len(accounts)} take part")
    say(f"messages   {plural(view.pending, 'message')} not confirmed by the broker")
    say(f"ratings    {plural(sum(kept.values()), 'line')} kept on this device")
    say(f"scope      {f'SHA-256 {scope}' if scope else 'none stored'}")
    for row in rows[:_SHOWN]:
        say(
            f"{row['device']}  enrolled in epoch {row['enrolled']}, next moment "
            f"{row['next'] or 'none: withdrawn'}"
        )
    if len(rows) > _SHOWN:
        say(f"and {len(rows) - _SHOWN:,} more (--json)")


def _row(account: Enrolment, kept: int, now: float) -> dict[str, object]:
    coming = None if account.withdrawn else Schedule([account], EPOCH_SECONDS, now).next
    shown = None if coming is None else datetime.fromtimestamp(coming, UTC)
    return {
        "device": account.device.hex(),
        "enrolled": account.epoch,
        "withdrawn": account.withdrawn or None,
        "ratings_kept": kept,
        "next": None if shown is None else shown.isoformat(timespec="seconds"),
    }


def _in_use(path: Path) -> bool:
    """Return whether a program holds the journal's lock."""
    disk = Disk()
    try:
        disk.close(disk.open(path.expanduser()))
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
