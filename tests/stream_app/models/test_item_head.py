"""Elections of the head: new items are in soon at any age, and a push is bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.kernels.cooccurrence.pair_updates import STEPS, TOTAL
from stream_app.models.cooccurrence.item_head import ItemHead, mass_of, recent_of

SIZE, ITEMS = 2048, 4000


def report(head: ItemHead, counts: np.ndarray) -> None:
    """Add reports (n,) of items, as the kernel does."""
    head.room("counts")[: len(counts)] += counts
    head.room("recent")[: len(counts)] += 256 * counts
    head.totals[TOTAL] += counts.sum()


def aged(total: int, shares: np.ndarray, size: int = SIZE) -> ItemHead:
    """Return a head of the first `size` items after about `total` reports in these shares."""
    head = ItemHead(size)
    head.extend_to(len(shares))
    counts = np.floor(total * shares).astype(np.int64)
    head.room("counts")[: len(shares)] = counts
    head.totals[:3] = counts.sum()
    head.room("recent")[: len(shares)] = recent_of(counts, int(counts.sum()))
    head.rows[:] = np.arange(size)
    head.derive()
    return head


def keys_of(items: int) -> np.ndarray:
    return np.arange(items, dtype=np.uint64)


@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("total", [10**5, 10**7, 10**9, 10**12])
def test_a_popular_new_item_is_in_after_a_thousand_ratings_and_a_day(
    total: int, power: float, rng: np.random.Generator
) -> None:
    """The item of the first tenth with the fewest ratings, in a stream of any age."""
    shares = 1 / np.arange(1, ITEMS + 1) ** power
    shares /= shares.sum()
    head = aged(total, np.append(shares, 0))
    shares = np.append(shares, shares[SIZE // 10])
    shares /= shares.sum()
    while head.room("counts")[ITEMS] < 1000:
        report(head, rng.multinomial(20_000, shares))
        head.elect(keys_of(ITEMS + 1), (7, 7))
    head.elect(keys_of(ITEMS + 1), (8, 8))
    assert head.slots[ITEMS] >= 0
    assert head.recent()[:ITEMS].sum() == pytest.approx(mass_of(int(head.totals[TOTAL])), rel=0.5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 3000), min_size=8, max_size=8),
    st.lists(st.integers(0, 3000), min_size=1, max_size=12),
    st.sampled_from([10**5, 10**8]),
)
def test_an_attacker_pushes_out_no_more_than_its_reports_outweigh(
    honest: list[int], forged: list[int], total: int
) -> None:
    """n items leave only if the weakest n have, times 5/4 and with 8 each, at most its reports."""
    shares = np.array([h / 8 / 3000 for h in honest] + [0.0] * len(forged))
    head = aged(total, shares, size=8)
    report(head, np.array([0] * 8 + forged))
    standing = np.sort(head.recent()[:8])
    won = head.elect(keys_of(len(shares)), (1, 1))
    # Both sides have decayed alike; half a report for integers.
    decay = 0.875 ** min(head.totals[STEPS], 8)
    needed = (1.25 * standing[: len(won)] * decay + 8).sum()
    assert needed <= sum(forged) + 0.5 * len(won)


def test_the_cheapest_push_succeeds_and_one_report_less_does_not() -> None:
    for short in (0, 1):
        head = aged(8000, np.array([0.5, 0.3, 0.2, 0.0]), size=3)
        report(head, np.array([0, 0, 0, 1600 * 5 // 4 + 8 - short]))
        head.totals[TOTAL] = 8000  # so that nothing decays
        won = head.elect(keys_of(4), (1, 1))
        assert won.tolist() == ([] if short else [2])


def test_decay_is_by_reports_and_a_long_round_counts_as_the_latest_reports() -> None:
    head = ItemHead(1)
    head.extend_to(2)
    report(head, np.array([1000, 23]))
    head.elect(keys_of(2))
    assert head.recent().tolist() == [1000, 23]
    report(head, np.array([1, 0]))
    head.elect(keys_of(2))
    assert head.recent().tolist() == [1001 * 7 / 8, 23 * 7 / 8]
    assert head.totals[STEPS] == 1
    report(head, np.array([10**6, 0]))
    head.elect(keys_of(2))
    assert 0.3e6 < head.recent()[0] < 0.4e6
    assert head.totals[STEPS] == 1 + 10**6 // (mass_of(10**6 + 1024) // 8)


def test_counts_of_a_long_life_do_not_overflow() -> None:
    counts = np.array([2**50, 2**49, 1])
    found = recent_of(counts, int(counts.sum()))
    assert found / 256 == pytest.approx([2**20 / 3, 2**19 / 3, 0], abs=1)
