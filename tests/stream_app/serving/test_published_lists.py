"""Private lists by the published table: the scores, and what a report of the asker changes."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

from stream_app.serving.together import private_lists
from stream_app.serving.together.co_rated import NoisedSimilarities
from stream_app.wire import Guarantee
from tests.fixtures.similarity_tables import a_table
from tests.stream_app.serving.test_private_lists import LENGTH, replica_of

AMONG = np.arange(98, 115, dtype=np.uint64)  # of which 100 to 111 are in the table


def test_the_scores_are_sums_of_capped_links_of_the_table() -> None:
    table = NoisedSimilarities(a_table())
    history = np.array([105, 50, 100], np.uint64)
    slots = {key: slot for slot, key in enumerate(table.keys.tolist())}
    for cap in (0.1, 0.7, 1.0):
        found = private_lists.published_scores(table, history, AMONG, cap)
        for item, score in zip(AMONG.tolist(), found.tolist(), strict=True):
            terms = [
                min(float(table.similarities[slots[k], slots[item]]), cap) / cap
                for k in (105, 100)
                if item in slots
            ]
            np.testing.assert_allclose(score, sum(terms), atol=1e-12)
        assert found.max() > 0
    assert (private_lists.published_scores(table, history[:0], AMONG) == 0).all()


def test_the_history_is_of_the_newest_items_that_a_list_always_holds() -> None:
    items = np.random.default_rng(1).permutation(60).tolist()
    device = (1).to_bytes(16, "little")
    for count in (10, 31, 32, 33):
        held = private_lists.rated(replica_of({1: items[:count]}), device)
        assert held.tolist() == items[max(0, count - LENGTH) : count]


def test_no_report_changes_the_chance_of_a_list_by_more_than_epsilon() -> None:
    """A report more, in place of another, and one that pushes the oldest out, searched at
    random; the largest change of a score is 1, and is reached."""
    rng, epsilon = np.random.default_rng(2), Fraction(3)
    subset = private_lists.mechanism(16, 2, epsilon, published=True)
    sets, moved, ratio = list(combinations(range(len(AMONG)), 2)), 0.0, 0.0
    for step in range(200):
        table = NoisedSimilarities(a_table(seed=step))
        items = rng.permutation(table.keys)
        before = items[: int(rng.integers(0, 5))]
        first = int(len(before) and rng.integers(0, 2))
        after = np.append(before[first:], items[-1])
        scores = [private_lists.published_scores(table, each, AMONG) for each in (before, after)]
        moved = max(moved, float(np.abs(scores[1] - scores[0]).max()))
        chances = [subset.log_likelihood(sets, each) for each in scores]
        ratio = max(ratio, float(np.abs(chances[1] - chances[0]).max()))
    assert moved == subset.sensitivity == 1.0
    assert 0.4 * epsilon < ratio <= epsilon


def test_the_guarantee_names_the_table() -> None:
    found = private_lists.guarantee(Fraction(1, 2), published=True)
    assert found == Guarantee(private_lists.PUBLISHED_ADJACENCY, "1/2", "exact-k-subset")
    assert "published table" in found.adjacency
    assert len(found.adjacency) <= 240
