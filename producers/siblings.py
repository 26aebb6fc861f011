"""One journal for a person: whether another journal beside it holds an account of the same user.

A person with two journals has two pseudonyms and two budgets. The reports of both are about the
same ratings, so their pseudonyms are easily linked and their budgets add up, whatever each of them
says. So an account is refused where another journal in the same folder holds one, unless either
journal is named a test, whose events no server counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from producers.identities import Identities
from producers.journal import Journal, JournalView, read_journal
from producers.journal.frames import MAGIC
from stream_app.errors import UserError


def check_only_journal(journal: Journal, users: Iterable[int | str]) -> None:
    """Raise UserError where another journal in this folder holds an account of one of the users."""
    if journal.test:
        return
    users = list(users)
    for path, view in _others(journal.path):
        if view.book.test or not view.book.accounts:
            continue
        for signed in (False, True):
            named = Identities(view.key, signed=signed)
            if any(named.pseudonym(user) in view.book.accounts for user in users):
                raise UserError(
                    f"device journal {path}: holds an account of the same user as {journal.path}, "
                    "and a person has one journal, because two give two pseudonyms and two budgets "
                    f"for the same ratings: use --journal {path}, or name a journal a test when it "
                    "is made (--test)"
                )


def _others(path: Path) -> Iterator[tuple[Path, JournalView]]:
    """Yield the other journals in the folder of a journal; those that cannot be read are left."""
    for other in sorted(path.parent.iterdir()):
        if other == path or other == path.with_name(f"{path.name}.new") or not _is_journal(other):
            continue
        try:
            yield other, read_journal(other)
        except UserError:
            continue  # damaged or of another format: its sentence names another path as the way out


def _is_journal(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
