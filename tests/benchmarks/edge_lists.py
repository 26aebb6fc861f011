"""Lists of an edge beside those of devices on the same histories, and their time, MovieLens-1M.

Up to 2,000 users on three splits, `rr:5:2` in packed messages, as in `ranking.py`: the item side
of the worker's state is the public table, and the clean histories are feedback in an edge's store.
nDCG@10 of what is liked next. `own`: the edge's own counts of the tested users' likes, privacy off
inside it. Times are of the calling thread's CPU, with reasons, the history read from
SQLite; p99 is of the last split.

`dealt`: ratings dealt to a few customers, and a digest of every list of theirs with its scores and
reasons, by which two versions are compared:

    python -c "from tests.benchmarks.edge_lists import dealt; print(*dealt(), sep='\\n')"
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from murmurec.ranking import RankingEvaluation, RankingOptions, device_lists, own_histories
from murmurec.ratings import columns_of
from producers.datasets.load import Dataset, load
from producers.edge.catalogue.site_catalogue import Catalogue
from producers.edge.lists.maker import ListMaker
from producers.edge.lists.newest_tables import PublicTables
from producers.edge.lists.wishes import Wish
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts, feedback
from producers.ranking import LocalRecommender
from producers.ranking.published import PublicTable, Source
from stream_app.errors import UserError
from stream_app.evaluation import ranking
from stream_app.evaluation.ranking import RankingTask
from stream_app.ranking.compact_side import decode_side, encode_side
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import skipped
from tests.fixtures.rating_files import rating_files

K, SPLITS, TIMED = 10, ("global", "visit", "user-time"), 2_000


def measure(name: str = "ml-1m", splits: tuple[str, ...] = SPLITS) -> list[Figure]:
    """Return nDCG of edge and device by split, and milliseconds of a list."""
    path = rating_files().get(name)
    if path is None:
        return skipped("lists of an edge on real ratings")
    data, figures = load(path), list[Figure]()
    for split in splits:
        with tempfile.TemporaryDirectory() as folder:
            figures += _of_split(name, data, split, Path(folder))
    return figures


def _of_split(name: str, data: Dataset, split: str, folder: Path) -> list[Figure]:
    options = RankingOptions(messages=("packed",))
    run = RankingEvaluation(
        columns_of(data, None), "rr:5:2", k=K, split=split, model="sketch", seed=0, options=options
    )
    for _ in run.learning("packed"):
        pass
    task, served = run.task, run.server.recommender.served
    assert served is not None
    assert data.timestamps is not None
    stars = 1 + 4 * data.levels[task.rows] / (data.scale.levels - 1)
    times = data.timestamps[task.rows]
    device = device_lists(run.server, task, own_histories(task, stars, times), K)
    tables = PublicTables(_unread)
    side = decode_side(encode_side(served.side))
    tables.ranker = LocalRecommender(PublicTable(side))
    with Database(f"sqlite:///{folder}/edge.db") as database:
        _fill(database, task, stars, times)
        maker = ListMaker(database, Catalogue(database), tables, SiteTerms())
        maker.models.step()
        lists = {
            model: _lists(maker, task, Wish(K, model=model, visit="next"))
            for model in ("local", "own", "popular")
        }
        speeds = _milliseconds(maker, len(task.tested), Wish(K, visit="next"))
    title = f"{name}, {split}"
    gains = {model: ranking.user_gains(task, found) for model, found in lists.items()}
    of_device = ranking.user_gains(task, device)
    same = float((lists["local"] == device).all(axis=1).mean())
    return [
        Figure(f"{title}: device", ranking.Mean.over(of_device).value, "nDCG"),
        *(
            Figure(f"{title}: edge, {model}", ranking.Mean.over(found).value, "nDCG")
            for model, found in gains.items()
        ),
        Figure(f"{title}: lists of the edge that are the device's", same, "", ">= 1"),
        *(
            Figure(f"{title}: a list, {point}", value, "ms", "<= 5" if point == "p99" else "")
            for point, value in speeds.items()
        ),
    ]


def dealt(name: str = "ml-100k", customers: int = 200) -> list[str]:
    """Return nDCG of an edge, and a digest of its lists, for ratings whose users are dealt to so
    many customers, user n to customer n modulo their number; of several ratings of an item the
    newest counts, and of each customer the last fifth is what is liked next."""
    with np.load(rating_files()[name]) as file:
        order = np.argsort(file["timestamp"], kind="stable")
        user, item, stars, at = (file[n][order] for n in ("user", "item", "rating", "timestamp"))
    own: dict[int, dict[int, tuple[float, int]]] = {n: {} for n in range(customers)}
    for who, what, how, when in zip(user % customers, item, stars, at, strict=True):
        own[int(who)].pop(int(what), None)
        own[int(who)][int(what)] = float(how), int(when)
    learned = {n: list(done)[: 4 * len(done) // 5] for n, done in own.items()}
    people = [
        {"number": n + 1, "user": f"user-{n}", "device": n.to_bytes(16, "big"), "book": 0,
         "created": 0}
        for n in own
    ]  # fmt: skip
    rows = sorted((own[n][what][1], n, what) for n in own for what in learned[n])
    events = [
        {"account": n + 1, "item": str(what), "type": "rating", "stars": own[n][what][0],
         "at": 1000 * when, "token": row.to_bytes(16, "big")}
        for row, (when, n, what) in enumerate(rows)
    ]  # fmt: skip
    lines, digest = list[str](), hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder, Database(f"sqlite:///{folder}/e.db") as database:
        with database.writing() as connection:
            connection.execute(accounts.insert(), people)
            connection.execute(feedback.insert(), events)
        newest = float(at.max())
        tables = PublicTables(_unread)
        maker = ListMaker(
            database, Catalogue(database), tables, SiteTerms(), random=np.random.default_rng(1),
            now=lambda: newest,
        )  # fmt: skip
        maker.models.step()
        for model in ("own", "popular"):
            gains = []
            for n, done in own.items():
                found = maker.for_user(f"user-{n}", Wish(K, model=model, visit="next"))
                digest.update(repr(found).encode())
                later = {str(what) for what in done if done[what][0] >= 4} - set(
                    map(str, learned[n])
                )
                best = sum(1 / np.log2(place + 2) for place in range(min(K, len(later))))
                got = sum(
                    1 / np.log2(place + 2)
                    for place, each in enumerate(found.items)
                    if each.item in later
                )
                gains += [got / best] if best else []
            lines.append(f"{model}: nDCG@{K} {np.mean(gains):.10f} of {len(gains)} customers")
    return [*lines, f"lists: sha256 {digest.hexdigest()}"]


def _unread() -> Source:
    raise UserError("the table of this benchmark is given")


def _fill(
    database: Database, task: RankingTask, stars: NDArray[np.float64], times: NDArray[np.int64]
) -> None:
    """Enter the tested users, by number, and their learned ratings."""
    people = [
        {"number": n + 1, "user": f"user-{n}", "device": n.to_bytes(16, "big"), "book": 0,
         "created": 0}
        for n in range(len(task.tested))
    ]  # fmt: skip
    items = task.items[task.learned.items].tolist()
    rows = [
        {"account": n + 1, "item": str(items[row]), "type": "rating", "stars": float(stars[row]),
         "at": 1000 * int(times[row]), "token": int(row).to_bytes(16, "big")}
        for n, own in enumerate(task.learned_rows())
        for row in own
    ]  # fmt: skip
    with database.writing() as connection:
        connection.execute(accounts.insert(), people)
        connection.execute(feedback.insert(), rows)


def _lists(maker: ListMaker, task: RankingTask, wish: Wish) -> NDArray[np.intp]:
    found = np.full((len(task.tested), K), -1, np.intp)
    for place in range(len(task.tested)):
        items = maker.for_user(f"user-{place}", wish).items
        keys = np.array([int(each.item) for each in items], np.uint64)
        found[place, : len(keys)] = np.searchsorted(task.items, keys)
    return found


def _milliseconds(maker: ListMaker, users: int, wish: Wish) -> dict[str, float]:
    times = list[float]()
    for n in range(TIMED):
        start = time.thread_time()
        maker.for_user(f"user-{n % users}", wish)
        times.append(time.thread_time() - start)
    return {
        "p50": 1000 * float(np.quantile(times, 0.5)),
        "p99": 1000 * float(np.quantile(times, 0.99)),
    }
