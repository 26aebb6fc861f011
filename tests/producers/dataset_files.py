"""The same four ratings in every file format."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

USERS, ITEMS, RATINGS, TIMES = [3, 1, 3, 2], [10, 20, 30, 10], [5, 1, 4, 3], [400, 100, 300, 300]


ROWS = list(zip(USERS, ITEMS, RATINGS, TIMES, strict=True))


MOVIES_DAT = "10::Café (1995)::Drama\n20::Two: The Return (1996)::Comedy|Drama\n30::Three::Drama\n"


TITLES = {10: "Café (1995)", 20: "Two: The Return (1996)", 30: "Three"}


def dat(path: Path) -> Path:
    file = path / "ratings.dat"
    file.write_text("".join("::".join(map(str, row)) + "\n" for row in ROWS))
    (path / "movies.dat").write_text(MOVIES_DAT, "latin-1")
    return file


def udata(path: Path) -> Path:
    file = path / "u.data"
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in ROWS))
    (path / "u.item").write_text(
        "".join(f"{i}|{t}|01-Jan-1995\n" for i, t in TITLES.items()), "latin-1"
    )
    return file


def movielens_csv(path: Path) -> Path:
    file = path / "ratings.csv"
    lines = "".join(",".join(map(str, row)) + "\r\n" for row in ROWS)
    file.write_text(f"userId,movieId,rating,timestamp\r\n{lines}")
    (path / "movies.csv").write_text(
        "movieId,title,genres\n" + "".join(f'{i},"{t}",Drama\n' for i, t in TITLES.items())
    )
    return file


def plain_csv(path: Path) -> Path:
    file = path / "mine.csv"
    lines = "".join(f"{time},{rating}.0,x,{item},{user}\n" for user, item, rating, time in ROWS)
    file.write_text(f"\ufefftimestamp, Rating,note,item,user\n{lines}\n")
    return file


def npz(path: Path) -> Path:
    file = path / "mine.npz"
    np.savez(file, user=USERS, item=ITEMS, rating=np.array(RATINGS, np.float32), timestamp=TIMES)
    np.savez(path / "movies.npz", item=list(TITLES), title=list(TITLES.values()))
    return file


def archive(path: Path) -> Path:
    dat(path)
    file = path / "ml-1m.zip"
    with zipfile.ZipFile(file, "w") as target:
        target.write(path / "ratings.dat", "ml-1m/ratings.dat")
        target.write(path / "movies.dat", "ml-1m/movies.dat")
    return file
