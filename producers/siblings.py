"""One journal for a person: whether another journal beside it holds an account of the same user.

A person with two journals has two pseudonyms and two budgets. The reports of both are about the
same ratings, so their pseudonyms are easily linked and their budgets add up, whatever each of them
says. So an account is refused where another journal in the same folder holds one, unless either
journal is named a test, whose events no server counts. A copy of the journal (a backup) counts
spending from where it was made, so it has another folder; and of a journal that cannot be read it
is not known which accounts it holds. The people of a simulation are no persons, so a user of one
kind is looked for among accounts of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from producers.identities import Identities
from producers.journal import Journal, JournalView, read_journal
from producers.journal.frames import MAGIC
from stream_app.errors import UserError


def check_only_journal(
    journal: Journal, users: Iterable[int | str], *, simulated: bool = False
) -> None:
    """Raise UserError where another journal in this folder holds, or may hold, an account of one of
    the users, and where this one holds a simulation, unless they are `simulated`."""
    if not simulated:
        journal.check_kind(simulated=False)
    if journal.test:
        return
    users = list(users)
    for path in _others(journal.path):
        view = _content(path)
        if not view.book.test and _holds(view, users, simulated):
            raise UserError(_refusal(journal, path, view))


def _content(path: Path) -> JournalView:
    try:
        return read_journal(path)
    except UserError:
        raise UserError(
            f"device journal {path}: cannot be read (it is damaged, or of another murmurec), so "
            "whether the same user has an account in it is not known: restore it; if it is lost, "
            "or of another person, move it to another folder"
        ) from None


def _holds(view: JournalView, users: list[int | str], simulated: bool) -> bool:
    known = {
        device
        for device, account in view.book.accounts.items()
        if bool(account.enrolment and account.enrolment.simulated) == simulated
    }
    if not known:
        return False
    named = [Identities(view.key, signed=signed) for signed in (False, True)]
    return any(each.pseudonym(user) in known for each in named for user in users)


def _refusal(journal: Journal, path: Path, view: JournalView) -> str:
    own = journal.path
    if view.key != journal.key:
        return (
            f"device journal {path}: holds an account of the same user as {own}, and a person has "
            "one journal, because two give two pseudonyms and two budgets for the same ratings: "
            f"use --journal {path}, or name a journal a test when it is made (--test)"
        )
    spent = "and a copy spends again what was spent since it was made"
    if view.book.next > journal.next_number:
        return (
            f"device journal {own}: is an older copy of {path}, {spent}: give --journal {path}, "
            "and move the older one to another folder"
        )
    older = "an older copy" if view.book.next < journal.next_number else "a copy"
    return f"device journal {path}: is {older} of {own}, {spent}: move it to another folder"


def _others(path: Path) -> Iterator[Path]:
    """Yield the other journals in the folder of a journal, without what a compaction has left."""
    found = [each for each in sorted(path.parent.iterdir()) if is_journal(each)]
    left = {each.with_name(f"{each.name}.new") for each in found}
    yield from (each for each in found if each != path and each not in left)


def is_journal(path: Path) -> bool:
    """Return whether a path is a file that begins as a journal does."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
