"""Vectors that the browser's device and Python share; `python -m tests.web.web_vectors` writes.

tables        counts, and words with the reports that they draw: both edges of every interval
pseudonyms    key, user, pseudonym
ids           awkward ids, each with its key as an item and its pseudonym under a key of zeros
events        fields of a report and its bytes
whole_person  the odometer of 1 .. 100 reports at 1e-6, and how many (20, 1e-6) holds
ranking       item sides (base64), histories, and what the device's ranker makes of them
"""

from __future__ import annotations

import base64
import json
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from producers.pseudonyms import pseudonym
from producers.ranking.ranker import Ranker, Rated
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import largest_count
from stream_app.privacy.accounting.odometer import odometer
from stream_app.privacy.exact.integer_tables import TOTAL, Table
from stream_app.ranking.compact_side import decode_side, encode_side
from stream_app.wire import Event, encode_json
from stream_app.wire.ids import Item, key
from tests.fixtures.awkward_ids import PAIRS
from tests.fixtures.item_sides import item_side

PATH = Path(__file__).parents[2] / "deploy" / "web" / "vectors.json"
EPSILONS = ("1/4", "1/2", "1", "2", "3", "4")
BUDGET = Fraction(20), Fraction(1, 10**6)
ITEMS: tuple[Item, ...] = (
    *(0, 7, 2**53 + 1, 2**63 - 1),
    *(
        "alien",
        'a "quoted" \\ back',
        "tab\tand\nline\x01\x1f\x7f",
        "Amélie 千と千尋 🎬",
        "\u2028/</",
    ),
)


def vectors() -> dict[str, Any]:
    """Return all vectors."""
    return {
        "tables": [_draws(f"rr:{levels}:{e}") for levels, e in ((2, "1"), (5, "2"), (10, "1/4"))],
        "pseudonyms": _pseudonyms(),
        "ids": _ids(),
        "events": _events(),
        "whole_person": [
            _whole_person(f"rr:{levels}:{e}") for levels in range(2, 11) for e in EPSILONS
        ],
        "ranking": _ranking(),
    }


def text() -> str:
    """Return the file's text."""
    return json.dumps(vectors(), ensure_ascii=True, separators=(",", ":")) + "\n"


def table(id: str) -> Table:
    found = registry.parse(id).table()
    assert found is not None
    return found


def counts(id: str) -> list[list[str]]:
    """Return a table as the gateway writes it."""
    return [[str(count) for count in row] for row in table(id).counts]


def _draws(id: str) -> dict[str, Any]:
    found = []
    for level, row in enumerate(table(id).counts):
        ends = list(accumulate(row))
        words = sorted({0, TOTAL - 1, *(e - 1 for e in ends), *(e for e in ends if e < TOTAL)})
        levels = np.full(len(words), level, np.uint8)
        reports = table(id).sample(levels, np.array(words, np.uint64))
        found += [[level, str(w), int(z)] for w, z in zip(words, reports, strict=True)]
    return {"id": id, "levels": len(table(id).counts), "counts": counts(id), "draws": found}


def _pseudonyms() -> list[list[str]]:
    keys = bytes(32), bytes(range(32)), b"\xff" * 32
    return [[k.hex(), user, pseudonym(k, user).hex()] for k in keys for user in ("me", "7", "Zoë")]


def _ids() -> list[list[str]]:
    ids = dict.fromkeys(id_ for pair in PAIRS for id_ in pair)
    return [[id_, f"{key(id_):016x}", pseudonym(bytes(32), id_).hex()] for id_ in ids]


def _events() -> list[dict[str, Any]]:
    found = []
    for n, item in enumerate(ITEMS):
        seq = (1, 2, 2**40)[n % 3]
        device = bytes([n] * 16)
        columns = np.array([key(item)], np.uint64), np.array([n % 5], np.uint8)
        event = Event(device, seq, "rr:5:1/2", 20000 + n, *columns)
        fields = {"device": device.hex(), "seq": seq, "mechanism": "rr:5:1/2", "epoch": 20000 + n}
        named = {"item": item, "key": f"{key(item):016x}", "report": n % 5}
        found.append({**fields, **named, "body": encode_json(event, [item]).hex()})
    return found


def _whole_person(id: str) -> dict[str, Any]:
    levels = len(table(id).counts)
    counted = range(1, 101) if levels == 5 else (1, 2, 10, 100)
    keep, change = table(id).counts[0][:2]
    return {
        "id": id,
        "levels": levels,
        "table": [str(keep), str(change)],
        "epsilons": [[n, odometer({id: n}, BUDGET[1])] for n in counted],
        "held": largest_count(id, *BUDGET),
    }


def _ranking() -> list[dict[str, Any]]:
    return [_lists(learned=learned) for learned in (False, True)]


def _lists(*, learned: bool) -> dict[str, Any]:
    rng = np.random.default_rng(20)
    made = item_side(rng, 61, k=9, after=5, r=4, version=7, later=4, learned=learned)
    encoded = encode_side(made)
    side = decode_side(encoded)
    ranker, found = Ranker(side), []
    for size in (0, 1, 2, 3, 5, 8, 13, 21, 40):
        items = [int(each) for each in rng.choice(side.keys, size)]
        items += [12345] * (size == 5)  # which the side does not know
        stars = [None if size == 3 else float(each) for each in rng.integers(1, 6, len(items))]
        # Visits of five, and pairs of one time; at the end an unknown day, a clock that went back.
        days, places = np.arange(len(items)) // 5, np.arange(len(items)) // 2
        if size in (8, 13):
            days[-1] = -1 if size == 8 else 0
        rated = Rated.untimed(items, stars)._replace(days=days, places=places)
        history, now = ranker.history(rated), size % 2 == 1
        listed = ranker.rank(rated, k=10, because=True, now=now)
        rows = zip(items, stars, days.tolist(), places.tolist(), strict=True)
        found.append(
            {
                "now": now,
                "history": [
                    {"key": f"{i:016x}", "stars": s, "day": day, "place": place}
                    for i, s, day, place in rows
                ],
                "list": [
                    {
                        "key": f"{each.item:016x}",
                        "score": each.score,
                        "because": [f"{reason:016x}" for reason in each.because],
                    }
                    for each in listed
                ],
                "taste": (history.weights @ side.factors[history.slots]).tolist(),
            }
        )
    return {"side": base64.b64encode(encoded).decode(), "cases": found}


if __name__ == "__main__":
    PATH.write_text(text())
