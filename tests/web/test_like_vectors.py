"""`like` by epochs in a browser: cells, moments, tables and messages are those of Python."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from producers.daemon.cells import Cells
from producers.fleet.epoch_emission import emission_time
from producers.fleet.epoch_requests import _sample_key, balanced_slices
from stream_app.privacy import registry
from stream_app.privacy.exact.integer_tables import TOTAL
from stream_app.privacy.ratings.item_sampling import ItemSample
from stream_app.settings import Settings
from stream_app.wire import Event, encode_json
from stream_app.wire.ids import key
from tests.fixtures.browser import serving
from tests.web.campaign_inputs import INTEGERS, TEXTS
from tests.web.test_web_vectors import WEB
from tests.web.web_vectors import counts, table

TURNS = Settings().hash_seed
DEVICE, SECRET = bytes(range(16)), bytes(range(32))
MOST_LINES = 120


@pytest.fixture(scope="module")
def modules(browser):
    with serving(WEB) as site, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site}/vectors.json")
        page.evaluate('async () => { globalThis.epochs = await import("/epochs.js"); }')
        yield page


@pytest.fixture(scope="module")
def scope() -> dict[int, int | str]:
    """The items of a scope by key, rising; more than one message holds."""
    rng = np.random.default_rng(4)
    names = [*TEXTS, *INTEGERS, *(int(each) for each in rng.integers(100, 2**62, 4400))]
    return dict(sorted((key(name), name) for name in names))


def shown(number: int) -> str:
    return f"{number:016x}"


def test_the_moment_of_a_device_is_that_of_python(modules) -> None:
    epochs = [0, 1, 20_000, 2**33]
    found = modules.evaluate(
        "([device, epochs_]) => epochs_.map((each) => epochs.momentOf(device, each))",
        [DEVICE.hex(), epochs],
    )
    assert found == [emission_time(DEVICE, epoch) for epoch in epochs]


@pytest.mark.parametrize(("most", "room"), [(40, 40), (40, 7), (10**6, 10**6)])
def test_a_device_picks_the_cells_of_python(modules, scope, most: int, room: int) -> None:
    keys = np.array(list(scope), np.uint64)
    picked = ItemSample(Fraction(1), most).items(keys, _sample_key(SECRET, DEVICE))
    reported = picked[3:6]
    left = picked[~np.isin(picked, reported)]
    found = modules.evaluate(
        """({ secret, ...given }) => epochs.cellsOf(
          { ...given, secret: Uint8Array.from(secret) })""",
        {
            "scope": [shown(each) for each in scope],
            "secret": list(SECRET),
            "device": DEVICE.hex(),
            "reported": [shown(each) for each in reported.tolist()],
            **{"most": most, "room": room},
        },
    )
    assert found == [shown(each) for each in np.sort(left[:room]).tolist()]


def test_a_cell_has_its_turn_when_python_says(modules, scope) -> None:
    keys = np.array(list(scope), np.uint64)
    for every, since, epoch in ((1, 20_000, 20_000), (1, 20_000, 20_001), (7, 20_000, 20_003)):
        expected = np.sort(Cells(keys, every, TURNS).due(since, epoch))
        found = modules.evaluate(
            "(given) => epochs.dueOf(given)",
            {"scope": [*map(shown, scope)], "every": every, "since": since, "epoch": epoch},
        )
        assert found == [*map(shown, expected.tolist())]
        assert bool(found) is (epoch > since)


MESSAGES = """({ mechanism, words, ...given }) => {
  const columns = words.map((column) => BigUint64Array.from(column.map(BigInt)));
  return epochs.messagesOf({ ...given, mechanism: epochs.certifiedLike(mechanism),
    words: () => columns.shift() }).map(({ seq, body }) => [seq, body]);
}"""


@pytest.mark.parametrize("id", ["like:5:2", "like:5:1/2:4"])
def test_the_messages_of_an_epoch_are_those_of_python(modules, scope, id: str) -> None:
    rng = np.random.default_rng(9)
    keys, threshold = np.array(list(scope), np.uint64), registry.parse(id).threshold
    rated = {int(each): int(rng.integers(5)) for each in rng.choice(keys, 300, replace=False)}
    levels = np.array([rated.get(int(each), 5) for each in keys], np.uint8)
    places, words = (rng.integers(0, 2**64, len(keys), np.uint64) for _ in range(2))
    # The words around the end of an interval tell whether each row of the table is used.
    end = int(table(id).counts[threshold][1])
    words[:4] = [0, end - 1, end, TOTAL - 1]
    order = np.argsort(places, kind="stable")
    reports = table(id).sample(levels[order], words)
    expected = []
    for n, part in enumerate(balanced_slices(len(keys))):
        of_part = keys[order][part]
        event = Event(DEVICE, 5 + n, id, 20_000, of_part, reports[part].astype(np.uint8))
        expected.append([5 + n, encode_json(event, [scope[int(e)] for e in of_part]).decode()])
    given: dict[str, Any] = {
        "mechanism": {"id": id, "counts": counts(id)},
        "words": [[str(word) for word in column.tolist()] for column in (places, words)],
        "cells": [
            {"key": shown(number), "item": name if isinstance(name, str) else 0}
            for number, name in scope.items()
        ],
        "rated": [{"key": shown(number), "level": level} for number, level in rated.items()],
        **{"device": DEVICE.hex(), "seq": 5, "epoch": 20_000},
    }
    assert len(expected) == 2
    assert modules.evaluate(MESSAGES, given) == expected


def test_draws_are_as_many_as_cells_and_without_ratings_too(modules) -> None:
    counted = modules.evaluate(
        """(mechanism) => {
          const cells = Array.from({ length: 9000 }, (_, n) =>
            ({ item: n, key: n.toString(16).padStart(16, "0") }));
          return epochs.messagesOf({ mechanism: epochs.certifiedLike(mechanism), cells, rated: [],
            device: "00".repeat(16), seq: 1, epoch: 1 }).map(({ items, reports }) =>
              [items.length, reports.length, new Set(items).size]);
        }""",
        {"id": "like:5:2", "counts": counts("like:5:2")},
    )
    assert counted == [[3000] * 3] * 3


def test_a_table_that_is_not_of_its_id_is_refused(modules) -> None:
    right = counts("like:5:2")
    more = [[str(int(row[0]) + 1), str(int(row[1]) - 1)] for row in right]
    assert registry.parse("like:5:2").threshold == 3
    for id, rows, sentence in (
        ("like:5:1", right, "protects less"),
        ("like:5:2", more, "not that of a like"),
        ("like:5:2", right[:-1], "rows of 2 counts"),
        ("like:5:2", [*right[:-1], right[3]], "not that of a like|protects less"),
        ("like:5:2:2", right, "not that of a like"),
        ("like:5:2", [row[::-1] for row in right], "protects less"),
        ("like:5:2", [[each[:-1] for each in row] for row in right], "sum to 2"),
        ("like:5:2:5", right, "can check"),
        ("rr:5:2", right, "can check"),
    ):
        with pytest.raises(Exception, match=sentence):
            modules.evaluate(
                "(each) => void epochs.certifiedLike(each)", {"id": id, "counts": rows}
            )


def test_the_module_is_short_enough_to_be_read() -> None:
    lines = (WEB / "epochs.js").read_text().splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 100
