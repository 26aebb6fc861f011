"""The outbox: the same bytes until the broker has them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from producers.device import requests as device
from producers.journal import (
    Journal,
    OutboxFull,
    Request,
)
from tests.producers.conftest import TOPIC
from tests.producers.journals import ANN, BOB, CELL, RR, at, release


def test_what_was_not_acknowledged_is_given_out_again_the_same_bytes(path: Path) -> None:
    with at(path) as journal:
        given = release(journal, ANN, 1, 2, 3) + release(journal, BOB, 1) + release(journal, ANN, 4)
        journal.acknowledge(given[1].number)
        journal.acknowledge(given[1].number)
        journal.acknowledge(10**6)
    for _ in range(2):
        with at(path) as journal:
            assert journal.pending() == [given[0], given[2]]
            assert journal.waiting_bytes == sum(len(one.value) for one in (given[0], given[2]))
    with at(path) as journal:
        journal.compact()
        assert journal.pending() == [given[0], given[2]]
        journal.acknowledge(given[0].number)
    with at(path) as journal:
        assert journal.pending() == [given[2]]
        assert release(journal, ANN, 9)[0].number > given[2].number


def test_numbers_rise_for_each_device_and_topic(journal: Journal) -> None:
    assert [release(journal, ANN, item)[0].seq for item in (1, 2)] == [1, 2]
    assert release(journal, BOB, 1)[0].seq == 1
    assert release(journal, ANN, 3, topic="other.ratings.v1")[0].seq == 1
    assert [m.seq for m in release(journal, ANN, 4, 5, 6, ratings_per_message=1)] == [3, 4, 5]
    assert release(journal, ANN, 7)[0].key == ANN.hex().encode()


def test_a_compacted_journal_knows_the_same(path: Path) -> None:
    with at(path, epsilon=600, window=2, plan="adaptive") as journal:
        for item in range(300):
            (message,) = release(journal, ANN, item, epoch=20_000 + item // 100)
            journal.acknowledge(message.number)
        release(journal, BOB, 5, mechanism=CELL)
        spent, size = [journal.spent(device_id) for device_id in (ANN, BOB)], path.stat().st_size
        journal.compact()
        assert path.stat().st_size < size / 3
        release(journal, BOB, 6)
    with at(path) as journal:
        assert [journal.spent(ANN), journal.spent(BOB)["cell"]] == [spent[0], spent[1]["cell"]]
        assert not journal.unreported(ANN, np.arange(300, dtype=np.uint64)).any()
        assert len(journal.pending()) == 2
        assert release(journal, ANN, 1000)[0].seq == 301
        assert journal.room(ANN, RR, 20_002) == 99  # epochs 20001 and 20002: 201 reports so far
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


def test_a_journal_is_compacted_when_it_has_grown(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("producers.journal.journal._COMPACTED_FROM", 20_000)
    sizes = []
    with at(path) as journal:
        for item in range(600):
            (message,) = release(journal, ANN, item)
            journal.acknowledge(message.number)
            sizes.append(path.stat().st_size)
    assert max(sizes) < 2 * 20_000
    assert sum(later < earlier for earlier, later in pairwise(sizes)) > 3
    with at(path) as journal:
        assert not journal.unreported(ANN, np.arange(600, dtype=np.uint64)).any()


def test_a_full_outbox_is_an_error_and_nothing_is_lost(path: Path) -> None:
    with at(path, outbox_bytes=1000) as journal:
        given = []
        while journal.waiting_bytes < 920:
            given += release(journal, ANN, len(given))
        before = path.read_bytes()
        with pytest.raises(OutboxFull, match="limit of 1000: wait for delivery reports"):
            release(journal, ANN, 500)
        assert path.read_bytes() == before
        assert journal.pending() == given
        journal.acknowledge(given[0].number)
        release(journal, ANN, 500)


def test_a_public_scope_that_all_devices_share_is_kept_once(path: Path) -> None:
    scope = np.arange(5000, dtype=np.uint64)
    line = device.ReportSettings(TOPIC, CELL)

    def asked(place: int) -> Request:
        return device.build_request(
            device.ReportColumns(np.full(5000, 5, np.uint8), scope, None, scope), line,
            device=bytes([place] * 16),
            epoch=1, republish=False, parts=device.message_slices(5000, 4096),
        )  # fmt: skip

    with at(path) as journal:
        for message in journal.commit([asked(place) for place in range(20)]):
            journal.acknowledge(message.number)
        assert path.stat().st_size < 20 * 5000 * 9 + 2 * 5000 * 8
        journal.compact()
        assert path.stat().st_size < 3 * 5000 * 8
        release(journal, bytes([3] * 16), 9999, epoch=1)
    with at(path) as journal:
        assert not journal.unreported(bytes([3] * 16), np.array([9999], np.uint64))[0]
        for place in range(20):
            assert not journal.unreported(bytes([place] * 16), scope).any()
