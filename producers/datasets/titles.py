"""Titles of items from the files beside ratings: optional, so an unreadable file is ignored."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from producers.datasets.columns import integers_or_text
from producers.datasets.tables import text_column
from stream_app.errors import UserError


def titles_beside(path: Path) -> Mapping[int | str, str] | None:
    """Return the titles in the folder of a file of ratings, item id -> title; None without any."""
    for name in ("movies.dat", "movies.csv", "u.item", "movies.npz"):
        beside = path.parent / name
        if beside.is_file() and beside != path:
            return titles_in(name, beside.read_bytes())
    return None


def titles_in(name: str, content: bytes) -> Mapping[int | str, str] | None:
    """Return item id -> title from the content of a file; None if it cannot be read."""
    try:
        if name == "movies.npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                pairs = zip(archive["item"].tolist(), archive["title"].tolist(), strict=True)
                return {item: str(title) for item, title in pairs}
        text = content.decode("utf-8-sig" if name == "movies.csv" else "latin-1")
        if name == "movies.csv":
            rows = list(csv.reader(io.StringIO(text)))[1:]
        else:
            separator = "::" if name == "movies.dat" else "|"
            rows = [line.split(separator) for line in text.splitlines() if line]
        ids = integers_or_text(text_column([row[0] for row in rows], 1, name, "item")).tolist()
        return {item: row[1] for item, row in zip(ids, rows, strict=True)}
    except (ValueError, KeyError, IndexError, csv.Error, zipfile.BadZipFile, UserError):
        return None
