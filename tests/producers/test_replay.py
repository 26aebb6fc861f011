"""A data set as a population of devices: each rating once, in time order, every row counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.datasets.load import Dataset
from producers.device.item_means import ItemTable
from producers.device.requests import ReportSettings
from producers.fleet.population import populate
from producers.fleet.replay import Pace, ReplayProgress
from producers.journal import Journal
from producers.pseudonyms import pseudonym
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.privacy.ratings.partition_choice import PartitionSelector
from tests.producers.conftest import TOPIC, dataset
from tests.producers.journals import at
from tests.producers.journals import rated as enrolled_rate
from tests.producers.replays import CELL, PARTITION, RR, Topic, last, run


def test_every_rating_is_sent_once_by_its_users_device(small: Dataset, journal: Journal) -> None:
    topic = Topic()
    end = last(run(small, journal, topic))
    assert (end.rows, end.total, end.published, end.refused) == (500, 500, 500, 0)
    expected = [
        (pseudonym(journal.key, user), item, level)
        for user, item, level in zip(
            small.users.tolist(), small.items.tolist(), small.levels.tolist(), strict=True
        )
    ]
    assert sorted(topic.cells()) == sorted(expected)
    assert end.messages == len(topic.events)


def test_ratings_leave_in_time_order_chunk_by_chunk(small: Dataset, journal: Journal) -> None:
    topic = Topic()
    ordered, sent = small.in_time_order(), 0
    for step in run(small, journal, topic, chunk=50):
        cells = topic.cells()[sent:]
        rows = slice(sent, step.rows)
        assert sorted(item for _, item, _ in cells) == sorted(ordered.items[rows].tolist())
        # One message per user and chunk, in the order of the items' keys.
        users = ordered.users[rows].tolist()
        for user in set(users):
            device_id = pseudonym(journal.key, user)
            own = [i for u, i in zip(users, ordered.items[rows].tolist(), strict=True) if u == user]
            assert [item for device, item, _ in cells if device == device_id] == sorted(own)
        sent = step.rows
    per_chunk = Counter((event.device, event.seq) for event in topic.events)
    assert max(per_chunk.values()) == 1


def test_the_seqs_of_a_device_rise_by_one_in_sending_order(
    small: Dataset, journal: Journal
) -> None:
    topic = Topic()
    last(run(small, journal, topic, ratings_per_message=3))
    seqs: dict[bytes, list[int]] = {}
    for event in topic.events:
        assert len(event.items) <= 3
        seqs.setdefault(event.device, []).append(event.seq)
    assert len(seqs) == 20
    for numbers in seqs.values():
        assert numbers == list(range(1, len(numbers) + 1))


def test_a_chunk_is_drawn_in_one_call_with_one_word_per_rating(
    small: Dataset, tmp_path: Path
) -> None:
    calls: list[int] = []

    class Counting:
        unsafe = False

        def words(self, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
            calls.append(count)
            return SystemSource().words(count)

    with at(tmp_path / "counted", source=Counting()) as journal:
        last(run(small, journal, Topic(), mechanism=RR, chunk=200))
    assert calls == [200, 200, 100]


def test_the_first_rating_in_time_of_a_cell_counts_and_the_others_are_refused(
    journal: Journal,
) -> None:
    data = dataset([1, 1, 2, 1, 1], [7, 7, 7, 8, 7], [5, 4, 3, 2, 1], [50, 10, 30, 40, 20])
    topic = Topic()
    end = last(run(data, journal, topic, chunk=2))
    assert (end.rows, end.published, end.refused) == (5, 3, 2)
    ann, bob = pseudonym(journal.key, 1), pseudonym(journal.key, 2)
    assert sorted(topic.cells()) == sorted([(ann, 7, 3), (bob, 7, 2), (ann, 8, 1)])


def test_rows_that_the_loader_refused_are_counted(small: Dataset, journal: Journal) -> None:
    end = last(run(replace(small, refused=11), journal, Topic()))
    assert (end.rows, end.total, end.published, end.refused) == (511, 511, 500, 11)
    begun = last(run(replace(small, refused=11), journal, Topic(), republish=True, limit=200))
    ended = last(run(replace(small, refused=11), journal, Topic()))
    assert (begun.rows, begun.refused, ended.rows, ended.refused) == (211, 11, 300, 0)


def test_numeric_text_is_the_same_item_as_the_number(journal: Journal) -> None:
    topic = Topic()
    end = last(run(dataset(["ann"] * 3, ["7", "007", "x"], [5, 4, 3]), journal, topic))
    assert (end.published, end.refused, end.before) == (3, 0, 0)
    cells = [(7, 4), (wire.key("007"), 3), (wire.key("x"), 2)]
    assert sorted(cell[1:] for cell in topic.cells()) == sorted(cells)


def test_items_and_users_may_be_text(journal: Journal) -> None:
    data = dataset(["ann", "bob"], ["tt0111161", "ü"], [5, 1])
    topic = Topic()
    last(run(data, journal, topic))
    assert sorted(topic.cells()) == sorted(
        [
            (pseudonym(journal.key, "ann"), wire.key("tt0111161"), 4),
            (pseudonym(journal.key, "bob"), wire.key("ü"), 0),
        ]
    )


def test_speed_is_kept_by_waiting_between_chunks(small: Dataset, journal: Journal) -> None:
    now, waits = [100.0], []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    def took(progress: ReplayProgress) -> None:
        now[0] += 0.03 if progress.rows < 250 else 0.3  # the second half is slower than asked for

    for step in run(small, journal, Topic(), pace=Pace(500, lambda: now[0], pause)):
        took(step)
        rows = step.rows
    # Chunks of 50 every 0.1 s; no wait in the slow half or at the end.
    assert len(waits) == 4
    assert waits == pytest.approx([0.07] * 4)
    assert rows == 500


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"limit": 0}, "limit"), ({"chunk": 0}, "chunk"), ({"ratings_per_message": 0}, "per message"),
     ({"ratings_per_message": 4097}, "per message"),
     ({"mechanism": registry.parse("rr:10:2")}, "10 levels"),
     ({"mechanism": CELL}, "--emission epoch"), ({"epoch": -1}, "epoch -1")],
    ids=str,
)  # fmt: skip
def test_invalid_replay_options_are_refused_and_leave_the_journal_unchanged(
    wrong: dict[str, Any], message: str, small: Dataset, journal: Journal
) -> None:
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match=message):
        list(run(small, journal, Topic(), **wrong))
    assert journal.path.read_bytes() == before


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), 1e-300, 1e308])
def test_an_invalid_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        Pace(speed)


def test_a_seeded_replay_is_stamped_as_a_test(small: Dataset, tmp_path: Path) -> None:
    topic = Topic()
    with at(tmp_path / "j", source=SeededSource(1), allow_tests=True) as journal:
        last(run(small, journal, topic, mechanism=RR))
    assert all(event.test for event in topic.events)


def test_masks_come_from_the_public_table(small: Dataset, journal: Journal) -> None:
    items = np.arange(60, dtype=np.uint64)
    table = ItemTable(items, np.linspace(1.2, 4.8, 60))
    topic = Topic()
    last(run(small, journal, topic, mechanism=PARTITION, table=table))
    choice = PartitionSelector(5, PARTITION.epsilon)
    for event in topic.events:
        np.testing.assert_array_equal(event.masks, choice.masks(table.means(event.items)))


def test_a_bad_id_names_the_data_set_and_not_the_rating(journal: Journal) -> None:
    with pytest.raises(UserError, match="small: item -7"):
        populate(dataset([1, 2], [3, -7], [1, 2]), journal.key)
    with pytest.raises(UserError, match="small: user"):
        populate(dataset(["ann", ""], [3, 7], [1, 2]), journal.key)


def test_nothing_raw_is_in_the_repr_of_a_population(small: Dataset, journal: Journal) -> None:
    assert "array" not in repr(populate(small, journal.key))
    assert "array" not in repr(small)


def test_every_refused_row_has_a_reason(journal: Journal) -> None:
    data = replace(dataset([1, 1, 1, 2], [5, 5, 6, 5], [1, 2, 3, 4]), refused=3)
    enrolled_rate(
        1, 6, 3, ReportSettings(TOPIC, RR), scale=Scale(1, 5, 1), journal=journal, epoch=20_000
    )
    end = last(run(data, journal, Topic(), mechanism=RR))
    assert (end.rows, end.published, end.refused) == (7, 2, 5)
    assert (end.unreadable, end.repeated, end.before, end.over) == (3, 1, 1, 0)
