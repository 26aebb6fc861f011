"""Every user has one shard, and a query reaches it in one step from wherever it was written."""

from __future__ import annotations

import pytest

from stream_app.agents.queries.reader import ShardQueries
from stream_app.kafka.broker_answers import place_of
from stream_app.wire import Query
from stream_app.wire.ids import partition_of

USERS = [f"{number:032x}" for number in range(200)]


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("partitions", [12, 24, 48])
def test_a_query_is_read_by_the_shard_that_learns_the_ratings_of_its_user(
    shards: int, partitions: int
) -> None:
    every = [ShardQueries(shards, shard) for shard in range(shards)]
    for user in USERS:
        owner = partition_of(user.encode(), 24) % shards
        place = place_of(Query("0" * 16, user, 3, 0), partitions)
        assert [each.holds(user) for each in every] == [s == owner for s in range(shards)]
        assert [each.reads(place) for each in every] == [s == owner for s in range(shards)]


@pytest.mark.parametrize("partitions", [4, 5, 7, 12, 13])
def test_a_query_that_is_written_again_comes_to_its_shard_also_where_the_topic_has_grown(
    partitions: int,
) -> None:
    every = [ShardQueries(4, shard) for shard in range(4)]
    for user in USERS:
        (owner,) = (each for each in every if each.holds(user))
        places = {each.place(user, partitions) for each in every}
        assert len(places) == 1
        assert owner.reads(place := places.pop())
        assert place < partitions
