"""The statistics' kernels against the obvious versions, on few cells, so that all collides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.kernels.machine.scalars import popcount
from stream_app.kernels.sketches import ams_counters as second_moment
from stream_app.kernels.sketches import bloom_blocks as bloom
from stream_app.kernels.sketches import count_min_cells as count_min
from stream_app.kernels.stream import deduplication as marks
from tests.naive import statistics as naive

WORDS = st.integers(0, 2**64 - 1)
KEYS = st.lists(st.one_of(st.integers(0, 5), WORDS), max_size=40)
FIELD = st.one_of(st.integers(0, 3), st.integers(naive.PRIME - 3, naive.PRIME - 1), WORDS).map(
    lambda x: x % naive.PRIME
)

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def words(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


@settings(deadline=None)
@given(a=FIELD, b=FIELD)
def test_the_product_modulo_the_prime_is_that_of_whole_numbers(a, b):
    assert int(second_moment.product(np.uint64(a), np.uint64(b))) == a * b % naive.PRIME


@settings(deadline=None)
@given(coefficients=st.lists(FIELD, min_size=4, max_size=4), keys=st.lists(WORDS, max_size=6))
def test_the_polynomial_is_that_of_whole_numbers(coefficients, keys):
    powers = np.zeros((3, len(keys)), np.uint64)
    second_moment.powers(words(keys), *powers)
    for key, column in zip(keys, powers.T, strict=True):
        x = key % naive.PRIME
        assert column.tolist() == [x, x**2 % naive.PRIME, x**3 % naive.PRIME]
        value = second_moment.polynomial(words(coefficients), *column)
        expected = sum(a * x**n for n, a in enumerate(coefficients)) % naive.PRIME
        assert int(value) == expected


@settings(deadline=None)
@given(a=WORDS)
def test_the_plain_version_of_the_instruction_is_right(a):
    assert int(popcount(np.uint64(a))) == bin(a).count("1")


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(WORDS, WORDS), max_size=40), seed=WORDS, blocks=st.integers(1, 5))
def test_the_bloom_kernels_do_what_a_set_of_bits_does(pairs, seed, blocks):
    fast = np.zeros((blocks, 8), np.uint32)
    slow = naive.Seen(blocks, seed)
    added, asked = pairs[: len(pairs) // 2], pairs
    columns = [words([p[c] for p in added]) for c in (0, 1)]
    bloom.add(fast, np.zeros(1, np.uint8), *columns, np.uint64(seed))
    for user, item in added:
        slow.add(user, item)
    assert fast.tolist() == slow.words()
    found = np.empty(len(asked), np.bool_)
    columns = [words([p[c] for p in asked]) for c in (0, 1)]
    bloom.test(fast, *columns, np.uint64(seed), found)
    assert found.tolist() == [slow.test(user, item) for user, item in asked]


@settings(deadline=None)
@given(bits=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 7), st.integers(0, 31))))
def test_the_fill_is_the_count_of_bits_and_the_probability_of_a_false_positive(bits):
    blocks = np.zeros((3, 8), np.uint32)
    for block, word, bit in bits:
        blocks[block, word] |= np.uint32(1 << bit)
    total, probability = bloom.fill(blocks)
    assert total == len(bits)
    share = [[sum((b, w) == (x, y) for x, y, _ in bits) / 32 for w in range(8)] for b in range(3)]
    assert probability == pytest.approx(np.mean([np.prod(row) for row in share]), abs=1e-12)


def often(keys):
    """Return how often each key came: 0 to 3 times."""
    return np.array([(key + i) % 4 for i, key in enumerate(keys)], np.int64)


@settings(deadline=None)
@given(keys=KEYS, depth=st.integers(1, 4), width=st.integers(1, 7), seed=st.integers(0, 2**57 - 1))
def test_the_count_min_kernels_do_what_lists_of_counters_do(keys, depth, width, seed):
    slow = naive.CountMin(depth, width, seed)
    fast, counts = np.zeros((depth, width), np.int64), np.empty(len(keys), np.int64)
    seeds = words(slow.seeds)
    times = often(keys)
    total, pages = np.zeros(1, np.int64), np.zeros(1, np.uint8)
    count_min.add(fast, pages, total, pages, seeds, words(keys), times)
    count_min.estimate(fast, seeds, words(keys), counts)
    assert total[0] == times.sum()
    for key, n in zip(keys, times, strict=True):
        for _ in range(n):
            slow.add(key)
    assert fast.tolist() == slow.cells
    assert counts.tolist() == [slow.estimate(key) for key in keys]


@settings(deadline=None)
@given(
    keys=KEYS,
    coefficients=st.lists(st.lists(FIELD, min_size=4, max_size=4), min_size=1, max_size=3),
    width=st.integers(1, 7),
)
def test_the_second_moment_kernel_does_what_whole_numbers_do(keys, coefficients, width):
    slow = naive.SecondMoment(coefficients, width)
    cells = np.zeros((len(coefficients), width), np.int64)
    moments = np.zeros(len(coefficients), np.int64)
    times = often(keys)
    second_moment.add(cells, moments, words(coefficients), words(keys), times)
    for key, n in zip(keys, times, strict=True):
        for _ in range(n):
            slow.add(key)
    assert cells.tolist() == slow.cells
    assert moments.tolist() == slow.moments()


@pytest.mark.parametrize("size", [255, 256, 257, 700])
def test_many_keys_are_counted_as_one_by_one(size):
    random = np.random.default_rng(size)
    keys = random.integers(0, 2**64, size, dtype=np.uint64)
    times = random.integers(0, 4, size)
    seeds, coefficients = words([5, 6, 7]), random.integers(0, naive.PRIME, (3, 4), np.uint64)
    width = 3 * 8192 + 2000  # rows of 64-bit words that share a page with the next row
    whole, single = np.zeros((2, 3, width), np.int64)
    pages, touched = np.zeros((2, 10), np.uint8)
    total, sum_of, marks = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.uint8)
    cells, one = np.zeros((2, 3, 300), np.int64)
    moments, moment = np.zeros((2, 3), np.int64)
    for _ in range(2):  # the second time all pages are dirty
        count_min.add(whole, pages, total, marks, seeds, keys, times)
        second_moment.add(cells, moments, coefficients, keys, times)
    for i in [*range(size), *range(size)]:
        count_min.add(single, touched, sum_of, marks, seeds, keys[i : i + 1], times[i : i + 1])
        part = keys[i : i + 1], times[i : i + 1]
        second_moment.add(one, moment, coefficients, *part)
    assert whole.tobytes() == single.tobytes()
    assert pages.tolist() == touched.tolist() == [1] * 10
    assert total[0] == sum_of[0] == 2 * times.sum()
    assert cells.tobytes() == one.tobytes()
    assert moments.tolist() == moment.tolist()
    once, twice = np.zeros((2, 3, width), np.int64)
    ones = np.ones(size, np.int64)
    count_min.add(once, pages, total, marks, seeds, keys, ones[:0])
    count_min.add(twice, pages, sum_of, marks, seeds, keys, ones)
    assert once.tobytes() == twice.tobytes()
    assert total[0] == sum_of[0] == 2 * times.sum() + size


DEVICE = st.one_of(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.just((2**64 - 1, 2**64 - 1)))
GAP = 3
SEQ = st.one_of(
    st.integers(-2, 12), st.integers(2**40 - 5, 2**40 + 3), st.sampled_from([2**62, -(2**63)])
)


def days_of(events, outcomes) -> list[list[int]]:
    """Return the seqs, here also the days, that each device has added, by first appearance."""
    found: dict[tuple[int, int], list[int]] = {}
    for (device, seq, _), (outcome, _) in zip(events, outcomes, strict=True):
        if outcome in (0, 2):
            found.setdefault(device, []).append(seq)
    return list(found.values())


@pytest.mark.parametrize("signed", [False, True])
@settings(deadline=None)
@given(
    events=st.lists(st.tuples(DEVICE, SEQ, st.booleans()), max_size=60),
    contents=st.lists(st.integers(1, 3), min_size=60, max_size=60),
    seed=WORDS,
)
def test_the_marks_kernels_do_what_sets_of_numbers_do(events, contents, seed, signed):
    slots, known = np.full(16, -1, np.int32), np.zeros((10, 2), np.uint64)
    values, pages = np.zeros((10, 1 if signed else 4), np.int64), np.zeros((5, 1), np.uint8)
    days, numbers = np.zeros(10, np.uint16), np.zeros(6, np.int64)
    digests = np.zeros((10, 1 if signed else 2), np.uint32)
    devices = words([d for d, _, _ in events]).reshape(-1, 2)
    outcomes, gaps = np.empty(len(events), np.uint8), np.empty(len(events), np.int64)
    seqs = np.array([s for _, s, _ in events], np.int64)
    accepted = np.array([a for _, _, a in events], np.bool_)
    slow = naive.Marks(GAP, signed=signed)
    expected, again = [], []
    for event, content in zip(events, contents, strict=False):
        expected.append(slow.advance(*event, content=content))
        again.append(slow.reused)
    reused = np.empty(len(events), np.bool_)
    # Ten devices in sixteen slots: long probes, but never a full table.
    row, count = marks.advance(
        slots, known, values, days, digests, numbers, *pages, np.uint64(seed), 0,
        devices, seqs, seqs, np.array(contents[: len(events)], np.uint32), accepted, 0, GAP,
        outcomes, gaps, reused,
    )  # fmt: skip
    assert (row, count) == (len(events), len(slow.runs))
    assert list(zip(outcomes.tolist(), gaps.tolist(), strict=True)) == expected
    assert [tuple(d) for d in known[:count].tolist()] == list(slow.runs)
    assert values[:count].tolist() == [slow.row(device) for device in slow.runs]
    assert days[:count].tolist() == [1 + min(max(s), 65534) for s in days_of(events, expected)]
    assert pages.ravel().tolist() == [int(count > 0)] * 4 + [0]
    assert reused.tolist() == again
    rows = np.empty(len(events), np.int64)
    marks.find(slots, known, np.uint64(seed), devices, rows)
    order = {device: row for row, device in enumerate(slow.runs)}
    assert rows.tolist() == [order.get(d, -1) for d, _, _ in events]


@settings(deadline=None)
@given(devices=st.lists(DEVICE, min_size=1, max_size=10), seed=WORDS)
def test_placing_devices_counts_the_distinct_ones(devices, seed):
    slots, known = np.full(32, -1, np.int32), words(devices).reshape(-1, 2)
    days = np.ones(len(devices), np.uint16)
    assert marks.place(slots, known, days, np.uint64(seed), len(devices)) == len(set(devices))
    assert sorted(slots[slots >= 0].tolist()) == sorted(devices.index(d) for d in set(devices))
