"""A replay after a crash, a limit, or with other rows: no rating is drawn twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.datasets.load import Dataset
from producers.device.requests import ReportSettings
from producers.fleet.population import populate
from producers.journal import Journal, read_journal
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError
from tests.producers.conftest import TOPIC, dataset
from tests.producers.journals import at
from tests.producers.journals import rated as enrolled_rate
from tests.producers.replays import OPEN, CrashError, Topic, last, run

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
def test_after_crashes_every_rating_and_every_seq_is_used_once(
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
        with at(path) as journal:
            topic = Topic(journal, crash_at)
            try:
                for message in journal.pending():
                    topic.send(message)
                end = last(run(data, journal, topic, chunk=chunk, ratings_per_message=most))
                assert end.published + end.refused == end.rows == end.total
                assert end.skipped + end.rows - (0 if end.skipped else unreadable) == len(rows)
            except CrashError:
                pass
            except UserError:  # an earlier run has recorded the last chunk
                pass
        for event, value in zip(topic.events, topic.values, strict=True):
            assert sent.setdefault((event.device, event.seq), value) == value
            events[event.device, event.seq] = event
    assert read_journal(path).pending == 0
    drawn = [(event.device, int(item)) for event in events.values() for item in event.items]
    assert len(drawn) == len(set(drawn)) == len({(user, item) for user, item, _ in rows})
    for device in {device_id for device_id, _ in events}:
        numbers = sorted(seq for device_id, seq in events if device_id == device)
        assert numbers == list(range(1, len(numbers) + 1))


def test_an_interrupted_replay_continues_after_the_last_recorded_chunk(
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


def test_a_limit_ends_a_run_and_the_next_run_continues(small: Dataset, journal: Journal) -> None:
    topic = Topic()
    ends = [last(run(small, journal, topic, limit=130)) for _ in range(4)]
    assert [end.rows for end in ends] == [130, 130, 130, 110]
    assert all(end.total == end.rows for end in ends)
    assert len({cell[:2] for cell in topic.cells()}) == 500


def test_republish_publishes_every_rating_again_under_new_seqs(
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
    assert (end.rows, end.published, end.refused, end.before) == (503, 2, 501, 500)
    assert [cell[1:] for cell in topic.cells()[500:]] == [(1000, 1), (5, 3)]
    assert len({cell[:2] for cell in topic.cells()}) == len(topic.cells()) == 502
    again = last(run(grown, journal, topic, republish=True))
    assert (again.published, again.refused, again.before) == (502, 1, 0)


def test_another_reading_of_the_same_file_publishes_nothing_twice(
    small: Dataset, journal: Journal
) -> None:
    topic = Topic()
    last(run(small, journal, topic))
    # What a data set is known by holds no rating: other ratings of the same items are no other set.
    rescaled = replace(small, ratings=small.ratings / 2)
    with pytest.raises(UserError, match="published already"):
        run(rescaled, journal, topic)
    # One text makes a column text; the numbers in it are the same users and items as before.
    end = last(run(extended(small, ("ann", "tt01", 4.0)), journal, topic))
    assert (end.published, end.before) == (1, 500)
    assert len(topic.cells()) == 501


def test_a_rating_is_published_once_by_rate_or_by_replay(
    journal: Journal,
) -> None:
    given: dict[str, Any] = {"scale": Scale(1, 5, 1), "journal": journal, "epoch": 20_000}
    line = ReportSettings(TOPIC, OPEN)
    enrolled_rate("1", 7, 5, line, **given)
    topic = Topic()
    end = last(run(dataset([1, 1], [7, 8], [5, 4]), journal, topic))
    assert (end.published, end.refused, end.before) == (1, 1, 1)
    assert [event.seq for event in topic.events] == [2]
    with pytest.raises(UserError, match="published already"):
        enrolled_rate("1", 8, 4, line, **given)


def test_an_interrupted_republish_continues(small: Dataset, journal: Journal) -> None:
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
