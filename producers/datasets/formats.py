"""File formats of ratings, read into columns.

    ratings.dat, *.dat     user::item::rating::timestamp            items: movies.dat
    u.data, *.data, *.tsv  user TAB item TAB rating TAB timestamp   items: u.item
    *.csv                  header userId,movieId,rating[,timestamp] or user,item,rating[,timestamp]
                           in any order                             items: movies.csv
    *.npz                  arrays user, item, rating[, timestamp]   items: movies.npz
    *.zip                  a MovieLens archive with one of the first three inside

numpy only; no file is trusted to hold objects (`allow_pickle=False`). A message names the row,
counted from 1 as an editor does, never its content.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

from producers.datasets.arrays import read_npz
from producers.datasets.columns import KINDS, Columns
from producers.datasets.descriptions import descriptions_beside, descriptions_in
from producers.datasets.tables import read_table
from stream_app.errors import UserError

_TABLES = ("ratings.dat", "ratings.csv", "u.data")  # of a MovieLens archive
_DESCRIPTIONS = ("movies.dat", "movies.csv", "u.item")


def read(path: Path) -> Columns:
    """Return the columns of a file of ratings; raises `UserError` for anything else."""
    if not path.exists():
        raise UserError(f"{path}: there is no such file; ratings come as {KINDS}")
    if path.is_dir():
        raise UserError(f"{path}: is a directory; give the file of ratings in it")
    try:
        if path.suffix == ".npz":
            return read_npz(path)
        if path.suffix == ".zip":
            return _read_zip(path)
        if path.suffix not in (".dat", ".data", ".tsv", ".csv"):
            raise UserError(f"{path}: not a file of ratings; they come as {KINDS}")
        with path.open(encoding="utf-8-sig", errors="strict", newline="") as lines:
            return read_table(lines, path.suffix, str(path), descriptions_beside(path))
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8; ratings come as {KINDS}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _read_zip(path: Path) -> Columns:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {Path(member).name: member for member in archive.namelist()}
            found = next((name for name in _TABLES if name in names), None)
            if found is None:
                raise UserError(f"{path}: holds none of {', '.join(_TABLES)}")
            described = next(
                (
                    descriptions_in(name, archive.read(names[name]))
                    for name in _DESCRIPTIONS
                    if name in names
                ),
                None,
            )
            with archive.open(names[found]) as binary:
                text = io.TextIOWrapper(binary, "utf-8-sig", newline="")
                return read_table(text, Path(found).suffix, f"{path}/{found}", described)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        raise UserError(f"{path}: is not a whole zip archive; fetch it again") from None
