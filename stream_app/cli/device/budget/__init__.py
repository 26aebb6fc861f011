"""`murmurec device status` and `plan`: what a person has spent, and how to spend a budget.

rows                the figures of a journal and of its users
spending_sentences  what they mean, in sentences; how many reports, of which epsilon, spend a budget
                    best
"""

from __future__ import annotations

from stream_app.cli.commands import option
from stream_app.cli.device.clean_ratings import kept_ratings, rating_sentences
from stream_app.cli.device.mechanism_options import (
    DeviceJournal,
    WindowOption,
    person,
    person_budget,
    today,
)
from stream_app.cli.options import JsonOption, reached
from stream_app.cli.output import refusing, show
from stream_app.errors import UsageError


def status(
    file: DeviceJournal,
    user: str | None = option(
        None, "One user (default: all, and the largest spending).", "ID", callback=person
    ),
    receipts: bool = option(
        False, "With --user: what became of each contribution to campaigns, by the public log."
    ),
    ratings: bool = option(False, "Also the ratings that are kept here in clear, oldest first."),
    as_json: JsonOption = False,
) -> None:
    """Show what a person may spend, what was spent, on how many ratings, and what is left.

    Without --user also what waits, and when each account reports next. It reads a journal that
    another process is writing to.

    Example: murmurec device status --user ann
    """
    from msgspec import to_builtins

    from consumers.audit.topic_reading import read_receipts
    from producers.campaign.stage_requests import JoinedCampaigns
    from producers.journal import read_journal
    from stream_app.cli.device.budget.rows import of_all_users, of_user
    from stream_app.cli.device.budget.spending_sentences import sentences

    if receipts and user is None:
        raise UsageError("--receipts: are of one person; name the user (--user ID)")

    view = read_journal(file.path)
    epoch = max(view.book.epoch, today())
    known = (
        of_all_users(view, file.path) if user is None else of_user(view, user, epoch, file.settings)
    )
    row = {**known, "pending_events": view.pending, "epoch": epoch}
    if receipts:
        device = bytes.fromhex(row["device"])
        found = read_receipts(
            *reached(file.settings), device, JoinedCampaigns.from_view(view, device)
        )
        row["receipts"] = [to_builtins(each, enc_hook=str) for each in found]
    lines = [*sentences(row)]
    if ratings:
        kept = kept_ratings(file.path, None if user is None else bytes.fromhex(row["device"]))
        row["ratings"] = kept
        lines += rating_sentences(kept)
    show(row, lines, as_json=as_json)


def plan(
    ratings: int = option(..., "Ratings expected within the horizon.", "N"),
    budget: str = option("20", "Epsilon of the whole person.", "E"),
    delta: str | None = option(None, "Its delta (default 1e-6).", "D"),
    window: WindowOption = None,
    horizon: int | None = option(None, "Days planned for (default: one window).", "DAYS"),
    levels: int = option(5, "Levels of the ratings' scale.", "N"),
    user: str = option("ID", "The user in the printed command.", "ID"),
    as_json: JsonOption = False,
) -> None:
    """Plan how many ratings to report, and with how much epsilon each.

    Example: murmurec device plan --budget 20 --ratings 165
    """
    from producers.person.spending import Expected
    from stream_app.cli.device.budget.spending_sentences import plan_row, plan_sentences

    given = (("--user", user), ("--budget", budget), ("--delta", delta), ("--window", window))
    terms = [word for name, each in given if each is not None for word in (name, str(each).strip())]
    with refusing(UsageError, "--{}".format):
        person = person_budget(budget, delta, window)
        row = plan_row(person, Expected(ratings, horizon), levels, terms)
    show(row, plan_sentences(row), as_json=as_json)
