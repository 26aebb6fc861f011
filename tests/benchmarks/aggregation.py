"""Campaigns: what a device seals a second, what a party checks and sums, and what its noise takes.

A party of two opens each contribution and checks its proof; "without proofs" is a second reading,
which opens and sums alone, as before proofs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stream_app.aggregation.collection import Collection, Record
from stream_app.aggregation.keys import PartyKeys, Role
from stream_app.campaigns.rounds import Rounds, StageState
from stream_app.campaigns.sealing import seal
from stream_app.privacy.gaussian.keyed_source import KeyedSource
from stream_app.privacy.gaussian.sampling import discrete_gaussian
from stream_app.privacy.randomness import SystemSource
from stream_app.wire.campaigns.contribution import encode_contribution
from stream_app.wire.campaigns.plan import Campaign, Stage
from stream_app.wire.campaigns.round_log import Close, Open, Planned
from stream_app.wire.ids import partition_of
from tests.benchmarks.figure import Figure

SIZES = {12_000: "12,000", 45_000: "45,000"}
DEVICES = 200
ROUNDS = 5
BOUND, VARIANCE = 2048, 1 << 28
PARTITIONS = 4


def measure() -> list[Figure]:
    """Return rates per processor second, the best of several runs."""
    figures = []
    for size in SIZES:
        figures += _of_size(size)
    return figures


def _of_size(size: int) -> Iterator[Figure]:
    name = SIZES[size]
    for roles in ((Role.A, Role.B), (Role.CENTRAL,)):
        keys = tuple(PartyKeys.random(role) for role in roles)
        campaign = _campaign(keys, size)
        records = _records(campaign)
        for place, own in enumerate(keys):
            label = f"contributions of {name} integers summed, party {own.role}"
            target = ">= 2500" if size == 12_000 else ""
            counted = np.ones(DEVICES, np.bool_) if len(keys) == 2 else None
            seconds = _best(partial(_sum, campaign, own, place, records, counted))
            yield Figure(label, DEVICES / seconds, "/s", "" if len(keys) == 2 else target)
            if len(keys) == 2:
                checked = _best(partial(_sum, campaign, own, place, records))
                target = ">= 100" if size == 12_000 else ""
                yield Figure(f"{label}, with proofs", DEVICES / checked, "/s", target)
        if len(keys) == 2:
            size_bytes = len(records[0].value or b"")
            yield Figure(f"a contribution of {name} integers", size_bytes / 1e3, "kB")
        vector = _vectors(size)[0]
        seconds = _best(partial(_seal_twice, campaign, vector))
        mode = "split" if len(keys) == 2 else "central"
        yield Figure(f"a device seals {name} integers, {mode}", 500 * seconds, "ms", "<= 60")
    seconds = _best(lambda: discrete_gaussian(Fraction(VARIANCE), size, KeyedSource(bytes(32))))
    yield Figure(f"noise of {name} integers", 1000 * seconds, "ms")


def _seal_twice(campaign: Campaign, vector: NDArray[np.integer]) -> None:
    for _ in range(2):
        seal(campaign, 0, bytes(16), vector, SystemSource())


def _sum(
    campaign: Campaign,
    keys: PartyKeys,
    party: int,
    records: list[Record],
    counted: NDArray[np.bool_] | None = None,
) -> None:
    collection = Collection(campaign, _closed(campaign), party, keys, counted)
    for record in records:
        collection.add(record)
    found = collection.finished()
    assert found.opened.all()
    assert len(found.opened) == DEVICES


def _campaign(keys: tuple[PartyKeys, ...], size: int) -> Campaign:
    stage = Stage("stars", size, BOUND, VARIANCE, Fraction(1), 2, 100)
    public = tuple(each.public.hex() for each in keys)
    parties = 1 if len(keys) == 1 else 2
    return Campaign(1, Fraction(2), Fraction(1, 10**6), parties, (1,), (stage,), public)


def _closed(campaign: Campaign) -> StageState:
    rounds = Rounds()
    ends = (DEVICES,) * PARTITIONS
    rounds.apply(Planned(campaign))
    rounds.apply(Open(campaign.digest, 0, (0,) * PARTITIONS))
    rounds.apply(Close(campaign.digest, 0, ends))
    return rounds.stages[0]


def _records(campaign: Campaign) -> list[Record]:
    found = []
    for number, vector in enumerate(_vectors(campaign.stages[0].size)):
        made = seal(campaign, 0, number.to_bytes(16, "big"), vector, SystemSource())
        place = partition_of(made.key, PARTITIONS)
        found.append(Record(place, number, made.key, encode_contribution(made)))
    return found


def _vectors(size: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    most = int(BOUND / size**0.5)
    return rng.integers(-most, most + 1, (DEVICES, size), dtype=np.int32)


def _best(run: Callable[[], object]) -> float:
    """Return the processor seconds of the fastest of several runs."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)
