"""`murmurec budget`: what a person may spend, has spent by the journal, and how to spend it.

rows      the figures of one user, or the largest of all users
wording   what they mean, in sentences
planning  how many reports, of which epsilon, spend a budget best
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from stream_app.cli.commands import Commands
from stream_app.cli.device.mechanism_options import (
    JournalOption,
    WindowOption,
    journal_path,
    person_budget,
    positive_fraction,
)
from stream_app.cli.options import ConfigOption, JsonOption, settings_from
from stream_app.cli.output import print_json, printable, say
from stream_app.errors import UsageError, UserError

app = Commands(
    help="Show, plan or raise the budget of a person. Example: murmurec budget show",
)


@app.command()
def show(
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="ID", help="One user (default: the largest spending of all)."
        ),
    ] = None,
    journal: JournalOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a person may spend, what was spent, on how many ratings, and what is left.

    It also reads a journal that another process is writing to.

    Example: murmurec budget show --user ann
    """
    from producers.journal import read_journal
    from stream_app.cli.device.budget.rows import of_all_users, of_user
    from stream_app.cli.device.budget.wording import sentences
    from stream_app.wire import EPOCH_SECONDS

    settings = settings_from(config)
    view = read_journal(journal_path(settings, journal))
    epoch = max(view.book.epoch, int(time.time()) // EPOCH_SECONDS)
    known = of_all_users(view) if user is None else of_user(view, user, epoch, settings)
    row = {**known, "pending_events": view.pending, "epoch": epoch}
    if as_json:
        print_json(row)
        return
    for sentence in sentences(row):
        say(sentence)


@app.command(name="set")
def set_budget(
    user: Annotated[str, typer.Option("--user", metavar="ID", help="The user's own id.")],
    raised: Annotated[
        str, typer.Option("--raise", metavar="E", help="The new, larger epsilon of the person.")
    ],
    journal: JournalOption = None,
    config: ConfigOption = None,
) -> None:
    """Raise the budget of a person; it can never be lowered again.

    Example: murmurec budget set --user ann --raise 30
    """
    from producers.identities import Identities
    from producers.journal import Journal, read_key
    from stream_app.cli.device.budget.wording import meaning_of_raise

    settings = settings_from(config)
    epsilon = positive_fraction("--raise", raised)
    path = journal_path(settings, journal)
    read_key(path)  # raises where there is no journal, before one is made
    try:
        with Journal.open(path) as opened:
            device = Identities(opened.key, signed=settings.signed).pseudonym(user)
            before = opened.enrolment(device)
            if before is None:
                raise UserError(f"{user} is not enrolled: run murmurec device enrol --user {user}")
            opened.raise_budget([device], epsilon)
            after = opened.enrolment(device)
    except ValueError as error:
        raise UserError(str(error)) from None
    assert after is not None
    for sentence in meaning_of_raise(printable(user), before.budget, after.budget):
        say(sentence)


@app.command()
def plan(
    ratings: Annotated[
        int, typer.Option("--ratings", metavar="N", help="Ratings expected within the horizon.")
    ],
    budget: Annotated[
        str, typer.Option("--budget", metavar="E", help="Epsilon of the whole person.")
    ] = "20",
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="Its delta (default 1e-6).")
    ] = None,
    window: WindowOption = None,
    horizon: Annotated[
        int | None,
        typer.Option("--horizon", metavar="DAYS", help="Days planned for (default: one window)."),
    ] = None,
    levels: Annotated[
        int, typer.Option("--levels", metavar="N", help="Levels of the ratings' scale.")
    ] = 5,
    user: Annotated[
        str, typer.Option("--user", metavar="ID", help="The user in the printed command.")
    ] = "ID",
    as_json: JsonOption = False,
) -> None:
    """Plan how many ratings to report, and with how much epsilon each.

    Example: murmurec budget plan --budget 20 --ratings 165
    """
    from producers.person.spending import Expected
    from stream_app.cli.device.budget.planning import plan_row, plan_sentences

    given = (("--user", user), ("--budget", budget), ("--delta", delta), ("--window", window))
    terms = [word for name, each in given if each is not None for word in (name, str(each).strip())]
    try:
        person = person_budget(budget, delta, window)
        row = plan_row(person, Expected(ratings, horizon), levels, terms)
    except ValueError as error:
        raise UsageError(f"--{error}") from None
    if as_json:
        print_json(row)
        return
    for sentence in plan_sentences(row):
        say(sentence)
