"""The public scope: on which items every device reports, whatever it has rated.

    FILE       one item id per line, as `publish --item` takes it
    turn(e) = { items whose slot under a public keyed hash is e mod rotate_every }

The scope must not come from the ratings that it is to hide: a list of rated items reveals them.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy.ratings.item_sampling import Scope
from stream_app.wire.ids import Item

_LONGEST = 100_000_000  # bytes of a file of ids


def contents(path: Path, meant: str = "is it a list of item ids?") -> bytes:
    """Return the bytes of a file of ids; UserError for one that cannot be read or is too long, with
    what was `meant`."""
    try:
        with path.expanduser().open("rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > _LONGEST:
        raise UserError(f"{path}: is longer than {_LONGEST} bytes; {meant}")
    return data


def numbered(path: Path, data: bytes, what: str = "one item id") -> list[tuple[int, str]]:
    """Return the lines that are not empty, as they are, and their numbers; UserError, which says
    `what` a line has, unless the data are text."""
    try:
        lines = re.split("\r?\n", data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8; write {what} per line") from None
    return [(row, line) for row, line in enumerate(lines, 1) if line]


def ordered(path: Path, data: bytes) -> NDArray[np.uint64]:
    """Return the keys of the items in the order of their lines, each at its first; UserError
    names a bad line of `path`."""
    return np.array([wire.key(item) for item in ordered_items(path, data)], np.uint64)


def ordered_items(path: Path, data: bytes) -> list[Item]:
    """Return the items in the order of their lines, each at its first; UserError names a bad
    line of `path`."""
    items: dict[int, Item] = {}
    for row, line in numbered(path, data):
        try:
            items.setdefault(wire.key(line), wire.parse_item(line))
        except ValueError as error:
            raise UserError(f"{path}: line {row}: {error}") from None
    if not items:
        raise UserError(f"{path}: holds no item; write one item id per line")
    return list(items.values())


def turn(
    scope: NDArray[np.uint64], epoch: int, rotate_every: int = 1, key: int = 0
) -> NDArray[np.uint64]:
    """Return the items whose turn it is in an epoch: each once in `rotate_every` epochs."""
    if rotate_every == 1:
        return scope
    return Scope(key, rotate_every, first=epoch - epoch % rotate_every).items(scope, epoch)
