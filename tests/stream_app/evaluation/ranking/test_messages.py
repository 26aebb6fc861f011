"""Messages as devices send them: compared with the obvious version, and with a replay."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.datasets.synthetic import generate
from producers.pseudonyms import pseudonym
from stream_app.evaluation.ranking import FORMS, messages_of
from tests.producers.journals import at
from tests.producers.replays import Topic, last, run

Rating = tuple[int, int, int]  # day, user, item


def naive(ratings: list[Rating], form: str, chunk: int) -> list[tuple[int, int, list[int]]]:
    """Return (day, user, items) of each message."""
    found = []
    if form == "single":
        return [(day, user, [item]) for day, user, item in ratings]
    groups = [day if form == "daily" else row // chunk for row, (day, _, _) in enumerate(ratings)]
    today = max((day for day, _, _ in ratings), default=0)
    for group, rows in groupby(range(len(ratings)), key=groups.__getitem__):
        own = [ratings[row] for row in rows]
        for user in sorted({user for _, user, _ in own}):
            items = sorted(item for _, other, item in own if other == user)
            found.append((group if form == "daily" else today, user, items))
    return found


@pytest.mark.parametrize("form", FORMS)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 30)),
        unique_by=lambda rating: rating[1:],
    ),
    st.integers(1, 9),
)
def test_messages_are_those_of_the_obvious_version(
    form: str, ratings: list[Rating], chunk: int
) -> None:
    ratings.sort(key=lambda rating: rating[0])
    days, users, items = np.array(ratings, np.int64).reshape(-1, 3).T
    sent = messages_of(form, users.astype(np.uint64), items.astype(np.uint64), days, chunk)
    bounds = np.cumsum([0, *sent.counts.tolist()]).tolist()
    found = [
        (int(day), int(users[sent.rows[head]]), items[sent.rows[head:end]].tolist())
        for day, head, end in zip(sent.days, bounds, bounds[1:], strict=False)
    ]
    assert found == naive(ratings, form, chunk)
    assert sorted(sent.rows.tolist()) == list(range(len(ratings)))


def test_packed_messages_hold_what_a_replay_sends_together(tmp_path: Path) -> None:
    data = generate(4, users=20, items=40, ratings=300).dataset.in_time_order()
    days = data.timestamps // 86_400  # type: ignore[operator]
    keys = data.users.astype(np.uint64), data.items.astype(np.uint64)
    sent = messages_of("packed", *keys, days, 64)
    topic = Topic()
    with at(tmp_path / "journal") as journal:
        last(run(data, journal, topic, epoch=int(days.max())))
        devices = {pseudonym(journal.key, user): user for user in range(1, 21)}
    bounds = np.cumsum([0, *sent.counts.tolist()]).tolist()
    packed = [
        (int(data.users[sent.rows[head]]), data.items[sent.rows[head:end]].tolist(), int(day))
        for day, head, end in zip(sent.days, bounds, bounds[1:], strict=False)
    ]
    replayed = [
        (devices[event.device], [int(item) for item in event.items], event.epoch)
        for event in topic.events
    ]
    assert sorted(packed) == sorted(replayed)
