"""One rating: whatever is wrong with it is found before anything is spent or stored."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from producers.pseudonyms import pseudonym
from producers.rating import rate
from producers.scale import Scale
from producers.store import Store
from stream_app import wire
from stream_app.errors import Refusal
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource, SystemSource

RR = registry.parse("rr:5:2")
GOOD: dict[str, Any] = {
    "user": "ann", "item": 1193, "raw_rating": 4, "scale": Scale(), "mechanism": RR,
    "source": SystemSource(), "epoch": 20_000,
}  # fmt: skip


def publish(store: Store, **changed: Any) -> wire.Event:
    arguments = GOOD | changed
    user, item, raw_rating = (arguments.pop(name) for name in ("user", "item", "raw_rating"))
    return rate(user, item, raw_rating, store=store, **arguments)


def test_a_rating_becomes_an_event_of_its_users_device(store: Store) -> None:
    event = publish(store, mechanism=registry.parse("none:5:inf"))
    assert event.device == pseudonym(store.key, "ann")
    assert (event.seq, event.items.tolist(), event.reports.tolist()) == (1, [1193], [3])


def test_every_rating_of_a_device_has_the_next_number(store: Store) -> None:
    assert [publish(store, item=item).seq for item in (1, 2, "three")] == [1, 2, 3]
    assert publish(store, user="bob").seq == 1


def test_a_rating_is_published_once_unless_again(store: Store) -> None:
    publish(store)
    for mechanism in ("rr:5:2", "rr:5:1"):
        with pytest.raises(Refusal, match=r"published already.*--again"):
            publish(store, mechanism=registry.parse(mechanism), raw_rating=5)
    assert publish(store, again=True).seq == 2
    assert publish(store, item=7).seq == 3


BAD = [
    *(
        {"raw_rating": r}
        for r in (math.nan, math.inf, -math.inf, 0, 6, 4.5, True, "4", None, 2**63)
    ),
    *({"user": u} for u in ("", "a" * 2**20, "a\0", "\ud800", None, True)),
    *({"item": i} for i in (-1, 2**63, 2**64, "", "x" * 129, "\udfff", True, 1.0, None)),
    {"scale": Scale(0.5, 5, 0.5)},
    {"source": SeededSource(1)},
]


@pytest.mark.parametrize("wrong", BAD, ids=lambda wrong: repr(wrong)[:30])
def test_bad_input_leaves_the_store_as_it_was(wrong: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "device.sqlite"
    with Store.open(path):
        pass
    before = path.read_bytes()
    with (
        Store.open(path) as store,
        pytest.raises(ValueError, match=r"user|item|scale|source") as caught,
    ):
        publish(store, **wrong)
    assert path.read_bytes() == before
    if "raw_rating" in wrong and wrong["raw_rating"] not in (0, True):
        assert str(wrong["raw_rating"]) not in str(caught.value).replace("1..5", "")
