"""Where the group of the queries goes on: never behind a query without an outcome."""

from __future__ import annotations

from itertools import permutations

import pytest

from stream_app.agents.queries.answers import Accepted


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_the_group_goes_on_with_the_first_query_that_has_no_outcome(order: tuple[int, ...]) -> None:
    accepted = Accepted()
    accepted.begin(2)
    done = [accepted.read(2, 10 + 3 * number) for number in range(4)]  # offsets may have gaps
    assert accepted.places() == {2: 10}
    place, left = 10, set(range(4))
    for number in order:
        done[number]()
        left.discard(number)
        first = 10 + 3 * min(left) if left else 20
        assert accepted.places() == ({} if first == place else {2: first})
        assert accepted.waiting([2]) == len(left)
        place = first


def test_a_partition_that_was_taken_away_is_committed_no_more() -> None:
    accepted = Accepted()
    accepted.begin(0)
    late = accepted.read(0, 5)
    accepted.end(0)
    after = accepted.read(0, 6)
    accepted.begin(0)
    again = accepted.read(0, 5)
    late()
    after()
    assert accepted.partitions == [0]
    assert accepted.places() == {0: 5}
    again()
    assert accepted.places() == {0: 6}
