"""No schedule of crashes, two owners and lost or late changes makes shards count wrongly."""

from __future__ import annotations

import pytest

from stream_app.log.exchange_order import Exchange
from tests.simulation.shards import Delta, Process, Schedule

SEEDS = 25


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(3_000, marks=pytest.mark.nightly)])
def test_every_shard_holds_every_rating_once(seeds: int) -> None:
    seen: dict[str, int] = {}
    for seed in range(seeds):
        schedule = Schedule(seed)
        schedule.run()
        seen = {name: seen.get(name, 0) + count for name, count in schedule.seen.items()}
    assert all(2 * count >= seeds for count in seen.values()), seen


class AnyNumber(Exchange):
    """Counts a change whatever its number is."""

    def deliver(self, shard, offset, change, size):
        if change is not None:
            self._counted[shard] = change.number - 1
        return super().deliver(shard, offset, change, size)


class Doubling(Process):
    order = AnyNumber


class OwnTwice(Process):
    """Adds its own change to its counts once more."""

    def merge(self, change: Delta) -> None:
        super().merge(change)
        if change.shard == self.shard:
            for item, count in enumerate(change.counts):
                self.counts[item] += count


class Forgetful(Process):
    """Starts again without what its state has merged."""

    def __init__(self, shard, state, topics):
        super().__init__(shard, state._replace(merged=type(state.merged).nothing(3)), topics)


@pytest.mark.parametrize("mutant", [Doubling, OwnTwice, Forgetful])
def test_a_mutant_of_the_exchange_is_found(mutant: type[Process]) -> None:
    def run_all() -> None:
        for seed in range(SEEDS):
            Schedule(seed, mutant).run()

    with pytest.raises(AssertionError):
        run_all()
