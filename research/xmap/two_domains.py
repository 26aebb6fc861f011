"""Ratings of two domains, from two files or from one.

    two files    each is a domain; both use the same user ids. Item ids get the name of the file
                 before them, so that item 7 of books and item 7 of movies are two
    one file     every item is of the domain that is named for it: in an array `domain` or
                 `category` beside the ratings of a .npz, one entry a rating; or else by its genres

An item that belongs to both domains belongs to neither here, and is left out with its ratings.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import Dataset, load
from stream_app.errors import UserError
from stream_app.wire import parse_item

_ARRAYS = ("domain", "category")


class DomainRatings(NamedTuple):
    """Columns (n,): users and items of any kind, stars on 1 .. 5, whether of the target domain.

    left_out: ratings of items of both domains.
    """

    users: NDArray[np.generic]
    items: NDArray[np.generic]
    stars: NDArray[np.float64]
    in_target: NDArray[np.bool_]
    left_out: int


def of_two_files(source: Path | str, target: Path | str) -> DomainRatings:
    """Return the ratings of two files; UserError where one cannot be read, or both are one."""
    paths = [Path(each).expanduser() for each in (source, target)]
    if paths[0].resolve() == paths[1].resolve():
        raise UserError(f"{target}: is the file of the source domain too; give another one")
    found = [load(each) for each in paths]
    kinds = {each.users.dtype.kind for each in found}
    users = [each.users if len(kinds) == 1 else each.users.astype(str) for each in found]
    items = [
        np.char.add(f"{place}:{path.stem}:", each.items.astype(str))
        for place, (path, each) in enumerate(zip(paths, found, strict=True))
    ]
    return DomainRatings(
        np.concatenate(users),
        np.concatenate(items),
        np.concatenate([_stars(each) for each in found]),
        np.repeat([False, True], [len(each) for each in found]),
        0,
    )


def of_one_file(path: Path | str, source: str, target: str) -> DomainRatings:
    """Return the ratings of two domains of a file, by their names.

    Raises:
        UserError: the file cannot be read, says nothing about domains, or has none of that name.
    """
    if source == target:
        raise UserError(f"{target!r}: is the source domain too; give another one")
    path = Path(path).expanduser()
    found = load(path)
    items, places = np.unique(found.items, return_inverse=True)
    inside = _labelled(path, found, places, len(items), (source, target))
    if inside is None:
        inside = _described(path, found, items, (source, target))
    both = inside[0] & inside[1]
    kept = (inside[0] ^ inside[1])[places]
    return DomainRatings(
        found.users[kept],
        found.items[kept],
        _stars(found)[kept],
        inside[1][places[kept]],
        int(both[places].sum()),
    )


def _stars(found: Dataset) -> NDArray[np.float64]:
    return 1 + 4 * found.levels.astype(np.float64) / (found.scale.levels - 1)


def _labelled(
    path: Path, found: Dataset, places: NDArray[np.intp], size: int, names: tuple[str, str]
) -> NDArray[np.bool_] | None:
    """Return (2, size) whether each item is of a domain, by an entry a rating; None without."""
    if path.suffix != ".npz":
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            labels = next((archive[each] for each in _ARRAYS if each in archive), None)
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError):
        raise UserError(f"{path}: its domains cannot be read") from None
    if labels is None:
        return None
    if labels.shape != (len(found),):
        raise UserError(
            f"{path}: {labels.size} domains for {len(found)} ratings on the scale; one a rating"
        )
    words = labels.astype(str)
    inside = np.zeros((2, size), bool)
    for row, name in enumerate(names):
        if not (words == name).any():
            known = ", ".join(sorted(set(words.tolist()))[:20])
            raise UserError(f"{path}: has no domain {name!r}; there are {known}")
        inside[row, places[words == name]] = True
    return inside


def _described(
    path: Path, found: Dataset, items: NDArray[np.generic], names: tuple[str, str]
) -> NDArray[np.bool_]:
    """Return (2, size) whether each item is of a domain, by the file of items beside it."""
    rows = [(found.described or {}).get(parse_item(str(item))) for item in items.tolist()]
    known = {genre for row in rows if row for genre in row.genres}
    for name in names:
        if name not in known:
            listed = ", ".join(sorted(known)[:20]) or "none"
            raise UserError(f"{path}: has no items of {name!r}; its genres: {listed}")
    return np.array([[bool(row and name in row.genres) for row in rows] for name in names])
