"""A replay within a budget and an outbox: what fits is published, the rest is counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from producers.datasets.load import Dataset
from producers.fleet.population import populate
from producers.journal import OutboxFull
from producers.pseudonyms import pseudonym
from stream_app.errors import UserError
from tests.producers.journals import at
from tests.producers.replays import RR, Topic, last, run


def test_a_budget_publishes_what_fits_and_counts_the_rest(small: Dataset, tmp_path: Path) -> None:
    with at(tmp_path / "j", epsilon=25) as journal:
        topic = Topic(journal)
        end = last(run(small, journal, topic, mechanism=RR, chunk=100))
        sizes = Counter(small.users.tolist())
        fits = sum(min(size, 12) for size in sizes.values())
        assert (end.published, end.refused, end.over) == (fits, 500 - fits, 500 - fits)
        counts = Counter(device for device, _, _ in topic.cells())
        assert set(counts.values()) <= set(range(1, 13))
        assert max(counts.values()) == 12
        # In time order: the first ratings of each user are those that fit.
        ordered = small.in_time_order()
        user = ordered.users.tolist()[0]
        own = [i for u, i in zip(ordered.users.tolist(), ordered.items.tolist(), strict=True)
                if u == user]  # fmt: skip
        device_id = pseudonym(journal.key, user)
        assert {item for device, item, _ in topic.cells() if device == device_id} == set(own[:12])


def test_a_full_outbox_waits_for_the_broker_or_raises(small: Dataset, tmp_path: Path) -> None:
    with at(tmp_path / "j", outbox_bytes=6000) as journal:
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


def test_a_larger_budget_publishes_the_rows_over_the_earlier_budget_once(
    small: Dataset, tmp_path: Path
) -> None:
    path, sizes = tmp_path / "j", Counter(small.users.tolist())
    seen, topic = 0, Topic()
    for budget, room in ((20, 10), (20, 10), (40, 20), (200, 100)):
        with at(path, epsilon=budget) as journal:
            end = last(run(small, journal, topic, mechanism=RR))
            fits = sum(min(size, room) for size in sizes.values())
            assert (end.published, end.before, end.over) == (fits - seen, seen, 500 - fits)
            assert journal.held_back(populate(small, journal.key).digest) == 500 - fits
            seen = fits
    cells = [(device, item) for device, item, _ in topic.cells()]
    assert len(cells) == len(set(cells)) == 500
    with (
        at(path, epsilon=200) as journal,
        pytest.raises(UserError, match="published already"),
    ):
        run(small, journal, topic, mechanism=RR)


def test_an_interrupted_run_remembers_what_was_over_budget(small: Dataset, tmp_path: Path) -> None:
    with at(tmp_path / "j", epsilon=2) as journal:
        whole = populate(small, journal.key).digest
        last(run(small, journal, Topic(), mechanism=RR, limit=300))
        assert journal.held_back(whole) == 0  # not finished
        last(run(small, journal, Topic(), mechanism=RR))
        assert journal.held_back(whole) == 500 - len(set(small.users.tolist()))
