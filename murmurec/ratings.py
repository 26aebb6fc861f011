"""The accepted forms of ratings: a data frame, a mapping of columns, a tuple of arrays, or a file.

>>> columns_of({"user": ["ann", "bob"], "item": [7, 7], "rating": [5, 3]}, Scale()).levels
array([4, 2], dtype=uint8)

A data frame is anything that gives columns by name, `frame["user"]`: pandas, polars, pyarrow. The
columns are `user`, `item`, `rating` and, if there is one, `timestamp` in seconds; ids are integers
from 0 up or text. Error messages name the row, never a user or a rating.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import Dataset, find_scale, load
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError

_T = TypeVar("_T")
Ratings = Any
"""A `Dataset`, a path, a data frame or mapping with the columns, or a tuple of 3 or 4 arrays."""

_NAMES = ("user", "item", "rating")
_EXPECTED = "give columns user, item, rating and, if there is one, timestamp"


def columns_of(ratings: Ratings, scale: Scale | None, seed: int | None = 0) -> Dataset:
    """Return the ratings as a data set in time order; ValueError for anything else.

    The seed mixes rows without times that are sorted by user; None keeps them as they are.
    Without a scale the smallest usual one that holds every rating is taken.
    """
    if isinstance(ratings, str | Path):
        ratings = _refused_as_value(load, ratings, scale)
    if isinstance(ratings, Dataset):
        if scale is not None and ratings.scale != scale:
            raise ValueError(f"ratings on the scale {ratings.scale}: expected the scale {scale}")
        return ratings.in_time_order(seed)
    columns = _named(ratings)
    users, items = (ids_of(columns[name], name) for name in ("user", "item"))
    values = _numbers(columns["rating"], "rating")
    times = columns.get("timestamp")
    timestamps = None if times is None else _numbers(times, "timestamp").astype(np.int64)
    lengths = {len(column) for column in (users, items, values)}
    lengths |= set() if timestamps is None else {len(timestamps)}
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows: all must have one length")
    if not len(values):
        raise ValueError(f"0 ratings: {_EXPECTED}")
    scale = scale or _refused_as_value(find_scale, values)
    levels, on_scale = scale.classify(values)
    if not on_scale.all():
        row = int((~on_scale).argmax())
        raise ValueError(
            f"rating in row {row}: not on the scale {scale}; give the scale as (minimum, maximum, "
            "step)"
        )
    dataset = Dataset(users, items, values, levels, timestamps, None, scale, "ratings")
    return dataset.in_time_order(seed)


def ids_of(column: Any, name: str) -> NDArray[np.int64] | NDArray[np.str_]:
    """Return a column of ids as int64 or as text; ValueError with the row of the first invalid
    one."""
    # A list as objects: numpy would make floats of integers that are too large for it.
    plain = isinstance(column, list | tuple)
    given = np.asarray(column, object) if plain else np.asarray(column)
    if given.ndim != 1:
        raise ValueError(f"{name}: an array of shape {given.shape}; give one dimension")
    if given.dtype.kind == "O":
        kinds = {type(value) for value in given.tolist()}
        if kinds == {int}:
            _check_range((given < 0) | (given >= 2**63), name)
            given = given.astype(np.int64)
        elif kinds == {str}:
            nul = next((row for row, text in enumerate(given.tolist()) if "\0" in text), None)
            if nul is not None:  # numpy would drop it at the end of an id
                raise ValueError(f"{name} in row {nul}: an id must not hold the character NUL")
            given = given.astype(np.str_)
        elif not kinds:
            given = np.empty(0, np.int64)
    if given.dtype.kind in "iu":
        _check_range((given < 0) | (given > np.iinfo(np.int64).max), name)
        return given.astype(np.int64)
    if given.dtype.kind == "U":
        empty = given == ""
        if empty.any():
            raise ValueError(f"{name} in row {int(empty.argmax())}: an id is not empty")
        return given
    types = sorted({type(value).__name__ for value in given.tolist()})
    raise ValueError(f"{name}: ids of type {' and '.join(types)}; give integers from 0 up, or text")


def _check_range(outside: NDArray[np.bool_], name: str) -> None:
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(f"{name} in row {row}: an integer id lies in 0 .. 2^63-1")


def item_keys(ids: NDArray[np.int64] | NDArray[np.str_]) -> NDArray[np.uint64]:
    """Return the key of each item, (n,)."""
    names, rows = np.unique(ids, return_inverse=True)
    return np.array([wire.key(name) for name in names.tolist()], np.uint64)[rows]


def user_keys(ids: NDArray[np.int64] | NDArray[np.str_]) -> NDArray[np.uint64]:
    """Return a key for each user, (n,), as of items; an id may be negative or a long text."""
    names, rows = np.unique(ids, return_inverse=True)
    return np.array([_user_key(name) for name in names.tolist()], np.uint64)[rows]


def _user_key(user: int | str) -> int:
    known = wire.parse_item(str(user))
    if isinstance(known, int):
        return known
    digest = blake2b(str(user).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") | (1 << 63)


def _named(ratings: Ratings) -> dict[str, Any]:
    if isinstance(ratings, tuple):
        if len(ratings) not in (3, 4):
            raise ValueError(f"a tuple of {len(ratings)}: give users, items, ratings[, timestamps]")
        return dict(zip((*_NAMES, "timestamp"), ratings, strict=False))
    names = getattr(ratings, "column_names", None)  # pyarrow
    if names is None:
        names = getattr(ratings, "columns", None)
    if names is None:
        names = ratings.keys() if hasattr(ratings, "keys") else ()
    found = [str(name) for name in names]
    missing = [name for name in _NAMES if name not in found]
    if missing:
        raise ValueError(f"no column {', '.join(missing)} among {found}: {_EXPECTED}")
    wanted = (*_NAMES, *(["timestamp"] if "timestamp" in found else []))
    return {name: ratings[name] for name in wanted}


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: not a column of numbers") from None
    if numbers.ndim != 1:
        raise ValueError(f"{name}: an array of shape {numbers.shape}; give one dimension")
    unknown = ~np.isfinite(numbers)
    if unknown.any():
        raise ValueError(f"{name} in row {int(unknown.argmax())}: must be a finite number")
    return numbers


def _refused_as_value(read: Callable[..., _T], *given: Any) -> _T:
    """Call `read` and raise its UserError as a ValueError, as for every bad argument."""
    try:
        return read(*given)
    except UserError as refusal:
        raise ValueError(str(refusal)) from None
