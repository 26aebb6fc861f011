"""The thread that keeps the newest public table, from a cache as without a broker."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from producers.edge.lists.item_index import NOWHERE, ItemIndex
from producers.edge.lists.newest_tables import PublicTables, Repeating, Shelf
from producers.ranking import LocalRecommender
from producers.ranking.published import CachedTable, PublicTable, Source, TableCache
from stream_app import wire
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.item_side import ItemSide
from tests.fixtures.item_sides import item_side
from tests.fixtures.waiting import until
from tests.producers.edge.lists.site import numbered_side

CONNECTION = Connection("localhost:1")


def cached(folder: Path, side: ItemSide) -> None:
    cache = TableCache.for_deployment(folder, CONNECTION.bootstrap, "p", "item-links")
    assert cache.write(CachedTable(time.time(), b"d", encode_side(side)))


def test_the_newest_table_is_kept_and_what_cannot_be_read_leaves_it(tmp_path: Path, rng) -> None:
    def source() -> Source:
        return Source.of_deployment(CONNECTION, "p", tmp_path, offline=True)

    tables = PublicTables(source, seconds=0.01)
    assert tables.ranker is None
    assert tables.problem == "no public table was read yet"
    with pytest.raises(UserError):
        tables.step()
    tables.start()
    until(lambda: "no item side in the cache" in tables.problem, "the reason is shown")
    cached(tmp_path, numbered_side(rng, 20, version=3))
    until(lambda: tables.ranker is not None, "the first table")
    assert tables.ranker.table.side.version == 3
    cached(tmp_path, numbered_side(rng, 20, version=4))
    until(lambda: tables.ranker.table.side.version == 4, "the newer table")
    for path in tmp_path.glob("item-links/*"):
        path.write_bytes(b"damaged")
    until(lambda: "no item side in the cache" in tables.problem, "the table is gone")
    assert tables.ranker.table.side.version == 4
    tables.stop()


def test_a_step_that_fails_is_repeated_and_a_defect_ends_the_thread() -> None:
    seen = list[str]()

    class Failing(Repeating):
        def step(self) -> None:
            seen.append(self.problem)
            raise (UserError("again") if len(seen) < 3 else ZeroDivisionError())

    thread = Failing("test", 0.0)
    with pytest.raises(ZeroDivisionError):
        thread._thread.run()
    assert [*seen, thread.problem] == ["", "again", "again", "ZeroDivisionError"]


def test_items_are_named_by_the_edge_the_public_catalogue_or_their_number(rng) -> None:
    side = item_side(rng, 4, k=2)
    texts = [wire.key(text) for text in ("ours", "key:theirs", "nobody's")]
    side.keys[:] = [*texts, 12]
    entries = {texts[1]: wire.CatalogueEntry("key:theirs", "Theirs", withdrawn=True)}
    local, index = LocalRecommender(PublicTable(side, entries)), ItemIndex()
    ours = index.place("ours")
    shelf = Shelf.public(local, index)
    assert shelf.places.tolist() == [ours, index.find("key:theirs"), NOWHERE, index.find("12")]
    assert shelf.withdrawn.tolist() == [index.find("key:theirs")]
    assert shelf.titles == {index.find("key:theirs"): "Theirs"}
    assert shelf.near(NOWHERE, "nobody's") is None
    index.place("nobody's")
    named = Shelf.public(local, index)
    assert named.places[2] == index.find("nobody's")


def test_likeness_is_the_cosine_of_factors_else_the_links(rng) -> None:
    by_factors = Shelf.public(
        LocalRecommender(PublicTable(numbered_side(rng, 9, r=3))), ItemIndex()
    )
    found = by_factors.likeness(by_factors.places[:4])
    vectors = by_factors.ranker.side.factors[:4]
    for a in range(4):
        for b in range(4):
            both = np.linalg.norm(vectors[a]) * np.linalg.norm(vectors[b])
            assert found[a, b] == pytest.approx(vectors[a] @ vectors[b] / both, abs=1e-5)
    linked = Shelf.public(LocalRecommender(PublicTable(numbered_side(rng, 9))), ItemIndex())
    side, found = linked.ranker.side, linked.likeness(linked.places)
    dense = np.zeros((9, 9))
    for row in range(9):
        dense[row, side.link_targets[row]] = side.link_weights[row]
    both = np.maximum(dense, dense.T)
    assert found == pytest.approx(both / both.max())
    bare = Shelf.public(LocalRecommender(PublicTable(item_side(rng, 4))), ItemIndex())
    assert bare.likeness(bare.places) is None
