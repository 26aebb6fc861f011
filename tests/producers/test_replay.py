"""A data set as a population: in order, once, counted; a crash loses nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.datasets.load import Dataset
from producers.device.item_table import ItemTable
from producers.device.rating import rate
from producers.device.requests import ReportSettings
from producers.fleet.population import populate
from producers.fleet.replay import Pace, ReplayOptions, ReplayProgress, replay
from producers.journal import Journal, Limits, Message, OutboxFull, read_journal
from producers.pseudonyms import pseudonym
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.privacy.ratings.partition_choice import PartitionSelector
from tests.producers.conftest import TOPIC, dataset

OPEN, RR = registry.parse("none:5:inf"), registry.parse("rr:5:2")
PARTITION, CELL = registry.parse("partition:5:2"), registry.parse("cell:5:2")
INTAKE = wire.Intake(
    {"none:5:inf": 5, "rr:5:2": 5, "partition:5:2": 5}, accept_tests=True,
    masked={"partition:5:2": 5},
)  # fmt: skip


class CrashError(Exception):
    pass


class Topic:
    """Everything that was sent, decoded as a server would; may crash at the n-th message."""

    def __init__(self, journal: Journal | None = None, crash_at: int | None = None) -> None:
        self.events: list[wire.Event] = []
        self.values: list[bytes] = []
        self.journal = journal
        self.crash_at = crash_at

    def send(self, message: Message) -> None:
        if self.crash_at is not None and len(self.events) >= self.crash_at:
            raise CrashError
        key, value = message.key, message.value
        where = int(wire.partitions_of(np.frombuffer(key, np.uint8).reshape(1, 32), 4)[0])
        self.events.append(wire.decode(key, value, where, INTAKE))
        self.values.append(value)
        if self.journal is not None:
            self.journal.acknowledge(message.number)

    def cells(self) -> list[tuple[bytes, int, int]]:
        return [
            (event.device, int(item), int(report))
            for event in self.events
            for item, report in zip(event.items, event.reports, strict=True)
        ]


def run(data: Dataset, journal: Journal, topic: Topic, **changed: Any) -> Iterator[ReplayProgress]:
    line = ReportSettings(TOPIC, changed.pop("mechanism", OPEN), changed.pop("table", ItemTable()))
    epoch, make_room = changed.pop("epoch", 20_000), changed.pop("make_room", None)
    options = ReplayOptions(**{"chunk": 64} | changed)
    return replay(
        populate(data, journal.key), line, journal=journal, send=topic.send, epoch=epoch,
        options=options, make_room=make_room,
    )  # fmt: skip


def last(steps: Iterator[ReplayProgress]) -> ReplayProgress:
    return list(steps)[-1]


def test_every_rating_leaves_its_users_device_once(small: Dataset, journal: Journal) -> None:
    topic = Topic()
    end = last(run(small, journal, topic))
    assert (end.rows, end.published, end.refused, end.ended) == (500, 500, 0, True)
    expected = [
        (pseudonym(journal.key, user), item, level)
        for user, item, level in zip(
            small.users.tolist(), small.items.tolist(), small.levels.tolist(), strict=True
        )
    ]
    assert sorted(topic.cells()) == sorted(expected)
    assert end.messages == len(topic.events)
    assert end.most == max(Counter(small.users.tolist()).values())


def test_ratings_leave_in_time_order_chunk_by_chunk(small: Dataset, journal: Journal) -> None:
    topic = Topic()
    ordered, sent = small.in_time_order(), 0
    for step in run(small, journal, topic, chunk=50):
        cells = topic.cells()[sent:]
        rows = slice(sent, step.rows)
        assert sorted(item for _, item, _ in cells) == sorted(ordered.items[rows].tolist())
        # One message per user and chunk, and a user's own ratings keep their order.
        users = ordered.users[rows].tolist()
        for user in set(users):
            who = pseudonym(journal.key, user)
            mine = [
                i for u, i in zip(users, ordered.items[rows].tolist(), strict=True) if u == user
            ]
            assert [item for device, item, _ in cells if device == who] == mine
        sent = step.rows
    per_chunk = Counter((event.device, event.seq) for event in topic.events)
    assert max(per_chunk.values()) == 1


def test_the_numbers_of_a_device_rise_one_by_one_in_the_order_of_sending(
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

    with Journal.open(tmp_path / "counted", source=Counting()) as journal:
        last(run(small, journal, Topic(), mechanism=RR, chunk=200))
    assert calls == [200, 200, 100]


def test_the_first_rating_in_time_of_a_cell_counts_and_the_others_are_refused(
    journal: Journal,
) -> None:
    data = dataset([1, 1, 2, 1, 1], [7, 7, 7, 8, 7], [5, 4, 3, 2, 1], [50, 10, 30, 40, 20])
    topic = Topic()
    end = last(run(data, journal, topic, chunk=2))
    assert (end.rows, end.published, end.refused, end.most) == (5, 3, 2, 2)
    one, two = pseudonym(journal.key, 1), pseudonym(journal.key, 2)
    assert sorted(topic.cells()) == sorted([(one, 7, 3), (two, 7, 2), (one, 8, 1)])


def test_rows_that_the_loader_refused_are_counted(small: Dataset, journal: Journal) -> None:
    end = last(run(replace(small, refused=11), journal, Topic()))
    assert (end.rows, end.total, end.published, end.refused) == (511, 511, 500, 11)
    begun = last(run(replace(small, refused=11), journal, Topic(), republish=True, limit=200))
    ended = last(run(replace(small, refused=11), journal, Topic()))
    assert (begun.rows, begun.refused, ended.rows, ended.refused) == (211, 11, 300, 0)


cells = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 6), st.integers(1, 5)), min_size=1, max_size=60
)


@settings(max_examples=30, deadline=None)
@given(
    rows=cells,
    chunk=st.integers(1, 70),
    most=st.integers(1, 5),
    crashes=st.lists(st.integers(0, 30), max_size=4),
    unreadable=st.integers(0, 5),
)
def test_a_crash_loses_nothing_and_no_number_and_no_rating_is_used_twice(
    rows: list[tuple[int, int, int]],
    chunk: int,
    most: int,
    crashes: list[int],
    unreadable: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Runs that crash in `send`, one after the other, and one that does not."""
    users, items, ratings = (list(column) for column in zip(*rows, strict=True))
    data = replace(dataset(users, items, ratings), refused=unreadable)
    path: Path = tmp_path_factory.mktemp("replay") / "journal"
    sent: dict[tuple[bytes, int], bytes] = {}
    events: dict[tuple[bytes, int], wire.Event] = {}
    for crash_at in [*crashes, None]:
        with Journal.open(path) as journal:
            topic = Topic(journal, crash_at)
            try:
                for message in journal.pending():
                    topic.send(message)
                end = last(run(data, journal, topic, chunk=chunk, ratings_per_message=most))
                assert end.published + end.refused == end.rows == end.total
                assert end.skipped + end.rows - (0 if end.skipped else unreadable) == len(rows)
            except CrashError:
                pass
            except (
                UserError
            ):  # the one before it recorded the last chunk, whether it crashed or not
                pass
        for event, value in zip(topic.events, topic.values, strict=True):
            assert sent.setdefault((event.device, event.seq), value) == value
            events[event.device, event.seq] = event
    assert read_journal(path).pending == 0
    drawn = [(event.device, int(item)) for event in events.values() for item in event.items]
    assert len(drawn) == len(set(drawn)) == len({(user, item) for user, item, _ in rows})
    for device in {who for who, _ in events}:
        numbers = sorted(seq for who, seq in events if who == device)
        assert numbers == list(range(1, len(numbers) + 1))


def test_an_interrupted_replay_goes_on_after_the_last_recorded_chunk(
    small: Dataset, journal: Journal
) -> None:
    topic = Topic()
    steps = run(small, journal, topic, chunk=100)
    next(steps), next(steps)
    steps.close()  # type: ignore[attr-defined]
    end = last(run(small, journal, topic, chunk=100))
    assert (end.skipped, end.rows, end.published) == (200, 300, 300)
    assert len(topic.cells()) == len({cell[:2] for cell in topic.cells()}) == 500
    with pytest.raises(UserError, match="published already"):
        run(small, journal, topic)


def test_a_limit_ends_a_run_and_the_next_one_goes_on(small: Dataset, journal: Journal) -> None:
    topic = Topic()
    ends = [last(run(small, journal, topic, limit=130)) for _ in range(4)]
    assert [end.rows for end in ends] == [130, 130, 130, 110]
    assert all(end.ended and end.total == end.rows for end in ends)
    assert len({cell[:2] for cell in topic.cells()}) == 500


def test_again_publishes_everything_a_second_time_under_new_numbers(
    small: Dataset, journal: Journal
) -> None:
    topic = Topic()
    last(run(small, journal, topic))
    last(run(small, journal, topic, republish=True))
    numbers = [(event.device, event.seq) for event in topic.events]
    assert len(topic.cells()) == 1000
    assert len(set(numbers)) == len(numbers)


def extended(data: Dataset, *rows: tuple[int | str, int | str, float]) -> Dataset:
    """Return a data set with some more rows, before all others in time."""
    users, items, ratings = zip(*rows, strict=True)
    assert data.timestamps is not None
    return dataset(
        [*users, *data.users.tolist()],
        [*items, *data.items.tolist()],
        [*ratings, *data.ratings.tolist()],
        [-1] * len(rows) + data.timestamps.tolist(),
    )


def test_a_file_that_has_grown_publishes_its_new_rows_only(
    small: Dataset, journal: Journal
) -> None:
    topic = Topic()
    last(run(small, journal, topic))
    grown = extended(small, (77, 5, 4.0), (1, 1000, 2.0), (77, 5, 3.0))
    end = last(run(grown, journal, topic))
    assert (end.rows, end.published, end.refused, end.before, end.most) == (503, 2, 501, 500, 1)
    assert [cell[1:] for cell in topic.cells()[500:]] == [(1000, 1), (5, 3)]
    assert len({cell[:2] for cell in topic.cells()}) == len(topic.cells()) == 502
    again = last(run(grown, journal, topic, republish=True))
    assert (again.published, again.refused, again.before) == (502, 1, 0)


def test_another_reading_of_the_same_file_publishes_nothing_twice(
    small: Dataset, journal: Journal
) -> None:
    topic = Topic()
    last(run(small, journal, topic))
    rescaled = replace(small, ratings=small.ratings / 2)  # another digest, the same cells
    assert last(run(rescaled, journal, topic)).before == 500
    # One text makes a column text; the numbers in it are the same users and items as before.
    end = last(run(extended(small, ("ann", "tt01", 4.0)), journal, topic))
    assert (end.published, end.before) == (1, 500)
    assert len(topic.cells()) == 501


def test_a_text_that_is_a_number_is_the_number(journal: Journal) -> None:
    topic = Topic()
    end = last(run(dataset(["ann"] * 3, ["7", "007", "x"], [5, 4, 3]), journal, topic))
    assert (end.published, end.refused, end.before) == (2, 1, 0)
    assert [cell[1:] for cell in topic.cells()] == [(7, 4), (wire.key("x"), 2)]


def test_a_rating_that_was_published_alone_is_not_replayed_and_the_other_way_round(
    journal: Journal,
) -> None:
    given: dict[str, Any] = {"scale": Scale(1, 5, 1), "journal": journal, "epoch": 20_000}
    line = ReportSettings(TOPIC, OPEN)
    rate("1", 7, 5, line, **given)
    topic = Topic()
    end = last(run(dataset([1, 1], [7, 8], [5, 4]), journal, topic))
    assert (end.published, end.refused, end.before) == (1, 1, 1)
    assert [event.seq for event in topic.events] == [2]
    with pytest.raises(UserError, match="published already"):
        rate("1", 8, 4, line, **given)


def test_a_replay_that_publishes_again_goes_on_with_it_after_an_interruption(
    small: Dataset, journal: Journal
) -> None:
    topic = Topic()
    last(run(small, journal, topic))
    last(run(small, journal, topic, republish=True, limit=200))
    end = last(run(small, journal, topic))
    assert (end.skipped, end.published, end.before) == (200, 300, 0)


def test_another_order_of_the_same_ratings_is_another_data_set(
    small: Dataset, journal: Journal
) -> None:
    turned = replace(small, timestamps=-small.timestamps)  # type: ignore[operator]
    assert populate(turned, journal.key).digest != populate(small, journal.key).digest
    assert (
        populate(small.in_time_order(), journal.key).digest == populate(small, journal.key).digest
    )


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
    assert (
        len(waits) == 4
    )  # chunks of 50 every 0.1 s; none after the slow half began, none at the end
    assert waits == pytest.approx([0.07] * 4)
    assert rows == 500


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"limit": 0}, "limit"), ({"chunk": 0}, "chunk"), ({"ratings_per_message": 0}, "per message"),
     ({"ratings_per_message": 4097}, "per message"),
     ({"mechanism": registry.parse("rr:10:2")}, "10 levels"),
     ({"mechanism": CELL}, "--emission epoch"), ({"epoch": -1}, "epoch -1")],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_done_is_refused_with_the_journal_unchanged(
    wrong: dict[str, Any], said: str, small: Dataset, journal: Journal
) -> None:
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match=said):
        list(run(small, journal, Topic(), **wrong))
    assert journal.path.read_bytes() == before


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), 1e-300, 1e308])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        Pace(speed)


def test_a_seeded_replay_is_stamped_as_a_test(small: Dataset, tmp_path: Path) -> None:
    topic = Topic()
    with Journal.open(tmp_path / "j", source=SeededSource(1), allow_tests=True) as journal:
        last(run(small, journal, topic, mechanism=RR))
    assert all(event.test for event in topic.events)


def test_a_budget_publishes_what_fits_and_counts_the_rest(small: Dataset, tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j", limits=Limits(Fraction(25))) as journal:
        topic = Topic(journal)
        end = last(run(small, journal, topic, mechanism=RR, chunk=100))
        sizes = Counter(small.users.tolist())
        fits = sum(min(size, 12) for size in sizes.values())
        assert (end.published, end.refused, end.over) == (fits, 500 - fits, 500 - fits)
        assert end.most == 12
        counts = Counter(device for device, _, _ in topic.cells())
        assert set(counts.values()) <= set(range(1, 13))
        # In time order: the first ratings of each user are those that fit.
        ordered = small.in_time_order()
        user = ordered.users.tolist()[0]
        mine = [i for u, i in zip(ordered.users.tolist(), ordered.items.tolist(), strict=True)
                if u == user]  # fmt: skip
        who = pseudonym(journal.key, user)
        assert [item for device, item, _ in topic.cells() if device == who] == mine[:12]


def test_masks_come_from_the_public_table(small: Dataset, journal: Journal) -> None:
    items = np.arange(60, dtype=np.uint64)
    table = ItemTable(items, np.linspace(1.2, 4.8, 60))
    topic = Topic()
    last(run(small, journal, topic, mechanism=PARTITION, table=table))
    choice = PartitionSelector(5, PARTITION.epsilon)
    for event in topic.events:
        np.testing.assert_array_equal(event.masks, choice.masks(table.means(event.items)))


def test_a_full_outbox_waits_for_the_broker_or_says_so(small: Dataset, tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j", outbox_bytes=6000) as journal:
        with pytest.raises(OutboxFull):
            last(run(small, journal, Topic()))
        waits = []

        def make_room() -> None:
            waits.append(journal.waiting_bytes)
            for message in journal.pending():
                topic.send(message)
                journal.acknowledge(message.number)

        topic = Topic()
        end = last(run(small, journal, Topic(), make_room=make_room))
        assert (end.skipped + end.rows, len(waits) > 1) == (500, True)


def test_a_bad_id_names_the_data_set_and_not_the_rating(journal: Journal) -> None:
    with pytest.raises(UserError, match="small: item -7"):
        populate(dataset([1, 2], [3, -7], [1, 2]), journal.key)
    with pytest.raises(UserError, match="small: user"):
        populate(dataset(["ann", ""], [3, 7], [1, 2]), journal.key)


def test_nothing_raw_is_in_the_repr_of_a_population(small: Dataset, journal: Journal) -> None:
    assert "array" not in repr(populate(small, journal.key))
    assert "array" not in repr(small)


def test_what_a_budget_held_back_goes_with_a_larger_one_and_nothing_goes_twice(
    small: Dataset, tmp_path: Path
) -> None:
    path, sizes = tmp_path / "j", Counter(small.users.tolist())
    seen, topic = 0, Topic()
    for budget, room in ((20, 10), (20, 10), (40, 20), (200, 100)):
        with Journal.open(path, limits=Limits(Fraction(budget))) as journal:
            end = last(run(small, journal, topic, mechanism=RR))
            fits = sum(min(size, room) for size in sizes.values())
            assert (end.published, end.before, end.over) == (fits - seen, seen, 500 - fits)
            assert journal.held_back(populate(small, journal.key).digest) == 500 - fits
            seen = fits
    cells = [(device, item) for device, item, _ in topic.cells()]
    assert len(cells) == len(set(cells)) == 500
    with (
        Journal.open(path, limits=Limits(Fraction(200))) as journal,
        pytest.raises(UserError, match="published already"),
    ):
        run(small, journal, topic, mechanism=RR)


def test_an_interrupted_run_remembers_what_was_over_budget(small: Dataset, tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j", limits=Limits(Fraction(2))) as journal:
        whole = populate(small, journal.key).digest
        last(run(small, journal, Topic(), mechanism=RR, limit=300))
        assert journal.held_back(whole) == 0  # not finished
        last(run(small, journal, Topic(), mechanism=RR))
        assert journal.held_back(whole) == 500 - len(set(small.users.tolist()))


def test_every_refused_row_has_a_reason(journal: Journal) -> None:
    data = replace(dataset([1, 1, 1, 2], [5, 5, 6, 5], [1, 2, 3, 4]), refused=3)
    rate(1, 6, 3, ReportSettings(TOPIC, RR), scale=Scale(1, 5, 1), journal=journal, epoch=20_000)
    end = last(run(data, journal, Topic(), mechanism=RR))
    assert (end.rows, end.published, end.refused) == (7, 2, 5)
    assert (end.unreadable, end.repeated, end.before, end.over) == (3, 1, 1, 0)
