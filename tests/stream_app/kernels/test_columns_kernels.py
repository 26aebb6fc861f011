"""The small loops over a batch's columns do what their obvious versions do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.kernels.factorization import error_scores as scoring
from stream_app.kernels.stream.event_columns import count_items, extend_chain, held_out

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

MASK = 2**64 - 1
KEYS = st.lists(st.integers(0, MASK), max_size=20)


def mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


@given(st.lists(st.integers(0, 9), max_size=40))
def test_item_counts_count_each_row(rows: list[int]) -> None:
    counts, distinct = np.zeros(10, np.int64), np.empty(len(rows), np.int64)
    found = count_items(np.array(rows, np.int64), counts, distinct)
    assert distinct[:found].tolist() == list(dict.fromkeys(rows))
    assert counts.tolist() == [rows.count(row) for row in range(10)]


@given(KEYS, st.integers(0, 2**62), st.integers(0, MASK))
def test_the_hold_out_is_a_threshold_on_a_hash(keys: list[int], salt: int, threshold: int) -> None:
    users = np.array(keys, np.uint64)
    items = users[::-1].copy()
    out = np.empty(len(keys), np.bool_)
    held_out(users, items, np.uint64(salt), np.uint64(threshold), out)
    golden = 0x9E3779B97F4A7C15
    hashes = [
        mix(mix((mix(u) + i + salt * golden) & MASK))
        for u, i in zip(keys, reversed(keys), strict=True)
    ]
    assert out.tolist() == [h < threshold for h in hashes]


@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 3)), max_size=20),
    st.integers(0, 100),
    st.integers(0, MASK),
    st.integers(0, 20),
)
def test_the_ledgers_numbers_are_their_definition(
    records: list[tuple[int, int]], partition: int, chain: int, cut: int
) -> None:
    offsets = np.array([o for o, _ in records], np.int64)
    outcomes = np.array([k for _, k in records], np.uint8)
    total, first = extend_chain(offsets[:cut], outcomes[:cut], partition, np.uint64(chain))
    more, last = extend_chain(offsets[cut:], outcomes[cut:], partition, np.uint64(first))
    for offset, outcome in records:
        chain = mix((chain + mix(offset) + 16 * partition + outcome) & MASK)
    assert int(last) == chain
    assert (int(total) + int(more)) & MASK == sum(mix(o) for o, _ in records) & MASK


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 3))
def test_each_held_out_event_is_paired_with_the_next_free_learned_one(
    held: list[bool], owed: int
) -> None:
    learned = np.empty(len(held), np.bool_)
    left = scoring.pair(np.array(held, np.bool_), owed, learned)
    for i, out in enumerate(held):
        paid = not out and owed > 0
        owed += 1 if out else -paid
        assert learned[i] == paid
    assert left == owed


def test_scores_are_squared_errors_against_the_tables(rng: np.random.Generator) -> None:
    starts, sizes = np.array([0, 5, 7]), np.array([5, 2, 6])
    c = rng.integers(0, 3, 50)
    z, (t, u) = rng.integers(0, sizes[c]), rng.uniform(1, 5, (2, 50))
    stars, value, square, weight = rng.normal(size=(4, 13))
    out = np.full((6, 60), 7.0)
    scoring.score(
        t, u, c.astype(np.uint16), z.astype(np.uint8), starts, stars, value, square, weight, out
    )
    row = starts[c] + z
    for prediction, kinds in (
        (t, (scoring.REPORTED, scoring.DEBIASED)),
        (u, (scoring.OTHER_REPORTED, scoring.OTHER_DEBIASED)),
    ):
        reported, debiased = (out[kind, :50] for kind in kinds)
        np.testing.assert_allclose(reported, (prediction - stars[row]) ** 2)
        f = square[row] - 2 * prediction * value[row] + prediction**2 * weight[row]
        np.testing.assert_allclose(debiased, f)
    np.testing.assert_array_equal(out[scoring.VALUE, :50], value[row])
    np.testing.assert_array_equal(out[scoring.WEIGHT, :50], weight[row])
    assert (out[:, 50:] == 7).all()
